"""Convert the payloads and data that earlier versions stored as jsonb.

Pages read both forms, so this may run at any time, be stopped, and be started again. Each batch is one statement that
locks only its rows. A row that changed since it was read is left alone: the writer has stored it in the new form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from typing import Any
from uuid import UUID

from django.db import connection

from ingest.decoding.tool_arguments import arguments_hash
from ingest.models import Session
from ingest.storage.payloads import DATA, PAYLOAD, UnreadablePayload, decode, decode_data, pack, pack_data, unpack

_BATCH = 500
_READ = f"""
SELECT cell, session_key, trace_id, span_id, seq, kind, {DATA}, {PAYLOAD} FROM ingest_span
WHERE session_day = %s AND (cell, session_key, session_day, trace_id, span_id) > (%s, %s, %s, %s, %s)
  AND (data IS NOT NULL OR payload IS NOT NULL)
ORDER BY cell, session_key, session_day, trace_id, span_id LIMIT %s
"""  # noqa: S608 - a constant
_WRITE = """
UPDATE ingest_span s
SET packed_data = k.data, packed_payload = k.payload, arguments_hash = k.hash, data = NULL, payload = NULL
FROM unnest(%s::bigint[], %s::uuid[], %s::text[], %s::text[], %s::bigint[], %s::bytea[], %s::bytea[],
  %s::bigint[]) k (cell, a, c, d, seq, data, payload, hash)
WHERE s.session_day = %s AND s.cell = k.cell AND s.session_key = k.a AND s.trace_id = k.c AND s.span_id = k.d
  AND s.seq = k.seq AND (s.data IS NOT NULL OR s.payload IS NOT NULL)
"""


def convert() -> Iterator[int]:
    """Convert all rows, and yield the number of each batch after its commit."""
    for day in Session.objects.order_by("day").values_list("day", flat=True).distinct():
        yield from _convert_day(day)


def _convert_day(day: date) -> Iterator[int]:
    position = (0, UUID(int=0), "", "")
    while True:
        with connection.cursor() as cursor:
            cursor.execute(_READ, [day, *position[:2], day, *position[2:], _BATCH])
            rows = cursor.fetchall()
            if not rows:
                return
            cursor.execute(_WRITE, [*map(list, zip(*map(_convert_row, rows), strict=True)), day])
            yield cursor.rowcount
        position = rows[-1][:4]


def _convert_row(row: tuple[Any, ...]) -> tuple[int, UUID, str, str, int, bytes | None, bytes | None, int | None]:
    cell, session_key, trace_id, span_id, seq, kind, data, payload = row
    hash_ = arguments_hash(kind, decode_data(data), decode(payload))
    return cell, session_key, trace_id, span_id, seq, _repack(data, pack_data), _repack(payload, pack), hash_


def _repack(stored: bytes | None, pack: Callable[[bytes], bytes]) -> bytes | None:
    if stored is None:
        return None
    try:
        return pack(unpack(stored))
    except UnreadablePayload:  # reported where it is read
        return stored
