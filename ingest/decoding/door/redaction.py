"""Redact secrets on arrival with `compact`'s rules, in addition to the client's own redaction, and make the records.

All events of a request are searched together, so that a key is found even if it is split over several of them. Records
and the figures in them are made afterwards, and nowhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec
from compact.redaction import default_redactor, redact_items

from ingest.decoding.door.project_rules import NO_RULES, ProjectRules, redactor_for
from ingest.decoding.door.pseudonyms import find_pseudonyms, keyed_hash
from ingest.decoding.door.seal import seal, seal_span, seal_trace
from ingest.decoding.raw_records import Parsed, Raw, RawSpan, RawTrace
from ingest.decoding.records import Decoded, Record, Span, Trace
from ingest.decoding.schema import truncate
from ingest.decoding.span_stats import KINDS_WITHOUT_STATS, NO_STATS, stats_of

if TYPE_CHECKING:
    from ingest.decoding.door.seal import SealedTrace

# Names and kinds are displayed on one line. They are shortened after redaction, which does not recognize half a key.
NAME_MAX_CHARS = 500
KIND_MAX_CHARS = 100
_DERIVED_ID_BYTES = 8
_SPAN_IDS = ("trace_id", "span_id", "parent_id", "kind", "session_id")
_TRACE_IDS = ("trace_id", "group_id", "session_id")
_encode = msgspec.json.Encoder().encode


def warm_up() -> None:
    """Compile the rules, so that the first large body does not wait for it. Takes about half a second."""
    default_redactor().warm_up()


def redact(parsed: Parsed, rules: ProjectRules = NO_RULES) -> Decoded:
    """Replace the secrets in events, in place, and return their records."""
    events = parsed.events
    changed = _redact_texts(events, rules)
    pseudonyms = find_pseudonyms(_ids_and_kinds(events), rules)
    if pseudonyms:
        changed |= _replace_ids(events, pseudonyms)
    for index in changed:
        _hide_origin(events[index], rules)
    return Decoded(
        records=_to_records(events),
        indexes=parsed.indexes,
        rejections=parsed.rejections,
        redacted_count=len(changed),
        replaced_ids=len(pseudonyms),
    )


def redact_messages(
    messages: Sequence[dict[str, Any]], rules: ProjectRules = NO_RULES
) -> list[tuple[dict[str, Any], Counter[str]]]:
    """Redact the messages of a transcript together. Return each with the number of matches for each rule."""
    return redact_items(messages, redactor_for(rules).trees)


def _redact_texts(events: Sequence[Raw], rules: ProjectRules) -> set[int]:
    """Redact names and content. Return the indexes of the events that had a secret."""
    values = [
        (event.name, event.data, event.payload) if isinstance(event, RawSpan) else (event.name, event.metadata, None)
        for event in events
    ]
    changed = redactor_for(rules).changed_trees(values)
    for index, (clean, _) in changed.items():
        _replace_content(events[index], *clean)
    return set(changed)


def _replace_content(event: Raw, name: str, data: dict[str, Any], payload: Any) -> None:
    event.name = name
    if isinstance(event, RawTrace):
        if data is not event.metadata:
            event.metadata, event.encoded_metadata = data, _encode(data)
        return
    if data is not event.data:
        event.data, event.encoded_data = data, _encode(data)
    if payload is not event.payload:
        event.payload, event.encoded_payload = payload, _encode(payload)


def _ids_and_kinds(events: Iterable[Raw]) -> set[str]:
    texts: set[str | None] = set()
    add = texts.update
    for event in events:
        if isinstance(event, RawSpan):
            add((event.trace_id, event.span_id, event.parent_id, event.kind, event.session_id))
        else:
            add((event.trace_id, event.group_id, event.session_id))
    texts.discard(None)
    return cast("set[str]", texts)


def _replace_ids(events: Sequence[Raw], pseudonyms: Mapping[str, str]) -> set[int]:
    """Replace the ids and kinds that have a pseudonym. Return the indexes of the events that had one."""
    changed: set[int] = set()
    for index, event in enumerate(events):
        for field in _SPAN_IDS if isinstance(event, RawSpan) else _TRACE_IDS:
            pseudonym = pseudonyms.get(getattr(event, field))
            if pseudonym is not None:
                setattr(event, field, pseudonym)
                changed.add(index)
    return changed


def _hide_origin(event: Raw, rules: ProjectRules) -> None:
    """Replace an id that is a hash of the event as received, which reveals a secret to a person who guesses."""
    if isinstance(event, RawSpan) and event.has_derived_id:
        event.span_id = keyed_hash(event.span_id, rules, size=_DERIVED_ID_BYTES)


def _to_records(events: Iterable[Raw]) -> list[Record]:
    """Return the records of redacted events.

    A loop without a function call for each event, which would cost a tenth of decoding it.
    """
    records: list[Record] = []
    for event in events:
        if isinstance(event, RawTrace):
            records.append(_to_trace(seal_trace(event)))
            continue
        span = seal_span(event)
        kind, name = span.kind, span.name
        if len(kind) > KIND_MAX_CHARS or not kind.islower():
            kind = seal(truncate(kind.lower(), KIND_MAX_CHARS))
        if not 0 < len(name) <= NAME_MAX_CHARS:
            name = seal(truncate(name, NAME_MAX_CHARS)) or kind
        # Positional arguments, because twelve keywords would cost as much as creating the span.
        records.append(
            Span(
                span.trace_id,
                span.span_id,
                span.parent_id,
                kind,
                name,
                span.status,
                span.started_us,
                span.ended_us,
                span.encoded_data,
                span.encoded_payload,
                span.session_id,
                NO_STATS if kind in KINDS_WITHOUT_STATS else stats_of(kind, span.data),
            )
        )
    return records


def _to_trace(trace: SealedTrace) -> Trace:
    return Trace(
        trace.trace_id,
        seal(truncate(trace.name, NAME_MAX_CHARS)),
        trace.group_id,
        trace.session_id,
        trace.started_us,
        trace.ended_us,
        trace.encoded_metadata,
    )
