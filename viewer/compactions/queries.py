"""Queries of one compaction: its ledger and transcript, and what happened until the next compaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any

from django.db import connection

from ingest.archive.transcripts import read_texts
from ingest.decoding.tool_arguments import tool_arguments
from ingest.models import Session, Transcript
from ingest.storage.messages import REFERENCE, restore
from ingest.storage.payloads import decode, decode_up_to
from viewer.compactions.ledger import Ledger, parse_ledger
from viewer.compactions.lost_facts import lost_facts, source_ids, with_sentences
from viewer.compactions.rework import RepeatedCall, Utterance, message_text, text_of_role
from viewer.kinds import PRUNED
from viewer.sessions.checks import Check
from viewer.sessions.lines import format_arguments
from viewer.sessions.queries import IN_SESSION, SPAN_COLUMNS, from_json, in_session, span_row
from viewer.sessions.spans import SpanRow
from viewer.visibility.public_parts import Visibility, public_payload

_COLUMNS = [*SPAN_COLUMNS.split(", "), "stored_data"]
_REPEATED_CALLS = f"""
WITH calls AS (
    SELECT {SPAN_COLUMNS}, data AS stored_data, arguments_hash AS arguments
    FROM ingest_span WHERE cell = %(cell)s AND session_key = %(key)s AND session_day = %(day)s AND kind = 'tool')
SELECT {", ".join("b." + name for name in _COLUMNS)}, {", ".join("a." + name for name in _COLUMNS)},
       a.times
FROM (
    SELECT DISTINCT ON (name, arguments) *, count(*) OVER (PARTITION BY name, arguments) AS times FROM calls
    WHERE started_at >= %(at)s AND arguments IS NOT NULL
      AND (%(until)s::timestamptz IS NULL OR started_at < %(until)s)
    ORDER BY name, arguments, started_at) a
JOIN (
    SELECT DISTINCT ON (name, arguments) * FROM calls WHERE started_at < %(at)s AND arguments IS NOT NULL
    ORDER BY name, arguments, started_at DESC) b ON b.name = a.name AND b.arguments = a.arguments
ORDER BY a.started_at LIMIT 50
"""  # noqa: S608 - constants
_CONVERSATION = f"""
SELECT {SPAN_COLUMNS}, data, payload
FROM ingest_span
WHERE cell = %(cell)s AND session_key = %(key)s AND session_day = %(day)s AND kind IN ('agent', 'generation', 'turn')
  AND payload IS NOT NULL AND pg_column_size(payload) < 200000
  AND (started_at, seq) > (%(after)s, %(after_seq)s) AND (%(until)s::timestamptz IS NULL OR started_at < %(until)s)
ORDER BY started_at, seq LIMIT %(limit)s
"""  # noqa: S608 - constants
_MAX_CONVERSATION = 500
_MAX_PAYLOAD_BYTES = 2_000_000
_HEX_DIGITS = set("0123456789abcdef")


def fate_ledger(session: Session, check: Check) -> Ledger:
    """Return the fate ledger of a compaction. It has no content: fields that are not metadata are hidden."""
    return public_ledger(payload(session, check.span(PRUNED)))


def public_ledger(payload: Any) -> Ledger:
    return parse_ledger(public_payload(PRUNED, payload))


def payload(session: Session, span: SpanRow | None) -> Any:
    """Return the payload of a span, with its content. Callers show it only to readers who may see it."""
    if span is None:
        return None
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT payload FROM ingest_span WHERE {IN_SESSION} AND trace_id = %s AND span_id = %s",  # noqa: S608
            [*in_session(session), span.trace_id, span.span_id],
        )
        row = cursor.fetchone()
    return decode(row[0]) if row else None


def payloads(session: Session, spans: Iterable[SpanRow]) -> dict[str, Any]:
    """Return the payloads of spans by span key, with their content."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT trace_id, span_id, payload FROM ingest_span "  # noqa: S608 - constants
            f"WHERE {IN_SESSION} AND span_id = ANY(%s) AND payload IS NOT NULL",
            [*in_session(session), [span.span_id for span in spans]],
        )
        return {f"{trace}:{span}": decode(stored) for trace, span, stored in cursor.fetchall()}


def lost_in_sentences(session: Session, check: Check, payload: Any) -> list[dict[str, Any]]:
    """Return the lost facts of a compaction, each with the sentence that contained it."""
    facts = lost_facts(payload)
    if not facts:
        return []
    sources = {source for fact in facts for source in source_ids(fact)}
    hashes = {entry.id: entry.hash for entry in fate_ledger(session, check).entries if entry.id in sources}
    bodies = archived_texts(session, set(hashes.values()))
    return with_sentences(facts, {name: bodies[digest] for name, digest in hashes.items() if digest in bodies})


