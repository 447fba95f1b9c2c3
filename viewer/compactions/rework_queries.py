"""The reads behind *regret*: what was called and said between one compaction and the next.

They look through a whole session, so the page asks for them after it is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db import connection

from ingest.archive.transcripts import read_texts
from ingest.models import Session
from ingest.storage.messages import REFERENCE, restore
from viewer.compactions.rework import Repeat, Said, text_of, words_of
from viewer.sessions.queries import SKELETON, from_json, span_row

_COLUMNS = [*SKELETON.split(", "), "data"]
_ARGUMENTS = """coalesce(payload->>'input', payload->>'arguments', payload->>'tool.arguments',
    data->>'input', data->>'arguments', data->>'tool.arguments')"""
# Arguments arrive under several names, as data or as payload; what matters is only whether they are the same.
_REPEATED = f"""
WITH calls AS (
    SELECT *, {_ARGUMENTS} AS said, md5({_ARGUMENTS}) AS arguments
    FROM ingest_span WHERE session_key = %(key)s AND session_day = %(day)s AND kind = 'tool')
SELECT {", ".join("b." + name for name in _COLUMNS)}, {", ".join("a." + name for name in _COLUMNS)},
       a.times, left(a.said, 300)
FROM (
    SELECT DISTINCT ON (name, arguments) *, count(*) OVER (PARTITION BY name, arguments) AS times FROM calls
    WHERE started_at >= %(at)s AND arguments IS NOT NULL
      AND (%(until)s::timestamptz IS NULL OR started_at < %(until)s)
    ORDER BY name, arguments, started_at) a
JOIN LATERAL (
    SELECT * FROM calls b WHERE b.name = a.name AND b.arguments = a.arguments AND b.started_at < %(at)s
    ORDER BY b.started_at DESC LIMIT 1) b ON true
ORDER BY a.started_at LIMIT 50
"""  # noqa: S608 - constants
# Of a prompt sent as a list only the end is new: its last message.
_SPOKEN = f"""
SELECT {", ".join(_COLUMNS)},
       CASE jsonb_typeof(payload->'input') WHEN 'array' THEN payload->'input'->-1 ELSE payload->'input' END,
       CASE jsonb_typeof(payload->'output') WHEN 'array' THEN payload->'output'->-1 ELSE payload->'output' END
FROM ingest_span
WHERE session_key = %(key)s AND session_day = %(day)s AND kind IN ('agent', 'generation', 'turn')
  AND payload ?| array['input', 'output'] AND pg_column_size(payload) < 200000
  AND started_at >= %(at)s AND (%(until)s::timestamptz IS NULL OR started_at < %(until)s)
ORDER BY started_at LIMIT 500
"""  # noqa: S608 - constants


def repeated_tools(session: Session, at: datetime, until: datetime | None) -> list[Repeat]:
    """Calls made between `at` and `until` with the name and arguments of one made before `at`."""
    width = len(_COLUMNS)
    with connection.cursor() as cursor:
        cursor.execute(_REPEATED, {"key": session.session_key, "day": session.day, "at": at, "until": until})
        return [
            Repeat(span_row(row[:width]), span_row(row[width : 2 * width]), *row[2 * width :])
            for row in cursor.fetchall()
        ]


def spoken(session: Session, at: datetime, until: datetime | None) -> list[Said]:
    """What the user and the agent said between `at` and `until`, as far as spans carry it."""
    with connection.cursor() as cursor:
        cursor.execute(_SPOKEN, {"key": session.session_key, "day": session.day, "at": at, "until": until})
        rows = [(span_row(row[:-2]), from_json(row[-2]), from_json(row[-1])) for row in cursor.fetchall()]
    # Messages stored by hash come back in one read for all spans.
    flat = [part for _, asked, answered in rows for part in (asked, answered)]
    if any(isinstance(part, dict) and REFERENCE in part for part in flat):
        flat = restore(session.project_id, {"said": flat})["said"]
    found = []
    for (span, _, _), asked, answered in zip(rows, flat[::2], flat[1::2], strict=True):
        found += [Said(span, "user", text) for text in [text_of(asked, "user")] if text]
        found += [Said(span, "agent", text) for text in [text_of(answered, "assistant")] if text]
    return found


def texts(session: Session, hashes: Iterable[str]) -> dict[str, str]:
    """The archived texts of messages, by hash; those that were never archived are left out."""
    names = [bytes.fromhex(name) for name in hashes if len(name) == 64 and set(name) <= set("0123456789abcdef")]
    return {name.hex(): words_of(from_json(body)) for name, body in read_texts(session.project_id, names).items()}
