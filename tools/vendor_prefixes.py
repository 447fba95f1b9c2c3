"""Compare the table of vendor keys with public rule sets: `python -m tools.vendor_prefixes FILE_OR_FOLDER …`.

Reads `gitleaks.toml`, and the Go files of trufflehog's detectors or of any other rule set that compiles its expressions
with `regexp.MustCompile`. Prints each prefix that the table does not have, with the rule that has it. The rule sets are
not part of this repository.
"""

from __future__ import annotations

import re
import sys
import tomllib
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from compact.redaction.rules.vendors import VENDOR_KEYS

_GO_PATTERN = re.compile(r"regexp\.MustCompile\((?:detectors\.PrefixRegex\([^)]*\)\s*\+\s*)?`([^`]*)`")
_PREFIX = re.compile(r"(?=.*[-_.:~A-Z0-9])[A-Za-z][\w.:~$-]{2,23}")
# Shorter matches are names and hosts.
_MIN_KEY_CHARS = 12
_MAX_CHOICES = 4
_NO_TEXT = frozenset({ops.AT, ops.ASSERT, ops.ASSERT_NOT})


def absent(paths: Sequence[Path]) -> dict[str, str]:
    """Return the prefixes that the table does not have, each with the name of a rule that has it."""
    known = [prefix for vendor in VENDOR_KEYS for prefix in vendor.prefixes]
    prefixes: dict[str, str] = {}
    for path in paths:
        for rule, pattern in _patterns(path):
            for prefix in _prefixes(pattern):
                if not any(prefix.startswith(word) or word.startswith(prefix) for word in known):
                    prefixes.setdefault(prefix, rule)
    return prefixes


def _patterns(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the expressions of a rule set, each with the name of its rule."""
    if path.suffix == ".toml":
        for rule in tomllib.loads(path.read_text())["rules"]:
            if "regex" in rule:
                yield rule["id"], rule["regex"]
        return
    for file in sorted(path.rglob("*.go")):
        if not file.name.endswith("_test.go"):
            for match in _GO_PATTERN.finditer(file.read_text()):
                yield file.parent.name, match[1]


def _prefixes(pattern: str) -> Iterator[str]:
    """Yield the literal texts that the matches of an expression start with, if these can be keys."""
    try:
        tree = parser.parse(pattern.replace("(?i)", "").replace(r"\z", r"\Z"))
    except re.error:
        # Go has classes that Python does not have.
        return
    if tree.getwidth()[1] > _MIN_KEY_CHARS:
        yield from filter(_PREFIX.fullmatch, _heads(tree)[0])


def _heads(items: Any) -> tuple[list[str], bool]:
    """Return the literal texts that a sequence starts with. False if the whole sequence is literal."""
    heads = [""]
    for op, value in items:
        if op in _NO_TEXT:
            continue
        branches = _branches(op, value)
        if branches is None:
            return heads, True
        heads = [head + tail for head in heads for tails, _ in branches for tail in tails]
        if any(is_open for _, is_open in branches):
            return heads, True
    return heads, False


def _branches(op: Any, value: Any) -> list[tuple[list[str], bool]] | None:
    """Return the literal texts of each alternative of one item. None if it is no literal."""
    if op is ops.LITERAL:
        return [([chr(value)], False)]
    if op is ops.IN and len(value) <= _MAX_CHOICES and all(kind is ops.LITERAL for kind, _ in value):
        return [([chr(code) for _, code in value], False)]
    if op is ops.SUBPATTERN:
        return [_heads(value[3])]
    if op is ops.BRANCH:
        return [_heads(branch) for branch in value[1]]
    return None


def main() -> int:
    """Print the prefixes that are absent from the table."""
    if len(sys.argv) < 2:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    warnings.simplefilter("ignore")
    prefixes = absent([Path(name) for name in sys.argv[1:]])
    for prefix, rule in sorted(prefixes.items()):
        sys.stdout.write(f"{prefix:<24} {rule}\n")
    sys.stdout.write(f"{len(prefixes)} prefixes are not in the table.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
