"""Hide secrets again on arrival, whatever the client did: `compact`'s rules, applied to everything that is stored.

Nearly all events hold nothing to hide, so the work is to know that quickly: texts that were looked at before are
known, what is left of a whole request is looked at in one go, and only a request with a finding is walked event by
event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from compact.redaction import DEFAULT_RULES, Redactor, default_redactor

from ingest.events import Span, Trace
from ingest.fieldnames import Special

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


def redact(records: Sequence[Span | Trace]) -> int:
    """Hide secrets in `records`, in place; how many records held one."""
    texts: list[str] = []
    is_suspect = False
    for record in records:
        if record.name not in _clean:
            texts.append(record.name)
        tree: Any
        if isinstance(record, Span):
            tree = record.fields if record.said is None else [record.fields, record.said]
        else:
            tree = _decode(record.metadata) if record.metadata != b"{}" else None
        if tree and _gather(tree, texts):
            is_suspect = True
    return sum(map(_redacted, records)) if is_suspect or not _are_clean(texts) else 0


def value(value: Any) -> tuple[Any, Counter[str]]:
    """A copy of any JSON value with its secrets hidden, and how often each rule hid one."""
    return _everything.tree(value)


def _gather(tree: dict[str, Any] | list[Any], texts: list[str]) -> bool:
    """Collect the texts of a tree that are not known to be clean; true if a key alone says that there is a secret."""
    is_suspect = False
    items: Iterable[Any] = tree
    if isinstance(tree, dict):
        items = tree.values()
        for key in _secret_names.among(tree):
            kind = type(tree[key])
            if (kind is str and hides_text(key)) or ((kind is int or kind is float) and hides_number(key)):
                is_suspect = True
    for item in items:
        kind = type(item)
        if kind is str:
            # What is too long to be remembered need not be looked up.
            if (size := len(item)) >= _SHORT_CHARS and (size > _REMEMBERED_CHARS or item not in _clean):
                texts.append(item)
        elif (kind is dict or kind is list) and item and _gather(item, texts):
            is_suspect = True
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


# A long name hides nothing, and must not be remembered.
_secret_names = Special(lambda key: len(key) <= _REMEMBERED_CHARS and (hides_text(key) or hides_number(key)))


def _are_clean(texts: list[str]) -> bool:
    wordy: list[str] = []
    digits: list[str] = []
    for text in dict.fromkeys(texts):
        (digits if _has_digits(text) else wordy).append(text)
    for redactor, some in ((_wordy, wordy), (_everything, digits)):
        # One text for all: no rule reaches across a line.
        if some and redactor.text("\n".join(some))[1]:
            return False
    if len(_clean) > _REMEMBERED_TEXTS:
        _clean.clear()
    _clean.update(dict.fromkeys([text for text in texts if len(text) <= _REMEMBERED_CHARS]))
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