def transcript(session: Session, step: int | None) -> Transcript | None:
    if step is None:
        return None
    return Transcript.objects.filter(pk=(session.cell, session.session_key, step)).first()


def message_bodies(session: Session, hashes: Iterable[str]) -> dict[str, Any]:
    """Return stored messages by hash: from the archive, else from the prompts of spans. Unknown ones are left out."""
    names = {name: bytes.fromhex(name) for name in hashes if len(name) == 64 and set(name) <= _HEX_DIGITS}
    archived = read_texts(session.cell, list(names.values()))
    bodies = {digest.hex(): from_json(body) for digest, body in archived.items()}
    missing = [name for name in names if name not in bodies]
    if missing:
        references = {"messages": [{REFERENCE: name} for name in missing]}
        restored = restore(session.cell, references)["messages"]
        bodies |= {
            name: body
            for name, body in zip(missing, restored, strict=True)
            if not (REFERENCE in body and body.get("missing"))
        }
    return bodies


def archived_texts(session: Session, hashes: Iterable[str]) -> dict[str, str]:
    """Return the texts of stored messages by hash."""
    return {name: message_text(body) for name, body in message_bodies(session, hashes).items()}


def repeated_calls(
    session: Session, visibility: Visibility, at: datetime, until: datetime | None
) -> list[RepeatedCall]:
    """Return tool calls between `at` and `until` that repeat the name and arguments of a call before `at`."""
    width = len(_COLUMNS)
    with connection.cursor() as cursor:
        cell, key, day = in_session(session)
        cursor.execute(_REPEATED_CALLS, {"cell": cell, "key": key, "day": day, "at": at, "until": until})
        rows = cursor.fetchall()
    pairs = [(span_row(row[:width]), span_row(row[width : 2 * width]), row[-1]) for row in rows]
    has_content = visibility is Visibility.CONTENT
    stored = payloads(session, [again for _, again, _ in pairs]) if has_content else {}
    calls = []
    for before, again, times in pairs:
        arguments = format_arguments(tool_arguments(again.data, stored.get(again.key))) if has_content else ""
        calls.append(RepeatedCall(before.as_seen(visibility), again.as_seen(visibility), times, arguments))
    return calls


def _exchanges(session: Session, at: datetime, until: datetime | None) -> Iterator[tuple[SpanRow, Any, Any]]:
    """Yield the spans between `at` and `until` that have a prompt or an answer, each with both."""
    values: dict[str, Any] = {
        "cell": session.cell,
        "key": session.session_key,
        "day": session.day,
        "until": until,
        "limit": _MAX_CONVERSATION,
    }
    position = (at, -1)
    while True:
        with connection.cursor() as cursor:
            cursor.execute(_CONVERSATION, {**values, "after": position[0], "after_seq": position[1]})
            rows = [(span_row(row[:-1]), row[-1]) for row in cursor.fetchall()]
        for span, stored in rows:
            payload = decode_up_to(stored, _MAX_PAYLOAD_BYTES)
            if isinstance(payload, dict) and ("input" in payload or "output" in payload):
                yield span, _last_message(payload.get("input")), _last_message(payload.get("output"))
        if len(rows) < _MAX_CONVERSATION or rows[-1][0].started_at is None:
            return
        position = (rows[-1][0].started_at, rows[-1][0].seq)


def _last_message(value: Any) -> Any:
    """Return the only new message of a prompt, which is the last one if it was sent as a list."""
    if isinstance(value, list):
        return value[-1] if value else None
    return value


def conversation(session: Session, at: datetime, until: datetime | None) -> list[Utterance]:
    """Return what the user and the agent said between `at` and `until`, as far as spans contain it."""
    rows = list(islice(_exchanges(session, at, until), _MAX_CONVERSATION))
    # Restore the messages that are stored by hash in one read for all spans.
    messages = [message for _, user_input, output in rows for message in (user_input, output)]
    if any(isinstance(message, dict) and REFERENCE in message for message in messages):
        messages = restore(session.cell, {"messages": messages})["messages"]
    utterances = []
    for (span, _, _), user_input, output in zip(rows, messages[::2], messages[1::2], strict=True):
        pairs = (("user", text_of_role(user_input, "user")), ("agent", text_of_role(output, "assistant")))
        utterances += [Utterance(span, speaker, text) for speaker, text in pairs if text]
    return utterances
