"""Hide secrets again on arrival, whatever the client did: `compact`'s rules, applied to everything that is stored.

Nearly all events hold nothing to hide, so the work is to know that quickly: texts that were looked at before are
known, what is left of a whole request is looked at in one go, and only a request with a finding is walked event by
event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from string import ascii_uppercase, digits
from typing import Any

import msgspec
from compact.redaction import DEFAULT_RULES, Redactor, default_redactor

from ingest.decoding.field_names import Special
from ingest.decoding.records import Span, Trace

# Shorter than any secret worth the name, and than most words.
_SHORT_CHARS = 6
# Names, models and reasons come again and again; prose does not.
_REMEMBERED_CHARS = 80
_REMEMBERED_TEXTS = 50_000

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_everything = default_redactor()
# What is known by its digits: looking for it costs as much as all other rules together.
_NUMBERS = frozenset({"card", "us_ssn", "phone", "iban", "uk_nino"})
_wordy = Redactor(rules=tuple(rule for rule in DEFAULT_RULES if rule.name not in _NUMBERS))
_clean: set[str] = set()


def redact(records: Sequence[Span | Trace]) -> int:
    """Hide secrets in `records`, in place; how many records held one."""
    trees: list[Any] = []
    for record in records:
        if type(record) is Span:
            trees.append(record.fields)
            if record.said is not None:
                trees.append(record.said)
        elif type(record) is Trace and record.metadata != b"{}":
            trees.append(_decode(record.metadata))
    texts = [record.name for record in records]
    is_suspect = _gather(trees, texts)
    return sum(map(_redacted, records)) if is_suspect or not _are_clean(texts) else 0


def value(value: Any) -> tuple[Any, Counter[str]]:
    """A copy of any JSON value with its secrets hidden, and how often each rule hid one."""
    return _everything.tree(value)


def _gather(trees: list[Any], texts: list[str]) -> bool:
    """Collect the texts of JSON values; true if a key alone says that there is a secret."""
    is_suspect = False
    # The list grows while it is walked: no call for each object inside an object.
    for tree in trees:
        items = tree
        if type(tree) is dict:
            items = tree.values()
            for name in _secret_names.among(tree):
                kind = type(tree[name])
                if (kind is str and hides_text(name)) or ((kind is int or kind is float) and hides_number(name)):
                    is_suspect = True
        elif type(tree) is not list:
            items = (tree,)
        for item in items:
            kind = type(item)
            if kind is str:
                texts.append(item)
            elif kind is dict or kind is list:
                trees.append(item)
    return is_suspect


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
    unknown = [text for text in set(texts) - _clean if len(text) >= _SHORT_CHARS]
    # One text for all: no rule reaches across a line.
    if _wordy.text(together := "\n".join(unknown))[1]:
        return False
    if _has_number(together) and _everything.text("\n".join(filter(_has_number, unknown)))[1]:
        return False
    if len(_clean) > _REMEMBERED_TEXTS:
        _clean.clear()
    _clean.update([text for text in unknown if len(text) <= _REMEMBERED_CHARS])
    return True


# Capital letters as A, digits as 0; what may stand between the digits of a number is left out.
_SHAPE = bytes.maketrans((ascii_uppercase + digits).encode(), b"A" * len(ascii_uppercase) + b"0" * len(digits))
_INSIDE_NUMBERS = b" ().-"


def _has_number(text: str) -> bool:
    """Whether one of `_NUMBERS` may be in it."""
    shape = text.encode().translate(_SHAPE, _INSIDE_NUMBERS)
    # Accounts and insurance numbers begin with two letters; in other scripts, digits of theirs may stand among ours.
    return b"0" * 9 in shape or b"AA00" in shape or (not text.isascii() and shape.count(b"0") >= 6)


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
