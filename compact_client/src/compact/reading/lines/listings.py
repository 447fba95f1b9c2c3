"""Shorten listings in tool outputs: paths, the rows of `ls -l`, packages that `go test` names, and imports of Go."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

MAX_OUTPUT_CHARS: Final = 200  # Tool output and code carry less information per character.
_PATH_LINE: Final = re.compile(r"[~.\w@+-]*(?:/[\w.@+-]+)+/?")
_IMPORTS_START: Final = "import (\n"  # of Go
_IMPORTS: Final = re.compile(r"import \(\n[^)]*+\)")
_PACKAGE: Final = re.compile(r'^([\s\d→|]*+)("[\w.-]++(?:/[\w.-]++)+")$', re.MULTILINE)
_PATHS_LABEL: Final = "listed files: "
# A row of `ls -l`. Its name is a tenth of it, and the rest is hardly ever needed again.
_LISTED_FILE: Final = re.compile(
    r"([d-])[rwxsStT-]{9}[.+@]? +\d+ +\S+ +\S+ +\d+ +(?:\w{3} +\d+|\d+ +\w{3}|\d{4}-\d\d-\d\d) +[\d:]+ +([^ ]+)"
)
_PASSED_LABEL: Final = "passed packages: "
_UNTESTED_LABEL: Final = "packages without tests: "
_LISTED_PACKAGE: Final = re.compile(r"ok\s+(\S+)\s+(?:\(cached\)|[\d.]+s)(?:\s.*)?|\?\s+(\S+)\s+\[no test files\]")
_LISTING_SUM: Final = re.compile(r"total \d+")
_MIN_LISTED_PATHS: Final = 2
_PATHS_PER_LINE: Final = 3


def is_path(line: str) -> bool:
    return "/" in line and " " not in line and "\t" not in line and _PATH_LINE.fullmatch(line) is not None


def split_imports(text: str) -> str:
    """Write each imported package as a statement, because its path alone says nothing."""
    if _IMPORTS_START not in text:
        return text
    return _IMPORTS.sub(lambda imports: _PACKAGE.sub(r"\1import \2", imports.group()), text)


def fold_listings(text: str) -> str:
    """Replace the rows of `ls -l` and the packages that `go test` lists by lines of names."""
    if "rw-" not in text and "ok  \t" not in text and "[no test files]" not in text:
        return text
    lines: list[str] = []
    names: dict[str, list[str]] = {}
    for line in text.split("\n"):
        row = _listed_row(line.strip())
        if row is not None:
            names.setdefault(row.label, []).extend(row.names)
            continue
        _add_names(lines, names)
        lines.append(line)
    _add_names(lines, names)
    return "\n".join(lines)


class _ListedRow(NamedTuple):
    label: str
    names: Sequence[str]


def _listed_row(line: str) -> _ListedRow | None:
    """Return what a row of a listing names, which is nothing for its first line, or None for any other line."""
    if match := _LISTED_FILE.fullmatch(line):
        kind, name = match.groups()
        return _ListedRow(_PATHS_LABEL, () if name in (".", "..") else (f"{name}/" if kind == "d" else name,))
    if match := _LISTED_PACKAGE.fullmatch(line):
        passed, untested = match.groups()
        return _ListedRow(_PASSED_LABEL, (passed,)) if passed else _ListedRow(_UNTESTED_LABEL, (untested,))
    return _ListedRow(_PATHS_LABEL, ()) if _LISTING_SUM.fullmatch(line) else None


def _add_names(lines: list[str], names_by_label: dict[str, list[str]]) -> None:
    """Add the names of a listing as lines with a label, and forget them."""
    for label, names in names_by_label.items():
        line = label
        for name in names:
            if len(line) + len(name) > MAX_OUTPUT_CHARS and line != label:
                lines.append(line.rstrip())
                line = label
            line += f"{name} "
        if names:
            lines.append(line.rstrip())
    names_by_label.clear()


def add_paths(lines: list[str], paths: list[str]) -> None:
    """Add a listing of paths as lines of several paths with a label."""
    if len(paths) < _MIN_LISTED_PATHS:
        lines += paths
        return
    for start in range(0, len(paths), _PATHS_PER_LINE):
        lines.append(f"{_PATHS_LABEL}{' '.join(paths[start : start + _PATHS_PER_LINE])}")
