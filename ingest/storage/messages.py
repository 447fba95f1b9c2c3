"""Message texts, stored once: a prompt that comes again with every turn is a list of hashes.

On arrival the messages in a span's payload are replaced by `{"$message": "<sha256>"}`; on the way out `restore` puts
them back. A message is named by the SHA-256 of its canonical JSON, redacted, without its id: the same name that the
archive of transcripts and the client's ledgers use.
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
# A reference takes about as much as a message of this size.
_MIN_BYTES = 200
_KEYS = ("input", "output", "messages", "input_messages", "prompt", "response")
_REMEMBERED = 100_000

PUT = """
INSERT INTO ingest_message (hash, project_id, day, size, body)
SELECT h, %(project_id)s, %(day)s, s, b
FROM unnest(%(hashes)s::bytea[], %(sizes)s::int[], %(bodies)s::bytea[]) t (h, s, b)
ON CONFLICT DO NOTHING
"""
KNOWN = "SELECT hash FROM ingest_message WHERE project_id = %s AND hash = ANY(%s)"
USED = "UPDATE ingest_message SET day = %s WHERE project_id = %s AND hash = ANY(%s) AND day < %s"
EXPIRE = "DELETE FROM ingest_message WHERE project_id = %s AND day < %s"
_encode = msgspec.json.Encoder().encode


def extract(span: Span) -> None:
    """Replace the messages in a span's payload by their names, and keep them beside it."""
    if span.payload is None or len(span.payload) < _MIN_BYTES or not isinstance(span.said, dict):
        return
    texts: dict[bytes, bytes] = {}
    changed = {
        key: [_named(item, texts) for item in span.said[key]] for key in _KEYS if isinstance(span.said.get(key), list)
    }
    if texts:
        span.said = {**span.said, **changed}
        span.payload = _encode(span.said)
        span.texts = texts


def _named(item: Any, texts: dict[bytes, bytes]) -> Any:
    if not isinstance(item, dict) or not ("role" in item or "type" in item) or REFERENCE in item:
        return item
    bare = {key: value for key, value in item.items() if key not in {"id", "hash"}}
    text = canonical(bare)
    if len(text) < _MIN_BYTES:
        return item
    digest = hashlib.sha256(text).digest()
    texts[digest] = text
    named = {REFERENCE: digest.hex()}
    return {"id": item["id"], **named} if "id" in item else named


class Stored:
    """The texts that this process knows to be in the table today: most of a prompt was there a turn ago."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, bytes], date] = OrderedDict()

    def missing(self, project_id: int, texts: dict[bytes, bytes], day: date) -> list[bytes]:
        return [digest for digest in texts if self._known.get((project_id, digest)) != day]

    def remember(self, project_id: int, digests: Iterable[bytes], day: date) -> None:
        """Only after the commit: what was rolled back was not stored."""
        for digest in digests:
            self._known[project_id, digest] = day
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)


def put_arguments(project_id: int, day: date, texts: dict[bytes, bytes]) -> dict[str, Any]:
    pack = zstandard.ZstdCompressor(level=3)
    hashes = sorted(texts)
    return {
        "project_id": project_id,
        "day": day,
        "hashes": hashes,
        "sizes": [len(texts[digest]) for digest in hashes],
        "bodies": [pack.compress(texts[digest]) for digest in hashes],
    }


def restore(project_id: int, payload: Any) -> Any:
    """`payload` with its messages put back; one that is gone says so."""
    wanted = set(_references(payload))
    if not wanted:
        return payload
    found: dict[str, Any] = {}
    unpack = zstandard.ZstdDecompressor()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT hash, body, size FROM ingest_message WHERE project_id = %s AND hash = ANY(%s)",
            [project_id, [bytes.fromhex(digest) for digest in wanted]],
        )
        for digest, body, size in cursor.fetchall():
            found[bytes(digest).hex()] = msgspec.json.decode(unpack.decompress(bytes(body), max_output_size=size))
    return {key: _restored(value, found) for key, value in payload.items()}


def _references(payload: Any) -> Iterable[str]:
    if isinstance(payload, dict):
        for value in payload.values():
            for item in value if isinstance(value, list) else ():
                if isinstance(item, dict) and _is_hash(item.get(REFERENCE)):
                    yield item[REFERENCE]


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 64 and all(digit in "0123456789abcdef" for digit in value)


def _restored(value: Any, found: dict[str, Any]) -> Any:
    if not isinstance(value, list):
        return value
    return [_message(item, found) if isinstance(item, dict) and REFERENCE in item else item for item in value]


def _message(item: dict[str, Any], found: dict[str, Any]) -> Any:
    message = found.get(item[REFERENCE])
    if message is None:
        return {**item, "missing": True}
    return {"id": item["id"], **message} if "id" in item else message
