"""Names that edits set to another value: the newest value, and the one before it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from compact.messages import Message
from compact.summarizers.extraction.file_ledger import changed_texts, edited_path, failed_calls, parse_arguments

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

    @property
    def line(self) -> str:
        return f"{self.file}: {self.name} = {self.new} (was {self.old})"


def changed_values(messages: Sequence[Message]) -> list[ChangedValue]:
    """Return the names that successful edits set to another value, the last change of each."""
    failed = failed_calls(messages)
    values: dict[tuple[str, str], ChangedValue] = {}
    for position, message in enumerate(messages):
        for call in message.tool_calls:
            if call.id in failed or "old" not in call.arguments:
                continue
            for value in _edit_values(parse_arguments(call.arguments), position):
                key = (value.file, value.name)
                values.pop(key, None)
                values[key] = value
    return list(values.values())


def _edit_values(arguments: dict[str, Any], position: int) -> Iterator[ChangedValue]:
    old_text, new_text = changed_texts(arguments)
    if not old_text or not new_text:
        return
    file = edited_path(arguments).rpartition("/")[2]
    before, after = _assignments(old_text), _assignments(new_text)
    for name, old in before.items():
        new = after.get(name)
        # A name that is assigned twice is not one value, and an unfinished line is not a whole one.
        if new is None or new == old or old in new or new in old or old.endswith(_UNFINISHED):
            continue
        yield ChangedValue(file, name, new, old, position)


def _assignments(text: str) -> dict[str, str]:
    """Return the names that are assigned once."""
    values: dict[str, str] = {}
    repeated: set[str] = set()
    for line in text.split("\n"):
        match = _ASSIGNMENT.fullmatch(line) if len(line) <= _MAX_LINE_CHARS else None
        if match is None:
            continue
        name, value = match.group(1), match.group(2).strip()
        if name in values:
            repeated.add(name)
        values[name] = value
    return {name: value for name, value in values.items() if name not in repeated}
