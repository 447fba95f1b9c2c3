"""The lines of records in a summary: one per record, with the records that it contains indented below it.

    - reservation_id OBUT9V: cabin=economy, origin=DEN
     flight_number HAT266: date=2024-05-27, price=131

A record names its parent in its own text, `flight_number HAT266 (reservation_id OBUT9V): …`, so that it means the same
without the lines around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from compact.summary.entries import Record

_INDENT: Final = " "
_MAX_DEPTH: Final = 8  # The records below that start again without indentation.
_FIELD: Final = re.compile(r"(?:^|[:,] )([A-Za-z_][\w.-]*[=(])")
_NEXT_PAIR: Final = re.compile(r", (?=[A-Za-z_][\w.-]*[=(])(?![^(]*\))")  # not inside of brackets
_LIST: Final = re.compile(r"[^=(]+(?:\(([^()=:]+)\)|=([^,()]+))")
_GROUP: Final = re.compile(r"\([^()]*\)")

_Subjects = dict[str, list[str]]  # the lines of each subject


def record_lines(records: Iterable[Record]) -> Iterator[str]:
    """Render records, grouped by kind and below their parent, in chronological order."""
    by_parent: dict[str, _Subjects] = {}
    for record in sorted(records, key=lambda entry: entry.order):
        text = " ".join(record.text.split("\n"))
        subject, _, pairs = shown_text(text, record.parent).partition(": ")
        _add_line(by_parent.setdefault(record.parent, {}).setdefault(subject, []), subject, pairs)
    subjects = {subject for children in by_parent.values() for subject in children}
    by_kind: dict[str, _Subjects] = {}
    for subject, lines in by_parent.pop("", {}).items():
        by_kind.setdefault(subject.partition(" ")[0], {})[subject] = lines
    for roots in by_kind.values():
        yield from _tree_lines(roots, by_parent, 0)
    # The others have a parent without a line of its own, or they contain each other.
    for parent in sorted(by_parent, key=subjects.__contains__):
        if parent in by_parent:
            yield from _tree_lines({parent: [f"{parent}:"]}, by_parent, 0)


def split_pairs(text: str) -> list[str]:
    """Split the pairs of a record: `cabin=economy, flights(HAT266, HAT229)`."""
    return _NEXT_PAIR.split(text)


def shown_text(text: str, parent: str) -> str:
    """Return the text that a summary shows for a record. It stands below its parent and does not repeat its name."""
    return text.replace(f" ({parent})", "", 1) if parent else text


def _add_line(lines: list[str], subject: str, pairs: str) -> None:
    """Join the lines of a subject, unless they have the same field: a flight number is used every day."""
    if pairs and lines and _fields(pairs).isdisjoint(_fields(lines[-1])):
        lines[-1] += f", {pairs}"
    else:
        lines.append(f"{subject}: {pairs}" if pairs else subject)


def _fields(text: str) -> set[str]:
    """Return the names of the fields in a text, without those inside of brackets."""
    return set(_FIELD.findall(_GROUP.sub("(", text)))


def _tree_lines(subjects: _Subjects, by_parent: dict[str, _Subjects], depth: int) -> Iterator[str]:
    """Render subjects and their children, which are removed so that each is rendered once."""
    for subject, lines in subjects.items():
        children = by_parent.pop(subject, {}) if depth < _MAX_DEPTH else {}
        names = {child.partition(" ")[2] for child in children}
        shown = dict.fromkeys(_without_list(line, names) for line in lines)
        if len(shown) > 1:
            shown.pop(f"{subject}:", None)
        yield from (f"{_INDENT * depth or '- '}{line}" for line in shown)
        yield from _tree_lines(children, by_parent, depth + 1)


def _without_list(line: str, names: set[str]) -> str:
    """Return the line of a record without lists that only name the records below it."""
    subject, _, pairs = line.partition(": ")
    if not names or not pairs:
        return line
    kept = [pair for pair in split_pairs(pairs) if not _lists_only(pair, names)]
    return f"{subject}: {', '.join(kept)}" if kept else f"{subject}:"


def _lists_only(pair: str, names: set[str]) -> bool:
    match = _LIST.fullmatch(pair)
    return match is not None and all(name in names for name in (match.group(1) or match.group(2)).split(", "))


class RecordReader:
    """Reads the lines of records in order, and remembers the parents of the next one."""

    def __init__(self) -> None:
        self._subjects: list[str] = []

    def read(self, line: str, order: int) -> Record | None:
        """Return the record of a line, or None for the heading of a parent without a line of its own."""
        text = line.lstrip(_INDENT)
        del self._subjects[len(line) - len(text) :]
        parent = self._subjects[-1] if self._subjects else ""
        subject, colon, pairs = text.removeprefix("- ").partition(": ")
        self._subjects.append(subject.removesuffix(":"))
        if not colon and subject.endswith(":"):
            return None
        return Record(
            f"{subject} ({parent}){colon}{pairs}" if parent else f"{subject}{colon}{pairs}", order=order, parent=parent
        )
