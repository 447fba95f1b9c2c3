"""Rewrite structured tool results as one line per record, so that a value never loses the record it belongs to.

A record is a JSON object with an id, a row of a table (`record_tables`), or a block of `Key: value` lines. Its lines
start with its kind and id and contain whole `field=value` pairs:

    reservation_id OBUT9V: cabin=economy, origin=DEN, flights(HAT266, HAT229)
    flight_number HAT266 (reservation_id OBUT9V): date=2024-05-27, price=131

An object without an id belongs to the nearest object around it that has one. A list of such objects is a table, because
repeating the names of their fields takes half of its space: `fees(kind, amount: change, 40; cancel, 90)`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from compact.reading.lines.record_tables import read_tables, strip_line_number
from compact.reading.text_cache import TextCache
from compact.summary.record_tree import split_pairs

MAX_LINE_CHARS: Final = 200
# A line of a record has few fields, so that a summary can keep the used fields of many records. It joins them again.
_LINE_CHARS: Final = 80
_MAX_VALUE_CHARS: Final = 160
_MAX_TEXT_CHARS: Final = 400_000
_MAX_RECORDS: Final = 2_000
_MAX_DEPTH: Final = 24
_SHORT_TEXT_CHARS: Final = 4_000

# Keys that identify the object around them. Ids of log lines and sessions identify something else.
_ID_KEY: Final = re.compile(
    r"(?!(?:session|request|parent|tool_use|message|agent|task)_?(?:id|uuid)$)"
    r"(?:id|uuid|sha|key|identifier|ticket|number|\w*(?:_id|Id|_number|Number|_key|_uuid|_sha))",
    re.IGNORECASE,
)
_ID: Final = re.compile(r"(?=[^\s]*\d)[\w.:/#@-]{3,60}|[A-Z]{5,12}")
_BARE_ID_KEY: Final = re.compile(r"id|uuid|sha|key|number|identifier", re.IGNORECASE)
_PAIR_START: Final = re.compile(r"[^ ]*[=(]|.*=")
_MIN_TABLE_ROWS: Final = 2
_ADDRESS_TEMPLATE: Final = re.compile(r"\{[/?][\w,*]+\}")  # `https://api.github.com/users/ada/gists{/gist_id}`
_CELL_END: Final = re.compile(r"[;,()]")
_SUBJECT: Final = re.compile(r"(\S+ .{1,160}?): (?=\S)")
_KEY_VALUE: Final = re.compile(r"\s{0,12}(?:[-*•]\s+)?\*{0,2}([A-Za-z][\w /.-]{1,30}?)\*{0,2}:\*{0,2}\s+(\S.*)")


class Record(NamedTuple):
    """One object of a tool result. `parent` is the label of the record around it.

    Pairs without an id have an empty label.
    """

    label: str
    parent: str
    pairs: tuple[str, ...]


_PLACEHOLDER: Final = Record("", "", ())


class _Owner(NamedTuple):
    label: str
    key: str

    @property
    def identifier(self) -> str:
        return self.label.rpartition(" ")[2]


class ResultText(NamedTuple):
    """A tool result: its records, and the text around them."""

    records: Sequence[Record]
    rest: str


def read_result(text: str, arguments: Mapping[str, Any] | None = None) -> ResultText:
    """Separate the records of a tool result from its other text.

    `arguments` are those of the call. The id that a call asked for owns what has no id in its result.
    """
    if len(text) > _MAX_TEXT_CHARS:
        return ResultText((), text)
    owner = _asked_owner(arguments) if arguments else None
    return _unasked_results[text] if owner is None else _asked_result(text, owner)


def _read_result(text: str, owner: _Owner | None) -> ResultText:
    values, rest = _json_values(text)
    if not values:
        return _read_text(text)
    collector = _Collector()
    for value in values:
        collector.walk(value, owner if len(values) == 1 and not rest else None)
    records = collector.records()
    if not records:
        return ResultText((), text)
    return ResultText(records, "\n".join(filter(None, (collector.long_text, rest))))


_unasked_results: Final = TextCache(lambda text: _read_result(text, None), max_chars=4_000_000)


def _asked_result(text: str, owner: _Owner) -> ResultText:
    return (_cached_result if len(text) <= _SHORT_TEXT_CHARS else _read_result)(text, owner)


_cached_result = lru_cache(maxsize=1024)(_read_result)


def _asked_owner(arguments: Mapping[str, Any]) -> _Owner | None:
    for key, value in arguments.items():
        if isinstance(value, str) and _ID_KEY.fullmatch(key) and _ID.fullmatch(value):
            return _Owner(f"{_kind(key, '')} {value}", key)
    return None


def _json_values(text: str) -> tuple[list[Any], str]:
    """Return the JSON value of a text, or the values of its JSON lines and the other lines."""
    stripped = text.strip()
    if stripped[:1] in ("{", "[") and stripped[-1:] in ("}", "]"):
        value = _parse_json(stripped)
        if value is not None:
            return [value], ""
    values: list[Any] = []
    others: list[str] = []
    for line in text.split("\n") if '{"' in text else ():
        content = strip_line_number(line)
        value = _parse_json(content) if content[:2] in ('{"', "[{") and content.rstrip()[-1:] in ("}", "]") else None
        if value is None:
            others.append(line)
        else:
            values.append(value)
    return values, "\n".join(others)


def _parse_json(text: str) -> Any:
    """Return a JSON object or list, or None if the text is anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) and value else None


