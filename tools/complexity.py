"""Fail on functions above the cyclomatic complexity ceiling: `python -m tools.complexity`.

Measured by radon, which counts boolean operators and comprehensions too. Ruff's C901 does not.
"""

from __future__ import annotations

import sys
from pathlib import Path

from radon.complexity import cc_visit

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("ariadne", "ingest", "viewer", "compact_client/src/compact", "tools")
CEILING = 12


def main() -> int:
    complex_functions = [
        (block.complexity, f"{path.relative_to(ROOT)}:{block.lineno}", block.name)
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for block in cc_visit(path.read_text())
        if block.letter != "C" and block.complexity > CEILING
    ]
    for complexity, place, name in sorted(complex_functions, reverse=True):
        sys.stdout.write(f"{place}: {name} has a complexity of {complexity}, the ceiling is {CEILING}\n")
    return 1 if complex_functions else 0


if __name__ == "__main__":
    sys.exit(main())
