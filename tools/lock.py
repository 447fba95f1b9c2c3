"""Compile the lock files from the two pyproject.toml.

The files carry hashes and no download address, so they install from whatever registry the machine is set up for.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OWN = "compact-client"


def main() -> None:
    server = tomllib.loads((ROOT / "pyproject.toml").read_text())
    client = tomllib.loads((ROOT / "compact_client/pyproject.toml").read_text())
    runtime = [d for d in server["project"]["dependencies"] if d != OWN]
    runtime += client["project"]["dependencies"] + server["build-system"]["requires"]
    extras = client["project"]["optional-dependencies"]
    # `all` names the others, and would name us.
    every_extra = [dependency for name, deps in extras.items() if name != "all" for dependency in deps]
    dev = server["dependency-groups"]["dev"] + every_extra
    # The larger set first: what satisfies the test tools also runs the server.
    lock("dev", [*runtime, *dev])
    narrower = ROOT / "requirements/dev.txt"
    lock("runtime", runtime, constraint=narrower)
    alone = client["project"]["dependencies"] + every_extra + server["dependency-groups"]["client-test"]
    lock("client", alone, constraint=narrower)


def lock(name: str, requirements: list[str], *, constraint: Path | None = None) -> None:
    target = ROOT / "requirements" / f"{name}.txt"
    with tempfile.NamedTemporaryFile("w", suffix=".in") as source:
        source.write("\n".join(requirements))
        source.flush()
        command = [
            *(sys.executable, "-m", "uv", "pip", "compile", source.name),
            *("--universal", "--python-version", "3.11", "--generate-hashes", "--no-annotate"),
            *("--no-emit-index-url", "--no-emit-find-links", "--quiet", "--no-header"),
            *("--custom-compile-command", "make lock", "--output-file", str(target)),
        ]
        if constraint:
            command += ["--constraint", str(constraint)]
        subprocess.run(command, check=True)  # noqa: S603 - our own interpreter, our own arguments


if __name__ == "__main__":
    main()