class _Collector:
    """Collects the records of JSON values in the order in which they begin."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._plain: list[str] = []
        self._long_texts: list[str] = []

    @property
    def long_text(self) -> str:
        """The values that are too long for a pair. Their pairs give only their length."""
        return "\n".join(self._long_texts)

    def records(self) -> list[Record]:
        records = [record for record in self._records if record.label and record.pairs]
        return [*records, Record("", "", tuple(self._plain))] if self._plain else records

    def walk(self, value: Any, owner: _Owner | None, parent: str = "", name: str = "", depth: int = 0) -> list[str]:
        """Return the pairs of a value that belong to the object around it, and collect its own records."""
        if depth > _MAX_DEPTH or len(self._records) >= _MAX_RECORDS:
            return []
        if isinstance(value, dict):
            return self._walk_object(value, owner, parent, name, depth)
        if isinstance(value, list):
            return self._walk_list(value, owner, parent, name, depth)
        if isinstance(value, str) and len(value) > _MAX_VALUE_CHARS:
            self._long_texts.append(value)
            return [f"{name or 'text'}=<{len(value)} characters>"]
        return _scalar_pair(name, value)

    def _walk_object(
        self, value: dict[str, Any], owner: _Owner | None, parent: str, name: str, depth: int
    ) -> list[str]:
        own = _own_id(value, name)
        if own is not None:
            asked_key = _key_of(value, owner)
            if owner is None or asked_key is None:
                self._add_record(value, own, owner.label if owner is not None else parent, depth)
                return [f"{name}={own.identifier}"] if name and depth else []
            # The result repeats the id that the call asked for.
            owner = owner._replace(key=asked_key)
        if depth:
            return self._nested_pairs(value, owner, name, depth)
        if owner is not None:
            self._add_record(value, owner, parent, depth)
        else:
            self._plain += [pair for key, item in value.items() for pair in self._walk_item(key, item, None, depth)]
        return []

    def _add_record(self, value: Mapping[str, Any], subject: _Owner, parent: str, depth: int) -> None:
        # A record comes before the records inside it.
        place = len(self._records)
        self._records.append(_PLACEHOLDER)
        pairs = [
            pair
            for key, item in value.items()
            if key != subject.key or isinstance(item, dict | list)
            for pair in self._walk_item(key, item, subject, depth)
        ]
        self._records[place] = Record(subject.label, parent, _without_subpages(pairs))

    def _walk_item(self, key: str, item: Any, subject: _Owner | None, depth: int) -> list[str]:
        if isinstance(item, dict) and item and all(_is_keyed_object(k, v) for k, v in item.items()):
            names = []
            for identifier, child in item.items():
                if not isinstance(child, dict):
                    continue
                owner = _Owner(f"{_singular(key)} {identifier}", "")
                names.append(identifier)
                self._keyed_record(child, owner, subject, depth)
            return [f"{key}({', '.join(names)})"] if names else []
        return self.walk(item, subject, subject.label if subject else "", key, depth + 1)

    def _keyed_record(self, child: dict[str, Any], owner: _Owner, subject: _Owner | None, depth: int) -> None:
        place = len(self._records)
        self._records.append(_PLACEHOLDER)
        pairs = [
            pair
            for key, item in child.items()
            if str(item) != owner.identifier
            for pair in self.walk(item, owner, owner.label, key, depth + 2)
        ]
        self._records[place] = Record(owner.label, subject.label if subject else "", tuple(pairs))

    def _nested_pairs(self, value: dict[str, Any], owner: _Owner | None, name: str, depth: int) -> list[str]:
        inner = [pair for key, item in value.items() for pair in self._walk_item(key, item, owner, depth)]
        if not name or not inner:
            return inner
        joined = f"{name}({', '.join(inner)})"
        return [joined] if len(joined) <= _MAX_VALUE_CHARS else [f"{name}.{pair}" for pair in inner]

    def _walk_list(self, value: list[Any], owner: _Owner | None, parent: str, name: str, depth: int) -> list[str]:
        if name and (rows := _table_rows(value)):
            header = f"{', '.join(value[0])}: "
            return list(_list_pairs(name, rows, MAX_LINE_CHARS - len(header), separator="; ", header=header))
        pairs = [pair for item in value for pair in self.walk(item, owner, parent, name, depth + 1)]
        prefix = f"{name}="
        if len(pairs) > 1 and name and all(pair.startswith(prefix) for pair in pairs):
            return list(_list_pairs(name, [pair[len(prefix) :] for pair in pairs]))
        return pairs


def _key_of(value: Mapping[str, Any], owner: _Owner | None) -> str | None:
    """Return the key under which an object has the id of its owner."""
    return next((key for key, item in value.items() if owner is not None and str(item) == owner.identifier), None)


def _list_pairs(
    name: str, items: Sequence[str], limit: int = MAX_LINE_CHARS // 2, *, separator: str = ", ", header: str = ""
) -> Iterator[str]:
    """Join the items of a list to pairs that fit a line."""
    start, chars = 0, 0
    for index, item in enumerate(items):
        if chars + len(item) > limit and index > start:
            yield f"{name}({header}{separator.join(items[start:index])})"
            start, chars = index, 0
        chars += len(item) + 2
    yield f"{name}({header}{separator.join(items[start:])})"


def _table_rows(items: Sequence[Any]) -> list[str]:
    """Return the values of objects with the same fields and without ids, or an empty list for anything else."""
    if len(items) < _MIN_TABLE_ROWS or not all(isinstance(item, dict) for item in items):
        return []
    names = list(items[0])
    if len(names) < 2 or _own_id(items[0], "") is not None or any(list(item) != names for item in items):
        return []
    rows = [list(map(_cell, item.values())) for item in items]
    return list(map(", ".join, rows)) if all(map(all, rows)) else []


def _cell(value: Any) -> str:
    """Return the text of a value for a table, or an empty string if the value is too long or nested."""
    pair = [] if isinstance(value, dict | list) else _scalar_pair("", value)
    return pair[0] if pair and len(pair[0]) <= MAX_LINE_CHARS // 4 and not _CELL_END.search(pair[0]) else ""


def _own_id(value: Mapping[str, Any], name: str) -> _Owner | None:
    for key, item in value.items():
        if not _ID_KEY.fullmatch(key) or isinstance(item, bool) or not isinstance(item, str | int):
            continue
        if _ID.fullmatch(str(item)):
            return _Owner(f"{_kind(key, name)} {item}", key)
    return None


def _is_keyed_object(key: str, value: Any) -> bool:
    """True for an item of `{"<id>": {…}}`."""
    return isinstance(value, dict) and len(key) >= 5 and any(map(str.isdigit, key))


def _kind(key: str, name: str) -> str:
    """Return the word for a record: its key, which later calls need, or the name of the list around a bare `id`."""
    return key if not _BARE_ID_KEY.fullmatch(key) else _singular(name) or "record"


def _singular(name: str) -> str:
    if name.endswith("ies"):
        return f"{name[:-3]}y"
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else name


def _without_subpages(pairs: Sequence[str]) -> tuple[str, ...]:
    """Return the pairs of a record without the addresses below another one: `repos_url=https://example.com/ada/repos`."""
    addresses = {value for pair in pairs if "://" in (value := pair.partition("=")[2])}
    return tuple(pair for pair in pairs if "://" not in pair or not _has_parent(pair.partition("=")[2], addresses))


def _has_parent(address: str, addresses: Container[str]) -> bool:
    while "/" in (address := address.rpartition("/")[0]):
        if address in addresses:
            return True
    return False


def _scalar_pair(name: str, value: Any) -> list[str]:
    if value is None or value == "":
        return []
    text = json.dumps(value) if isinstance(value, bool) else " ".join(str(value).split())
    if "://" in text and _ADDRESS_TEMPLATE.search(text):
        return []  # APIs add dozens of them to each object.
    return [f"{name}={text}" if name else text]


def record_subject(record: Record) -> str:
    """Return the kind and id of a record, with those of its parent."""
    return f"{record.label} ({record.parent})" if is_child(record) else record.label


def is_child(record: Record) -> bool:
    return record.parent not in ("", record.label)


def record_lines(record: Record) -> Iterator[str]:
    """Yield the lines of a record, each with its subject and whole pairs."""
    # Plain values first, because a long record is split and its first line should stand alone.
    yield from join_pairs(record_subject(record), sorted(record.pairs, key=is_group))


def parse_record(line: str, parent: str) -> Record | None:
    """Return the record that a line was rendered from, or None if the line names no record."""
    match = _SUBJECT.match(line)
    if match is None or _PAIR_START.match(match.group(1)):
        return None
    label = match.group(1).removesuffix(f" ({parent})")
    return Record(label, parent, tuple(split_pairs(line[match.end() :])))


def is_group(pair: str) -> bool:
    """True for a list or an object: `flights(HAT266, HAT229)`."""
    return "=" not in pair.partition("(")[0]


def join_pairs(subject: str, pairs: Iterable[str]) -> Iterator[str]:
    """Yield lines of whole pairs. A long text is a line of its own."""
    prefix = f"{subject}: " if subject else ""
    room = _LINE_CHARS - len(prefix)
    pending: list[str] = []
    chars = 0
    for pair in pairs:
        if pending and chars + len(pair) > room:
            yield f"{prefix}{', '.join(pending)}"
            pending, chars = [], 0
        pending.append(pair)
        chars += len(pair) + 2
    if pending:
        yield f"{prefix}{', '.join(pending)}"


def _read_pair(line: str) -> tuple[str, str, str] | None:
    """Return the key, the value and the line, or None if the line is no pair."""
    match = _KEY_VALUE.fullmatch(line) if ":" in line and len(line) < _MAX_VALUE_CHARS + 40 else None
    return (match.group(1).strip(), match.group(2).strip(" `,"), line) if match else None


def _read_text(text: str) -> ResultText:
    """Read the tables of a text, and its blocks of `Key: value` lines that contain an id."""
    rows, text = read_tables(text)
    records = [Record(f"{_field(row.kind)} {row.identifier}", "", row.pairs) for row in rows]
    if ": " not in text and ":\t" not in text:
        return ResultText(records, text)
    rest: list[str] = []
    block: list[tuple[str, str, str]] = []
    for line in (*text.split("\n"), ""):
        if pair := _read_pair(line):
            block.append(pair)
            continue
        record = _block_record(block) if block else None
        if record is not None:
            records.append(record)
        rest += (line,) if record is not None else (*(raw for _, _, raw in block), line)
        block = []
    return ResultText(records, "\n".join(rest)) if records else ResultText((), text)


def _block_record(block: Sequence[tuple[str, str, str]]) -> Record | None:
    identity = next(((key, value) for key, value, _ in block if _is_identity(key, value)), None)
    if identity is None or len(block) < 2:
        return None
    key, identifier = identity
    pairs = tuple(f"{_field(name)}={value}" for name, value, _ in block if (name, value) != identity)
    return Record(f"{_kind(_field(key), '')} {identifier}", "", pairs)


def _is_identity(key: str, value: str) -> bool:
    return _ID_KEY.fullmatch(_field(key)) is not None and _ID.fullmatch(value) is not None


def _field(key: str) -> str:
    return key.lower().replace(" ", "_")
