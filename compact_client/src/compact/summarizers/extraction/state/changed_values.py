"""Names that edits set to another value: the newest value, and the one before it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from compact.messages import Message
from compact.reading.call_arguments import named_path, parse_arguments
from compact.reading.lines.record_tables import strip_line_number
from compact.reading.state.file_ledger import changed_texts, failed_calls

_ASSIGNMENT: Final = re.compile(
    r"\s*(?:export |const |var |let |readonly |static |final |public |private )*"
    r"([A-Za-z_][\w.\[\]\"'-]{3,60})\s*(?::=|=|:)\s*([^=\s].{0,80}?)[,;]?\s*(?:(?://|#).*)?"
)
_MAX_LINE_CHARS: Final = 400
_UNFINISHED: Final = ("(", "{", "[")


class ChangedValue(NamedTuple):
    """A name with its newest and its previous value, and the position of the last edit."""

    file: str
    name: str
    new: str
    old: str
    position: int
    is_undone: bool = False

    @property
    def line(self) -> str:
        if self.is_undone:
            return f"{self.file}: the change of {self.name} to {self.new} was undone, it is {self.old} again"
        return f"{self.file}: {self.name} = {self.new} (was {self.old})"


def changed_values(messages: Sequence[Message]) -> list[ChangedValue]:
    """Return the names that successful edits set to another value, the last change of each."""
    failed = failed_calls(messages)
    values: dict[tuple[str, str], ChangedValue] = {}
    files_by_call: dict[str, str] = {}  # of the calls whose results may show that a change was undone
    for position, message in enumerate(messages):
        for call_id in message.answers:
            if call_id in files_by_call:
                _mark_undone(values, files_by_call[call_id], message.text, position)
        for call in message.tool_calls:
            if call.id in failed or not (values or "old" in call.arguments):
                continue
            arguments = parse_arguments(call.arguments)
            for value in _edit_values(arguments, position):
                values.pop((value.file, value.name), None)
                values[value.file, value.name] = value
            file = _file_name(arguments)
            if any(known == file for known, _ in values):
                files_by_call[call.id] = file
    return list(values.values())


def _mark_undone(values: dict[tuple[str, str], ChangedValue], file: str, text: str, position: int) -> None:
    """Mark the changes of a file whose old values it has again."""
    for name, current in _assignments(text, has_line_numbers=True).items():
        value = values.get((file, name))
        if value is not None and value.old == current:
            values[file, name] = value._replace(position=position, is_undone=True)


def _file_name(arguments: dict[str, Any]) -> str:
    return named_path(arguments).rpartition("/")[2]


def _edit_values(arguments: dict[str, Any], position: int) -> Iterator[ChangedValue]:
    old_text, new_text = changed_texts(arguments)
    if not old_text or not new_text:
        return
    file = _file_name(arguments)
    before, after = _assignments(old_text), _assignments(new_text)
    for name, old in before.items():
        new = after.get(name)
        # A name that is assigned twice is not one value, and an unfinished line is not a whole one.
        if new is None or new == old or old in new or new in old or old.endswith(_UNFINISHED):
            continue
        yield ChangedValue(file, name, new, old, position)


def _assignments(text: str, *, has_line_numbers: bool = False) -> dict[str, str]:
    """Return the names that are assigned once."""
    values: dict[str, str] = {}
    repeated: set[str] = set()
    for raw in text.split("\n"):
        line = strip_line_number(raw) if has_line_numbers else raw
        match = _ASSIGNMENT.fullmatch(line) if len(line) <= _MAX_LINE_CHARS else None
        if match is None:
            continue
        name, value = match.group(1), match.group(2).strip()
        if name in values:
            repeated.add(name)
        values[name] = value
    return {name: value for name, value in values.items() if name not in repeated}
