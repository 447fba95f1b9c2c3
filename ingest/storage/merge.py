"""Two tellings of one span, or of one trace, become one.

Pure and idempotent: `merge(merge(a, b), b)` is `merge(a, b)`. What is missing is filled in; where two tellings disagree
the one that knows the end is right, and between equals the one that came first.
"""

from __future__ import annotations

import msgspec

from ingest.decoding.records import Span, Trace
from ingest.decoding.span_facts import facts_of

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode
_STATUS_RANK = {"": 0, "ok": 1, "error": 2}
# Kinds and names that say nothing; any other is better.
_VAGUE = frozenset({"", "span", "custom"})


def merge(old: Span, new: Span) -> Span:
    """`old` completed by `new`; `old` itself if there was nothing to add."""
    first, second = (new, old) if _knows_more(new, old) else (old, new)
    kind = second.kind if first.kind in _VAGUE and second.kind not in _VAGUE else first.kind
    name = second.name if _is_vague(first) and not _is_vague(second) else first.name
    data = _filled(first.data, second.data)
    merged = Span(
        trace_id=old.trace_id,
        span_id=old.span_id,
        parent_id=first.parent_id if first.parent_id is not None else second.parent_id,
        kind=kind,
        name=name,
        status=max(old.status, new.status, key=_STATUS_RANK.__getitem__),
        started_us=_earliest(old.started_us, new.started_us),
        ended_us=first.ended_us if first.ended_us is not None else second.ended_us,
        data=data,
        payload=_filled_payload(first.payload, second.payload),
        session_id=first.session_id or second.session_id,
        facts=facts_of(kind, msgspec.json.decode(data)),
    )
    return old if _same(old, merged) else merged


def merge_traces(old: Trace, new: Trace) -> Trace:
    """`old` completed by `new`; `old` itself if there was nothing to add."""
    merged = Trace(
        trace_id=old.trace_id,
        name=old.name or new.name,
        group_id=old.group_id or new.group_id,
        session_id=old.session_id or new.session_id,
        started_us=_earliest(old.started_us, new.started_us),
        ended_us=_latest(old.ended_us, new.ended_us),
        metadata=_filled(old.metadata, new.metadata),
    )
    same = all(
        getattr(old, field) == getattr(merged, field) for field in Trace.__struct_fields__ if field != "metadata"
    )
    return old if same and _equal_json(old.metadata, merged.metadata) else merged


def _is_vague(span: Span) -> bool:
    return span.name in _VAGUE or span.name == span.kind


def _knows_more(new: Span, old: Span) -> bool:
    return new.ended_us is not None and (old.ended_us is None or new.ended_us > old.ended_us)


def _same(old: Span, merged: Span) -> bool:
    return (
        old.parent_id == merged.parent_id
        and old.kind == merged.kind
        and old.name == merged.name
        and old.status == merged.status
        and old.started_us == merged.started_us
        and old.ended_us == merged.ended_us
        and _equal_json(old.data, merged.data)
        and _equal_json(old.payload, merged.payload)
    )


def _equal_json(one: bytes | None, other: bytes | None) -> bool:
    if one == other:
        return True
    return one is not None and other is not None and msgspec.json.decode(one) == msgspec.json.decode(other)


def _filled(first: bytes, second: bytes) -> bytes:
    """The keys of both; those of `first` where both have one."""
    if second in {b"{}", first}:
        return first
    if first == b"{}":
        return second
    kept, added = _decode(first), _decode(second)
    missing = {key: value for key, value in added.items() if key not in kept}
    return _encode({**kept, **missing}) if missing else first


def _filled_payload(first: bytes | None, second: bytes | None) -> bytes | None:
    if first is None or second is None:
        return second if first is None else first
    if first[:1] == second[:1] == b"{":
        return _filled(first, second)
    return first


def _earliest(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


def _latest(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)
