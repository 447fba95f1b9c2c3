"""Write the labels of sessions, in the transaction of their traces.

A label is stored once per session. Replays add nothing. When a trace moves, the labels of both sessions are read again
from the metadata of their traces.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ingest.decoding.labels import Label, labels_of

INSERT = """
INSERT INTO ingest_label (cell, session_key, key, value)
VALUES (%s::bigint, unnest(%s::uuid[]), unnest(%s::text[]), unnest(%s::text[])) ON CONFLICT DO NOTHING
"""
DELETE = "DELETE FROM ingest_label WHERE cell = %s AND session_key = ANY(%s)"
READ_METADATA = """
SELECT session_key, metadata::text FROM ingest_trace
WHERE cell = %s AND session_key = ANY(%s) AND metadata <> '{}'
"""
_NONE = b"{}"
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def read_labels(metadata: bytes | str) -> Sequence[Label]:
    """Return the labels in the encoded metadata of a trace."""
    return () if metadata == _NONE else labels_of(_decode(metadata))


def insert_parameters(
    cell: int, labels: Mapping[uuid.UUID, Iterable[Label]]
) -> tuple[int, list[uuid.UUID], list[str], list[str]] | None:
    """Return the parameters of `INSERT`, or None if there are no labels."""
    rows = [
        (session_key, key, value)
        for session_key, session_labels in labels.items()
        for key, value in sorted(set(session_labels))
    ]
    if not rows:
        return None
    session_keys, keys, values = map(list, zip(*rows, strict=True))
    return cell, session_keys, keys, values
