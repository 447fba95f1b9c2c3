"""Declare texts clean. Only the door may import this module, after it has redacted them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ingest.decoding.raw_records import RawSpan, RawTrace

if TYPE_CHECKING:
    from ingest.decoding.clean import CleanText

    class SealedSpan(RawSpan):
        """A raw span after redaction."""

        trace_id: CleanText
        span_id: CleanText
        parent_id: CleanText | None
        kind: CleanText
        name: CleanText
        session_id: CleanText | None

    class SealedTrace(RawTrace):
        """A raw trace after redaction."""

        trace_id: CleanText
        name: CleanText
        group_id: CleanText | None
        session_id: CleanText | None


def seal(text: str) -> CleanText:
    """Declare that a text contains no secrets."""
    return cast("CleanText", text)


def seal_span(span: RawSpan) -> SealedSpan:
    """Declare that the texts of a span contain no secrets."""
    return cast("SealedSpan", span)


def seal_trace(trace: RawTrace) -> SealedTrace:
    """Declare that the texts of a trace contain no secrets."""
    return cast("SealedTrace", trace)
