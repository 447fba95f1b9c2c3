"""Redact secrets on arrival with `compact`'s rules, in addition to the client's own redaction.

Almost no event contains a secret, so the work is to establish that quickly. Texts that were seen before are known to be
clean, the remaining texts of a request are scanned together, and only a request with a match is redacted event by
event.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from string import ascii_uppercase, digits
from typing import Any

import msgspec
from compact.redaction import DEFAULT_RULES, Redactor, default_redactor

from ingest.decoding.key_matcher import KeyMatcher
from ingest.decoding.records import Converted, Record, Span

# Shorter than any secret.
_MIN_SECRET_CHARS = 6
# Names, models and reasons repeat. Prose does not.
_MAX_CACHED_CHARS = 80
_MAX_CACHED_TEXTS = 50_000

_encode = msgspec.json.Encoder().encode
_redactor = default_redactor()
# Rules that match digits cost as much as all other rules together, so they run only on text that may have a number.
_NUMBER_RULES = frozenset({"card", "us_ssn", "phone", "iban", "uk_nino"})
_word_redactor = Redactor(rules=tuple(rule for rule in DEFAULT_RULES if rule.name not in _NUMBER_RULES))
_clean_texts: set[str] = set()


def redact(converted: list[Converted]) -> int:
    """Redact secrets in records and their content in place. Return the number of records that had one."""
    trees: list[Any] = []
    texts: list[str] = []
    for record, data, payload in converted:
        texts.append(record.name)
        trees.append(data)
        if payload is not None:
            trees.append(payload)
    has_secret_key = _collect_texts(trees, texts)
    if not has_secret_key and _are_clean(texts):
        return 0
    count = 0
    for index, (record, data, payload) in enumerate(converted):
        if (redacted := _redact_record(record, data, payload)) is not None:
            converted[index] = redacted
            count += 1
    return count


def redact_value(value: Any) -> tuple[Any, Counter[str]]:
    """Return a redacted copy of a JSON value and the number of matches for each rule."""
    return _redactor.tree(value)


def _collect_texts(trees: list[Any], texts: list[str]) -> bool:
    """Append the strings in JSON values to `texts`. Return True if a key marks its value as a secret."""
    has_secret_key = False
    # `trees` grows during the loop, which saves a function call for each nested object.
    for tree in trees:
        items = tree
        if type(tree) is dict:
            items = tree.values()
            for key in _secret_keys[tuple(tree)]:
                kind = type(tree[key])
                if (kind is str and hides_text(key)) or ((kind is int or kind is float) and hides_number(key)):
                    has_secret_key = True
        elif type(tree) is not list:
            items = (tree,)
        for item in items:
            kind = type(item)
            if kind is str:
                texts.append(item)
            elif kind is dict or kind is list:
                trees.append(item)
    return has_secret_key


@lru_cache(maxsize=10_000)
def hides_text(key: str) -> bool:
    """True if random-looking text is redacted under `key`."""
    return bool(_redactor.tree({key: "q7Xz81kP"})[1])


@lru_cache(maxsize=10_000)
def hides_number(key: str) -> bool:
    """True if numbers are redacted under `key`."""
    return bool(_redactor.tree({key: 73})[1])


# Long keys never mark a secret, and caching them would waste memory.
_secret_keys = KeyMatcher(lambda key: len(key) <= _MAX_CACHED_CHARS and (hides_text(key) or hides_number(key)))


def _are_clean(texts: list[str]) -> bool:
    """True if no rule matches any of the texts."""
    unknown = [text for text in set(texts) - _clean_texts if len(text) >= _MIN_SECRET_CHARS]
    # The texts can be joined because no rule matches across lines.
    joined = "\n".join(unknown)
    if _word_redactor.text(joined)[1]:
        return False
    if _has_number(joined) and _redactor.text("\n".join(filter(_has_number, unknown)))[1]:
        return False
    if len(_clean_texts) > _MAX_CACHED_TEXTS:
        _clean_texts.clear()
    _clean_texts.update([text for text in unknown if len(text) <= _MAX_CACHED_CHARS])
    return True


# Maps capital letters to A and digits to 0. Separators that may occur inside a number are deleted.
_SHAPE = bytes.maketrans((ascii_uppercase + digits).encode(), b"A" * len(ascii_uppercase) + b"0" * len(digits))
_SEPARATORS = b" ().-"


def _has_number(text: str) -> bool:
    """True if a rule of `_NUMBER_RULES` may match."""
    shape = text.encode().translate(_SHAPE, _SEPARATORS)
    # IBANs and insurance numbers start with two letters. In other scripts, their own digits may be mixed with ours.
    return b"0" * 9 in shape or b"AA00" in shape or (not text.isascii() and shape.count(b"0") >= 6)


def _redact_record(record: Record, data: dict[str, Any], payload: Any) -> Converted | None:
    """Redact one record in place and return it with its redacted content. Return None if it has no secret."""
    name, in_name = _redactor.text(record.name)
    data, in_data = _redactor.tree(data)
    in_payload: Counter[str] = Counter()
    if payload is not None:
        payload, in_payload = _redactor.tree(payload)
    if not (in_name or in_data or in_payload):
        return None
    if in_name:
        record.name = name
    if in_data:
        if isinstance(record, Span):
            record.data = _encode(data)
        else:
            record.metadata = _encode(data)
    if in_payload and isinstance(record, Span):
        record.payload = _encode(payload)
    return record, data, payload
