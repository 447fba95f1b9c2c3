"""Merge two versions of a span or a trace.

Pure and idempotent: `merge(merge(a, b), b)` equals `merge(a, b)`. Missing fields are filled in. If both versions have a
field, the version with the later end wins, otherwise the older version.

A compaction of another program can be known from its log and from the wire. Then the version with the better evidence
wins as a whole, whatever arrives first: a fate that was inferred says nothing beside one that was seen.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

import msgspec
from compact.events import EVENT_PREFIX, EVIDENCE

from ingest.decoding.records import Span, Trace
from ingest.decoding.span_stats import stats_of
from ingest.decoding.tool_arguments import TOOL, arguments_hash
from ingest.storage.payloads import UnreadablePayload, decode, decode_data, pack, pack_data, unpack

logger = logging.getLogger("ariadne.ingest")

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode
_STATUS_RANK = {"": 0, "ok": 1, "error": 2}
_EVIDENCE: dict[str, int] = {name: rank for rank, name in enumerate(EVIDENCE)}
# Kinds and names without information. Any other value replaces them.
_GENERIC = frozenset({"", "span", "custom"})


def merge(old: Span, new: Span) -> Span:
    """Merge `new` into `old`. Return `old` itself if `new` adds nothing."""
    first, second = _by_precedence(old, new)
    kind = second.kind if first.kind in _GENERIC and second.kind not in _GENERIC else first.kind
    name = second.name if _has_generic_name(first) and not _has_generic_name(second) else first.name
    data = _merge_packed(first.data, second.data, pack_data)
    payload = second.payload
    if first.payload is not None:
        payload = _merge_packed(first.payload, second.payload, partial(pack, kind=kind))
    properties = decode_data(data)
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
        payload=payload,
        session_id=first.session_id or second.session_id,
        stats=stats_of(kind, properties),
        arguments_hash=arguments_hash(kind, properties, decode(payload)) if kind == TOOL else None,
    )
    return old if _is_unchanged(old, merged) else merged


def _by_precedence(old: Span, new: Span) -> tuple[Span, Span]:
    """Return the version whose fields win and the other one, without its content if it has worse evidence."""
    difference = _evidence(new) - _evidence(old) if old.kind.startswith(EVENT_PREFIX) else 0
    first, second = (new, old) if difference > 0 or (not difference and _ends_later(new, old)) else (old, new)
    if difference:
        second = msgspec.structs.replace(second, data=first.data, payload=first.payload)
    return first, second


def _evidence(span: Span) -> int:
    """Return the rank of the evidence for a compaction. Without any, the library itself has compacted."""
    evidence = decode_data(span.data).get("evidence")
    return _EVIDENCE.get(evidence, len(_EVIDENCE)) if isinstance(evidence, str) else len(_EVIDENCE)


def merge_traces(old: Trace, new: Trace) -> Trace:
    """Merge `new` into `old`. Return `old` itself if `new` adds nothing."""
    merged = Trace(
        trace_id=old.trace_id,
        name=old.name or new.name,
        group_id=old.group_id or new.group_id,
        session_id=old.session_id or new.session_id,
        started_us=_earliest(old.started_us, new.started_us),
        ended_us=_latest(old.ended_us, new.ended_us),
        metadata=_merge_objects(old.metadata, new.metadata),
    )
    is_unchanged = all(
        getattr(old, field) == getattr(merged, field) for field in Trace.__struct_fields__ if field != "metadata"
    )
    return old if is_unchanged and _equal_json(old.metadata, merged.metadata) else merged


def _has_generic_name(span: Span) -> bool:
    return span.name in _GENERIC or span.name == span.kind


def _ends_later(new: Span, old: Span) -> bool:
    return new.ended_us is not None and (old.ended_us is None or new.ended_us > old.ended_us)


def _is_unchanged(old: Span, merged: Span) -> bool:
    return (
        old.parent_id == merged.parent_id
        and old.kind == merged.kind
        and old.name == merged.name
        and old.status == merged.status
        and old.started_us == merged.started_us
        and old.ended_us == merged.ended_us
        and _equal_packed(old.data, merged.data)
        and _equal_packed(old.payload, merged.payload)
    )


def _equal_json(one: bytes, other: bytes) -> bool:
    return one == other or msgspec.json.decode(one) == msgspec.json.decode(other)


def _merge_objects(first: bytes, second: bytes) -> bytes:
    """Merge two encoded objects. Values of `first` win."""
    if second in {b"{}", first}:
        return first
    if first == b"{}":
        return second
    kept, added = _decode(first), _decode(second)
    missing = {key: value for key, value in added.items() if key not in kept}
    return _encode({**kept, **missing}) if missing else first


def _equal_packed(one: bytes | None, other: bytes | None) -> bool:
    return one == other or (one is not None and other is not None and decode(one) == decode(other))


def _merge_packed(first: bytes, second: bytes | None, pack: Callable[[bytes], bytes]) -> bytes:
    """Merge two objects in their stored form. Values of `first` win, and one that cannot be read stays as it is."""
    if second is None or first == second:
        return first
    try:
        kept, added = unpack(first), unpack(second)
        if kept[:1] != b"{" or added[:1] != b"{":
            return first
        merged = _merge_objects(kept, added)
    except (UnreadablePayload, msgspec.DecodeError):
        logger.exception("payload_not_merged")
        return first
    return first if merged is kept else pack(merged)


def _earliest(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


def _latest(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)
