"""Compile the lock files from the two pyproject.toml files.

The lock files contain hashes but no download addresses, so they install from any package index.
"""

from __future__ import annotations

import re
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
    # `all` refers to the other extras of this package.
    every_extra = [dependency for name, deps in extras.items() if name != "all" for dependency in deps]
    every_extra_of_server = [d for deps in server["project"]["optional-dependencies"].values() for d in deps]
    dev = server["dependency-groups"]["dev"] + every_extra + every_extra_of_server
    # Compile the largest set first. The others are constrained by it, so that all three agree.
    lock("dev", [*runtime, *dev])
    dev_lock = ROOT / "requirements/dev.txt"
    lock("runtime", runtime, constraint=dev_lock)
    client_only = client["project"]["dependencies"] + every_extra + server["dependency-groups"]["client-test"]
    lock("client", client_only, constraint=dev_lock)
    # For tools/install.py, which gets uv before anything else.
    lock("uv", [d for d in dev if d.startswith("uv~=")], constraint=dev_lock)
    for group in ("bench", "docs", "node"):
        lock(group, server["dependency-groups"][group], constraint=dev_lock)


def lock(name: str, requirements: list[str], *, constraint: Path | None = None) -> None:
    target = ROOT / "requirements" / f"{name}.txt"
    with tempfile.NamedTemporaryFile("w", suffix=".in") as source:
        source.write("\n".join(requirements))
        source.flush()
        command = [
            *(sys.executable, "-m", "uv", "pip", "compile", source.name),
            *("--universal", "--python-version", "3.11", "--generate-hashes", "--no-annotate", "--no-strip-extras"),
            *("--no-emit-index-url", "--no-emit-find-links", "--quiet", "--no-header"),
            *("--custom-compile-command", "make lock", "--output-file", str(target)),
        ]
        if constraint:
            command += ["--constraint", str(constraint)]
        subprocess.run(command, check=True)  # noqa: S603 - fixed arguments
    # pip 23 needs extras in the lock file, but fails if another package spells one with an underscore.
    target.write_text(re.sub(r"(?m)^([\w.-]+)\[[\w,]*-[\w,-]*\]==", r"\1==", target.read_text()))


if __name__ == "__main__":
    main()
