"""The newest state of every record, with the fields that are used most first.

A later result replaces the fields of an earlier one, and a changed value is shown as `new (was old)`. Fields whose
values the user or the assistant mentioned, or that are named like an argument of a call, are likely to be used again.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from compact.messages import Message
from compact.reading.blocks import Block
from compact.reading.call_arguments import parse_arguments
from compact.reading.lines.record_lines import (
    Record,
    is_child,
    is_group,
    join_pairs,
    parse_record,
    record_subject,
)
from compact.reading.text_cache import TextCache
from compact.summary.entries import Record as RecordEntry

_WORD: Final = re.compile(r"[\w@.:/+-]*\w")
_FIELD: Final = re.compile(r"[^=(]+")
_TRIVIAL: Final = frozenset({"true", "false", "yes", "no", "none", "null", "0", "1", "ok"})
_DATE_FIELDS: Final = frozenset({"date", "day", "start_date"})
_TIME_FIELD: Final = re.compile(r"(?:_at|_time|At|Time|timestamp|duration(?:_ms)?)$")
_MAX_ARGUMENT_CHARS: Final = 2_000
_MAX_OLD_CHARS: Final = 40
_LONG_VALUE: Final = re.compile(r"<\d+ characters>")
_PRIOR: Final = 0.1  # the use of a field that no value shows to be used
_ARGUMENT_PRIOR: Final = 0.4
_MIN_SHARED: Final = 3
# What the lines of a record are worth, in parts of the reuse score of its id. The first one has the most used fields.
FIRST_LINE_VALUE: Final = 0.4
_NEXT_LINE_VALUE: Final = 0.1
_USE_VALUE: Final = 0.5  # for each field that is certainly used
# A record, and the records inside it, are worth more if it has to do with what was said last.
_LAST_MESSAGES: Final = 6
_MATCH_VALUE: Final = 0.8  # for each value that no other record has
_MAX_MATCHES: Final = 3
_SHOWN_VALUE: Final = 0.3  # of a record that a message in the prompt describes

_Key = tuple[str, str, int]


@dataclass(slots=True)
class _State:
    """The fields of a record so far, and the results they come from."""

    record: Record
    position: int
    size: int
    sources: tuple[str, ...]
    fields: dict[str, list[str]] = field(default_factory=dict)


class RecordStates:
    """Collects records in order. Records of an earlier summary come first."""

    def __init__(self) -> None:
        self._states: dict[_Key, _State] = {}
        self._last_key: _Key | None = None

    def add(self, block: Block) -> bool:
        """Add the records of a block. Return False if it has none."""
        if block.records:
            self._add_result(block)
            return True
        return isinstance(block.entry, RecordEntry) and self._add_line(block, block.entry.parent)

    def _add_result(self, block: Block) -> None:
        """Add the records of a tool result. They replace those of earlier results."""
        counts: Counter[tuple[str, str]] = Counter()
        for record in block.records:
            identity = (_identity(record), record.parent)
            # An id that occurs twice in one result is two records.
            self._add((*identity, counts[identity]), record, block)
            counts[identity] += 1

    def _add_line(self, block: Block, parent: str) -> bool:
        """Add a line of an earlier summary. Return False if it is not the line of a record."""
        record = parse_record(block.lines[0], parent)
        if record is None:
            return False
        key = (_identity(record), record.parent, 0)
        last = self._states.get(self._last_key) if self._last_key else None
        if last is not None and (last.record.label, last.record.parent) == (record.label, record.parent):
            key = self._last_key or key  # the next line of the same record
        state = self._states.setdefault(key, _State(record, block.position, len(block.lines[0]), block.sources))
        for pair in record.pairs:
            pairs = state.fields.setdefault(_field_name(pair), [])
            if pair not in pairs:
                pairs.append(pair)
        self._last_key = key
        return True

    def remove_shown(self, block: Block) -> None:
        """Remove the fields that a result in the prompt shows again."""
        for record in block.records:
            state = self._states.get((_identity(record), record.parent, 0))
            if state is not None:
                shown = set(map(_field_name, record.pairs))
                state.fields = {name: pairs for name, pairs in state.fields.items() if name not in shown}

    def blocks(self, messages: Sequence[Message], visible: Sequence[Message]) -> Iterator[Block]:
        """Yield one block per record, with the most used fields first. `visible` are the messages that stay."""
        states = [state for state in self._states.values() if state.fields]
        if not states:
            return
        use, relevance = _FieldUse(messages, states), _Relevance(messages, visible, states)
        for state in states:
            pairs = sorted(
                ((use.weight(state.record, pair), pair) for pairs in state.fields.values() for pair in pairs),
                key=lambda item: (-item[0], is_group(item[1])),
            )
            lines = list(join_pairs(record_subject(state.record), (pair for _, pair in pairs)))
            factor = relevance.of(state.record)
            values = [factor * value for value in _line_values(lines, pairs)]
            parent = state.record.parent if is_child(state.record) else ""
            yield Block(lines, "record", state.sources, state.position, size=state.size, values=values, parent=parent)

    def _add(self, key: _Key, record: Record, block: Block) -> None:
        fields: defaultdict[str, list[str]] = defaultdict(list)
        for pair in record.pairs:
            fields[_field_name(pair)].append(pair)
        state = self._states.pop(key, None)
        if state is None:
            state = _State(record, block.position, block.size, block.sources)
        for name, pairs in fields.items():
            state.fields[name] = _replace(name, state.fields.get(name), pairs)
        state.position, state.size = block.position, min(state.size, block.size)
        state.sources = tuple(dict.fromkeys((*state.sources, *block.sources)))
        self._states[key] = state  # at the end, where its newest result is


class _FieldUse:
    """Estimates how likely the value of a field is to be used again, by kind of record and field."""

    def __init__(self, messages: Sequence[Message], states: Iterable[_State]) -> None:
        self._said, arguments = _said_words(messages)
        totals: Counter[tuple[str, str]] = Counter()
        used: Counter[tuple[str, str]] = Counter()
        values: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for state in states:
            kind = _kind(state.record)
            for name, pairs in state.fields.items():
                totals[kind, name] += 1
                used[kind, name] += any(map(self._is_mentioned, pairs))
                values[kind, name].add(pairs[0])
        # A value that many records share does not tell them apart.
        self._constant = {key for key, total in totals.items() if total >= _MIN_SHARED and len(values[key]) == 1}
        self._use = {
            key: (used[key] + (_ARGUMENT_PRIOR if key[1] in arguments else _PRIOR)) / (total + 1.0)
            for key, total in totals.items()
        }

    def weight(self, record: Record, pair: str) -> float:
        """Return a figure from 0 to 1. Values that were mentioned have the highest."""
        name = _field_name(pair)
        key = (_kind(record), name)
        if name in _DATE_FIELDS:
            return 1.0  # part of the identity of a record
        if key in self._constant:
            return 0.0
        use = self._use.get(key, _PRIOR)
        return round(max(use, 0.6) if self._is_mentioned(pair) else use, 1)

    def _is_mentioned(self, pair: str) -> bool:
        value = pair[len(_field_name(pair)) + 1 :].lower()
        if is_group(pair):
            return any(word in self._said for word in _WORD.findall(value) if len(word) > 4)
        return _was_said(value, self._said)


class _Relevance:
    """Estimates how much each record has to do with the last messages, by those of its values that they contain.

    If a message that stays in the prompt names a record, it probably says what matters about it, too.
    """

    def __init__(self, messages: Sequence[Message], visible: Sequence[Message], states: Sequence[_State]) -> None:
        spoken = [message for message in messages if message.role in ("user", "assistant")]
        said, _ = _said_words(spoken[-_LAST_MESSAGES:])
        self._shown, _ = _said_words(visible)
        values = [(state.record, pair) for state in states for pair in _said_pairs(state, said)]
        owners = Counter((_kind(record), pair) for record, pair in values)
        self._matches: defaultdict[str, float] = defaultdict(float)
        for record, pair in values:
            self._matches[record.label] += 1.0 / owners[_kind(record), pair]

    def of(self, record: Record) -> float:
        """Return the factor for the value of a record."""
        matches = max(self._matches.get(record.label, 0.0), self._matches.get(record.parent, 0.0))
        factor = 1.0 + _MATCH_VALUE * min(_MAX_MATCHES, matches)
        is_shown = not is_child(record) and record.label.partition(" ")[2].lower() in self._shown
        return _SHOWN_VALUE * factor if is_shown else factor


def _said_pairs(state: _State, said: Container[str]) -> Iterator[str]:
    """Yield the pairs whose value was said. Groups of values say too little."""
    for name, pairs in state.fields.items():
        for pair in pairs:
            if not is_group(pair) and _was_said(pair[len(name) + 1 :].lower(), said):
                yield pair


def _kind(record: Record) -> str:
    return record.label.partition(" ")[0]


def _was_said(value: str, said: Container[str]) -> bool:
    """Return True if all words of a value were said. Short and common values do not count."""
    words = _WORD.findall(value)
    return bool(words) and value not in _TRIVIAL and len(value) > 2 and all(word in said for word in words)


def _said_words(messages: Sequence[Message]) -> tuple[set[str], set[str]]:
    """Return the words that the user and the assistant wrote, and the names of arguments."""
    words: set[str] = set()
    names: set[str] = set()
    for message in messages:
        if message.role not in ("user", "assistant"):
            continue
        if not message.answers and not message.is_summary:
            words |= _words[message.text]
        for call in message.tool_calls:
            arguments = parse_arguments(call.arguments)
            names.update(map(str, arguments))
            for value in arguments.values():
                text = value if isinstance(value, str) else str(value)
                words |= _words[text[:_MAX_ARGUMENT_CHARS]]
    return words, names


_words: Final = TextCache(lambda text: frozenset(_WORD.findall(text.lower())), max_chars=1_000_000)


def _identity(record: Record) -> str:
    """Return the label of a record. The same flight on another day is another record."""
    date = next((pair for pair in record.pairs if pair.partition("=")[0] in _DATE_FIELDS), "")
    return f"{record.label} {date}" if date else record.label


def _field_name(pair: str) -> str:
    match = _FIELD.match(pair)
    return match.group() if match else pair


def _replace(name: str, old: list[str] | None, new: list[str]) -> list[str]:
    """Return the new pairs of a field. A single value that changed also gives the old one."""
    if old is None or old == new or len(old) != 1 or len(new) != 1 or _TIME_FIELD.search(name):
        return new
    before = old[0].partition(" (was ")[0].removeprefix(f"{name}=")
    after = new[0].removeprefix(f"{name}=")
    if before == after or "(" in before or len(before) > _MAX_OLD_CHARS or not new[0].startswith(f"{name}="):
        return new
    if _LONG_VALUE.fullmatch(before):
        return new  # Two calls may show different parts of the same text.
    return [f"{new[0]} (was {before})"]


def _line_values(lines: Sequence[str], pairs: Sequence[tuple[float, str]]) -> list[float]:
    """Return what each line is worth. The pairs and their use are in the order of the lines."""
    values: list[float] = []
    remaining = iter(pairs)
    pending = next(remaining, None)
    for line in lines:
        total, start = 0.0, 0
        while pending is not None and (place := line.find(pending[1], start)) >= 0:
            total, start = total + pending[0], place + len(pending[1])
            pending = next(remaining, None)
        values.append((_NEXT_LINE_VALUE if values else FIRST_LINE_VALUE) + _USE_VALUE * total)
    return values
