"""Store each message text once, and restore payloads that refer to it.

Agents send the whole prompt with every turn. Before a span is stored, the messages in its payload are replaced by
`{"$message": "<sha256>"}`. `restore` puts them back. The hash is the SHA-256 of the message's canonical JSON, redacted
and without its id, as in the transcript archive and in the client's ledgers.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from datetime import date
from typing import Any

import msgspec
import zstandard
from django.db import connection

from ingest.archive.hash_chain import canonical
from ingest.decoding.records import Span

REFERENCE = "$message"
# A reference is about as large as a message of this size.
_MIN_BYTES = 200
MESSAGE_KEYS = ("input", "output", "messages", "input_messages", "prompt", "response")
_MAX_KNOWN = 100_000

INSERT = """
INSERT INTO ingest_message (cell, hash, day, size, body)
VALUES (%(cell)s, unnest(%(hashes)s::bytea[]), %(day)s, unnest(%(sizes)s::int[]), unnest(%(bodies)s::bytea[]))
ON CONFLICT DO NOTHING
"""
FIND = "SELECT hash FROM ingest_message WHERE cell = %s AND hash = ANY(%s)"
SET_DAY = "UPDATE ingest_message SET day = %s WHERE cell = %s AND hash = ANY(%s) AND day < %s"
EXPIRE = "DELETE FROM ingest_message WHERE cell = ANY(%s) AND day < %s"
_encode = msgspec.json.Encoder().encode


def extract(span: Span, payload: Any) -> None:
    """Replace the messages in a span's payload by references, and keep their texts in `span.messages`."""
    if span.payload is None or len(span.payload) < _MIN_BYTES or not isinstance(payload, dict):
        return
    texts: dict[bytes, bytes] = {}
    lists = {
        key: [_to_reference(item, texts) for item in payload[key]]
        for key in MESSAGE_KEYS
        if isinstance(payload.get(key), list)
    }
    if texts:
        span.payload = _encode({**payload, **lists})
        span.messages = texts


def _to_reference(item: Any, texts: dict[bytes, bytes]) -> Any:
    """Return a reference to a message and add its text to `texts`. Return anything else unchanged."""
    if not isinstance(item, dict) or not ("role" in item or "type" in item) or REFERENCE in item:
        return item
    text = canonical({key: value for key, value in item.items() if key not in {"id", "hash"}})
    if len(text) < _MIN_BYTES:
        return item
    digest = hashlib.sha256(text).digest()
    texts[digest] = text
    reference = {REFERENCE: digest.hex()}
    return {"id": item["id"], **reference} if "id" in item else reference


class KnownMessages:
    """A cache of the messages that are stored with today's date, which covers most of any prompt."""

    def __init__(self) -> None:
        self._days: OrderedDict[tuple[int, bytes], date] = OrderedDict()

    def find_missing(self, cell: int, texts: dict[bytes, bytes], day: date) -> dict[bytes, bytes]:
        """Return the texts, by hash, that are not known to be stored with the date `day`."""
        return {digest: text for digest, text in texts.items() if self._days.get((cell, digest)) != day}

    def add(self, cell: int, digests: Iterable[bytes], day: date) -> None:
        """Add messages after their commit."""
        for digest in digests:
            self._days[cell, digest] = day
        while len(self._days) > _MAX_KNOWN:
            self._days.popitem(last=False)


def insert_parameters(cell: int, day: date, texts: dict[bytes, bytes]) -> dict[str, Any]:
    """Return the parameters of `INSERT`."""
    compressor = zstandard.ZstdCompressor(level=3)
    hashes = sorted(texts)
    return {
        "cell": cell,
        "day": day,
        "hashes": hashes,
        "sizes": [len(texts[digest]) for digest in hashes],
        "bodies": [compressor.compress(texts[digest]) for digest in hashes],
    }


def restore(cell: int, payload: Any) -> Any:
    """Return a payload with references replaced by messages. Deleted messages are marked `"missing": true`."""
    hashes = set(_references(payload))
    if not hashes:
        return payload
    messages: dict[str, Any] = {}
    decompressor = zstandard.ZstdDecompressor()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT hash, body, size FROM ingest_message WHERE cell = %s AND hash = ANY(%s)",
            [cell, [bytes.fromhex(digest) for digest in hashes]],
        )
        for digest, body, size in cursor.fetchall():
            text = decompressor.decompress(bytes(body), max_output_size=size)
            messages[bytes(digest).hex()] = msgspec.json.decode(text)
    return {key: _restore_list(value, messages) for key, value in payload.items()}


def references(payload: Any) -> set[bytes]:
    """Return the hashes of the messages that a payload refers to."""
    return {bytes.fromhex(digest) for digest in _references(payload)}


def _references(payload: Any) -> Iterable[str]:
    if isinstance(payload, dict):
        for value in payload.values():
            for item in value if isinstance(value, list) else ():
                if isinstance(item, dict) and _is_hash(item.get(REFERENCE)):
                    yield item[REFERENCE]


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 64 and all(digit in "0123456789abcdef" for digit in value)


def _restore_list(value: Any, messages: dict[str, Any]) -> Any:
    if not isinstance(value, list):
        return value
    return [_restore_item(item, messages) if isinstance(item, dict) and REFERENCE in item else item for item in value]


def _restore_item(item: dict[str, Any], messages: dict[str, Any]) -> Any:
    digest = item[REFERENCE]
    message = messages.get(digest) if isinstance(digest, str) else None
    if message is None:
        return {**item, "missing": True}
    return {"id": item["id"], **message} if "id" in item else message
