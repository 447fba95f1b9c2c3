"""Install a lock file with pip and show one line of progress.

Uses only the standard library because it runs before anything is installed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

_STEP = re.compile(r"^(Collecting|Requirement already satisfied:) ([A-Za-z0-9._-]+)")
_FILE = re.compile(r"^\s+(Downloading|Using cached) (\S+) \(([\d.]+) ([kMG]?B)\)")
_MEGABYTES = {"B": 1e-6, "kB": 1e-3, "MB": 1.0, "GB": 1e3}


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
    seen, downloaded_mb, output = 0, 0.0, []
    started_at = time.monotonic()
    for line in process.stdout:
        output.append(line)
        if match := _STEP.match(line):
            seen += 1
            _draw(f"{downloaded_mb:.0f} MB  {match[2]}", seen, total)
        elif match := _FILE.match(line):
            size_mb = float(match[3]) * _MEGABYTES[match[4]]
            downloaded_mb += size_mb if match[1] == "Downloading" else 0.0
            _draw(f"{downloaded_mb:.0f} MB  {match[2].partition('-')[0]} ({size_mb:.1f} MB)", seen, total)
        elif line.startswith("Installing collected packages"):
            _draw(f"{downloaded_mb:.0f} MB downloaded, installing …", total, total)
    _clear()
    if process.wait():
        sys.stderr.write("".join(output[-30:]))
    else:
        elapsed_s = time.monotonic() - started_at
        sys.stdout.write(f"  {total} packages, {downloaded_mb:.0f} MB downloaded, {elapsed_s:.0f} s\n")
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
