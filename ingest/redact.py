"""Hide secrets again on arrival, whatever the client did: `compact`'s rules, applied to everything that is stored.

Nearly all events hold nothing to hide, so the work is to know that quickly: texts that were looked at before are
known, what is left of a whole request is looked at in one go, and only a request with a finding is walked event by
event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec
from compact.redaction import DEFAULT_RULES, Redactor, default_redactor

from ingest.events import Span, Trace

# Shorter than any secret worth the name, and than most words.
_SHORT_CHARS = 6
# Names, models and reasons come again and again; prose does not.
_REMEMBERED_CHARS = 80
_REMEMBERED_TEXTS = 50_000
# The shortest thing that is known by its digits alone, a British insurance number, has six.
_MIN_DIGITS = 6
_DIGITS = b"0123456789"

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_everything = default_redactor()
# Rules that begin with a word of their own. The others look for runs of digits, and cost as much as all of these.
_wordy = Redactor(rules=tuple(rule for rule in DEFAULT_RULES if rule.anchored))
_clean: dict[str, None] = {}


def redact(records: Iterable[Span | Trace]) -> int:
    """Hide secrets in `records`, in place; how many records held one."""
    records = list(records)
    wordy: list[str] = []
    digits: list[str] = []
    is_suspect = False
    for record in records:
        is_suspect = _gather(record, wordy, digits) or is_suspect
    found = 0
    if is_suspect or not (_is_clean(_wordy, wordy) and _is_clean(_everything, digits)):
        found = sum(map(_redacted, records))
    return found


def value(value: Any) -> tuple[Any, Counter[str]]:
    """A copy of any JSON value with its secrets hidden, and how often each rule hid one."""
    return _everything.tree(value)


def _gather(record: Span | Trace, wordy: list[str], digits: list[str]) -> bool:
    """Collect the texts of a record that are not known to be clean; true if a key alone says that there is a secret."""
    if record.name not in _clean:
        digits.append(record.name)
    if isinstance(record, Trace):
        return record.metadata != b"{}" and _walk(_decode(record.metadata), wordy, digits)
    is_suspect = _walk(record.fields, wordy, digits)
    return is_suspect if record.said is None else _walk(record.said, wordy, digits) or is_suspect


def _walk(item: Any, wordy: list[str], digits: list[str]) -> bool:
    is_suspect = False
    if type(item) is dict:
        for key, inner in item.items():
            kind = type(inner)
            if kind is str:
                if hides_text(key):
                    is_suspect = True
                if inner not in _clean and len(inner) >= _SHORT_CHARS:
                    (digits if _has_digits(inner) else wordy).append(inner)
            elif kind is int or kind is float:
                if hides_number(key):
                    is_suspect = True
            elif (kind is dict or kind is list) and _walk(inner, wordy, digits):
                is_suspect = True
    elif type(item) is list:
        for inner in item:
            if _walk(inner, wordy, digits):
                is_suspect = True
    elif type(item) is str and item not in _clean and len(item) >= _SHORT_CHARS:
        (digits if _has_digits(item) else wordy).append(item)
    return is_suspect


def _has_digits(text: str) -> bool:
    encoded = text.encode()
    return len(encoded) - len(encoded.translate(None, _DIGITS)) >= _MIN_DIGITS


@lru_cache(maxsize=10_000)
def hides_text(key: str) -> bool:
    """Whether a text that looks random is hidden under `key`."""
    return bool(_everything.tree({key: "q7Xz81kP"})[1])


@lru_cache(maxsize=10_000)
def hides_number(key: str) -> bool:
    return bool(_everything.tree({key: 73})[1])


def _is_clean(redactor: Redactor, texts: list[str]) -> bool:
    if not texts:
        return True
    # One text for all: no rule reaches across a line.
    _, found = redactor.text("\n".join(dict.fromkeys(texts)))
    if found:
        return False
    if len(_clean) > _REMEMBERED_TEXTS:
        _clean.clear()
    _clean.update((text, None) for text in texts if len(text) <= _REMEMBERED_CHARS)
    return True


def _redacted(record: Span | Trace) -> bool:
    name, found = _everything.text(record.name)
    if isinstance(record, Trace):
        metadata, more = _everything.tree(_decode(record.metadata))
        if found or more:
            record.name, record.metadata = name, _encode(metadata)
        return bool(found or more)
    data, in_data = _everything.tree(record.fields)
    if in_data:
        record.data = _encode(data)
    if record.said is not None:
        payload, in_payload = _everything.tree(record.said)
        if in_payload:
            record.said, record.payload = payload, _encode(payload)
        found += in_payload
    if found:
        record.name = name
    return bool(found or in_data)
