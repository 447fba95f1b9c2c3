"""Install a lock file with pip and show one line of progress.

Uses only the standard library because it runs before anything is installed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

_STEP = re.compile(r"^(Collecting|Requirement already satisfied:) ([A-Za-z0-9._-]+)")


def main() -> int:
    lock = Path(sys.argv[1])
    total = sum(1 for line in lock.read_text().splitlines() if re.match(r"[A-Za-z0-9]", line))
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-color",
        "--progress-bar=off",
    ]
    process = subprocess.Popen(  # noqa: S603 - our own interpreter
        [*command, "--require-hashes", "-r", str(lock)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    seen, output = 0, []
    for line in process.stdout:
        output.append(line)
        if match := _STEP.match(line):
            seen += 1
            _draw(f"resolving {match[2]}", seen, total)
        elif line.startswith("Installing collected packages"):
            _draw("unpacking …", total, total)
    _clear()
    if process.wait():
        sys.stderr.write("".join(output[-30:]))
    return process.returncode


def _draw(text: str, seen: int, total: int) -> None:
    if not sys.stdout.isatty():
        return
    width = 24
    filled = width * min(seen, total) // max(total, 1)
    line = f"  [{'█' * filled}{'·' * (width - filled)}] {min(seen, total)}/{total} {text}"
    sys.stdout.write("\r" + line[: shutil.get_terminal_size().columns - 1].ljust(70))
    sys.stdout.flush()


def _clear() -> None:
    if sys.stdout.isatty():
        sys.stdout.write("\r" + " " * (shutil.get_terminal_size().columns - 1) + "\r")


if __name__ == "__main__":
    sys.exit(main())
