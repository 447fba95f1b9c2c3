"""Install a lock file with uv, or with pip where uv does not work, and show the progress.

uv is taken from PATH, else from the package index, as a wheel. Uses only the standard library because it runs before
anything is installed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

UV_LOCK = Path(__file__).resolve().parent.parent / "requirements" / "uv.txt"
# Where stdout is a pipe, at most one line in this time.
LINE_INTERVAL_S = 2.0
_PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-color"]
_PIP_INSTALL = [*_PIP, "install", "--progress-bar=off"]
# The lines of uv and of pip that tell about progress. The others list versions.
_PROGRESS = re.compile(
    r"\s*((?:Resolved|Downloading|Downloaded|Prepared|Installed|Bytecode compiled|Building|Built|Collecting) .+"
    r"|Installing collected packages)"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("lock", type=Path)
    parser.add_argument("-e", "--editable", nargs="*", default=[], help="folders to install in place")
    options = parser.parse_args()
    started_at = time.monotonic()
    steps = [["--require-hashes", "-r", str(options.lock)]]
    if options.editable:
        folders = [part for folder in options.editable for part in ("-e", folder)]
        steps.append(["--no-deps", "--no-build-isolation", *folders])
    code, output = _install(_uv_install(), steps)
    if code:
        _say(f"uv does not work here: {output[-1].strip()}")
        code, output = _install(_PIP_INSTALL, steps)
    if code:
        sys.stderr.write("".join(output[-30:]))
        return code
    total = sum(1 for line in options.lock.read_text().splitlines() if re.match(r"[A-Za-z0-9]", line))
    _say(f"{total} packages, {time.monotonic() - started_at:.0f} s")
    return 0


def _install(installer: list[str], steps: list[list[str]]) -> tuple[int, list[str]]:
    """Run the steps with one installer. Return the exit code and the output of the last step that ran."""
    code, output = 1, ["not found"]
    for step in steps if installer else []:
        code, output = _run([*installer, *step])
        if code:
            break
    return code, output or ["no output"]


def _uv_install() -> list[str]:
    """Return the command with which uv installs into this environment. It is empty if uv is not available."""
    folder = str(Path(sys.executable).parent)
    uv = shutil.which("uv") or shutil.which("uv", path=folder)
    if uv is None:
        _say("Getting uv, which installs faster than pip …")
        _run([*_PIP_INSTALL, "--require-hashes", "-r", str(UV_LOCK)])
        uv = shutil.which("uv", path=folder)
    if uv is None:
        return []
    # uv ignores the configuration of pip. Without byte code, the first start of the server would compile all modules.
    index = ["--default-index", url] if (url := _index_of_pip()) and "UV_DEFAULT_INDEX" not in os.environ else []
    return [uv, "pip", "install", "--color=never", "--compile-bytecode", "--python", sys.executable, *index]


def _index_of_pip() -> str:
    command = [*_PIP, "config", "get", "global.index-url"]
    configured = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603 - ours
    return os.environ.get("PIP_INDEX_URL", configured)


def _run(command: list[str]) -> tuple[int, list[str]]:
    """Run an installer, and show its progress. Return its exit code and its output."""
    process = subprocess.Popen(  # noqa: S603 - our own commands
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    output: list[str] = []
    shown_at = float("-inf")
    for line in process.stdout:
        output.append(line)
        if not (match := _PROGRESS.match(line)):
            continue
        if sys.stdout.isatty():
            width = shutil.get_terminal_size().columns - 1
            sys.stdout.write("\r" + f"  {match[1]}"[:width].ljust(width))
        elif time.monotonic() - shown_at >= LINE_INTERVAL_S:
            shown_at = time.monotonic()
            _say(match[1].partition(" --")[0])
        sys.stdout.flush()
    if sys.stdout.isatty():
        sys.stdout.write("\r" + " " * (shutil.get_terminal_size().columns - 1) + "\r")
    return process.wait(), output


def _say(text: str) -> None:
    sys.stdout.write(f"  {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
