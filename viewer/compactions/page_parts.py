"""The parts of a compaction's page that depend only on its spans: ledger, diagram, summary and lost facts.

The texts of messages are not among them, because an archive may expire.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.template.loader import render_to_string
from django.utils.html import json_script

from ingest.storage.payloads import unreadable_message
from viewer.compactions.flow import build_flow
from viewer.compactions.ledger import Entry, Ledger, parse_ledger
from viewer.compactions.lineage import Line, Version, summary_version
from viewer.compactions.lost_facts import lost_facts, source_ids
from viewer.kinds import PRUNED, RETENTION, SUMMARY
from viewer.sessions.checks import Check
from viewer.sessions.spans import SpanRow
from viewer.visibility.public_parts import public_payload

# Each line has several elements, and a browser takes seconds to draw a hundred thousand.
FIRST_LINES = 300


@dataclass(frozen=True, slots=True)
class LedgerPart:
    """The fate ledger. It has no content."""

    entry_count: int
    removed_count: int
    inferred_count: int
    counts: list[tuple[str, int, int]]
    is_truncated: bool
    first_entries: list[Entry]
    rows: str
    """All entries as a script element with JSON for `static/js/compactions/fate-ledger.js`."""


@dataclass(frozen=True, slots=True)
class SummaryPart:
    """The figures of the summary, without its text."""

    version: int
    tokens: int
    input_tokens: int
    added: int
    edited: int
    removed: int
    line_count: int
    is_compared: bool
    is_disclosed: bool
    omitted: str
    original_bytes: int


@dataclass(frozen=True, slots=True)
class PublicParts:
    """The parts that everyone with access to the session may see."""

    ledger: LedgerPart
    flow: str  # HTML
    summary: SummaryPart | None
    unreadable: dict[str, str]
    """Messages about stored payloads that could not be read, by part: `ledger`, `summary`, `previous`, `lost`."""


@dataclass(frozen=True, slots=True)
class ContentParts:
    """The parts that only readers with the right to view payloads may see."""

    lines: str = ""  # HTML of the first lines of the summary
    lost: list[dict[str, Any]] = field(default_factory=list)
    sources: dict[str, Entry] = field(default_factory=dict)
    """The messages in the ledger that contained a lost fact, by id."""
    earlier: list[str] = field(default_factory=list)
    """The ids of messages that a line of the summary came from, and that are not in the ledger."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The spans of a compaction that its page is computed from."""

    number: int
    pruned: SpanRow | None
    summary: SpanRow | None
    retention: SpanRow | None
    previous: SpanRow | None  # the summary before
    sizes: tuple[int, int | None]  # of the prompt before and after
    is_corrected: bool  # with the provider's counts, so that the sizes are not the sum of the messages

    @classmethod
    def of(cls, number: int, check: Check, previous: Check | None) -> Sources:
        pruned, summary, retention = (check.span(kind) for kind in (PRUNED, SUMMARY, RETENTION))
        before = previous.span(SUMMARY) if previous else None
        return cls(
            number, pruned, summary, retention, before, (check.before, check.after), check.is_corrected_by_provider
        )

    def __iter__(self) -> Iterator[SpanRow]:
        return (span for span in (self.pruned, self.summary, self.retention, self.previous) if span is not None)


def build(sources: Sources, payloads: Mapping[str, Any]) -> tuple[PublicParts, ContentParts]:
    """Compute the parts of a page from the payloads of its spans, which are given by span key."""

    def payload(span: SpanRow | None) -> Any:
        return payloads.get(span.key) if span else None

    spans = {
        "ledger": sources.pruned,
        "summary": sources.summary,
        "previous": sources.previous,
        "lost": sources.retention,
    }
    unreadable = {part: text for part, span in spans.items() if (text := unreadable_message(payload(span)))}
    ledger = parse_ledger(public_payload(PRUNED, payload(sources.pruned)))
    version = _summary_version(sources, payloads)
    lost = lost_facts(payload(sources.retention))
    named = {source for fact in lost for source in source_ids(fact)}
    public = PublicParts(
        ledger=_ledger_part(ledger),
        flow=_draw_flow(ledger, sources),
        summary=_summary_part(version),
        unreadable=unreadable,
    )
    return public, ContentParts(
        lines=_draw_lines(ledger, version.lines[:FIRST_LINES] if version else []),
        lost=lost,
        sources={entry.id: entry for entry in ledger.entries if entry.id in named},
        earlier=_earlier_sources(ledger, version),
    )


def all_lines(sources: Sources, payloads: Mapping[str, Any]) -> str:
    """Return all lines of the summary as HTML."""
    version = _summary_version(sources, payloads)
    payload = payloads.get(sources.pruned.key) if sources.pruned else None
    return _draw_lines(parse_ledger(public_payload(PRUNED, payload)), version.lines if version else [])


def _summary_version(sources: Sources, payloads: Mapping[str, Any]) -> Version | None:
    if sources.summary is None:
        return None
    previous = payloads.get(sources.previous.key) if sources.previous else None
    if unreadable_message(previous):
        previous = None
    return summary_version(sources.number, sources.summary, payloads.get(sources.summary.key), previous)


def _earlier_sources(ledger: Ledger, version: Version | None) -> list[str]:
    named = {source for line in version.lines for source in line.sources} if version else set()
    return sorted(named - {entry.id for entry in ledger.entries})


def _ledger_part(ledger: Ledger) -> LedgerPart:
    return LedgerPart(
        entry_count=len(ledger.entries),
        removed_count=ledger.removed_count,
        inferred_count=ledger.inferred_count,
        counts=ledger.counts,
        is_truncated=ledger.is_truncated,
        first_entries=ledger.first_entries,
        rows=json_script(ledger.rows, "ledger-rows", encoder=_Compact),
    )


def _draw_flow(ledger: Ledger, sources: Sources) -> str:
    if not ledger.entries:
        return ""
    flow = build_flow(ledger, *sources.sizes)
    context = {"flow": flow, "ledger": ledger, "is_corrected": sources.is_corrected}
    return render_to_string("compactions/_flow.html", context)


def _summary_part(version: Version | None) -> SummaryPart | None:
    if version is None:
        return None
    return SummaryPart(
        version=version.version,
        tokens=version.tokens,
        input_tokens=version.input_tokens,
        added=version.added,
        edited=version.edited,
        removed=version.removed,
        line_count=len(version.lines),
        is_compared=version.is_compared,
        is_disclosed=version.is_disclosed,
        omitted=version.omitted,
        original_bytes=version.original_bytes,
    )


def _draw_lines(ledger: Ledger, lines: Sequence[Line]) -> str:
    if not lines:
        return ""
    positions = {entry.id: entry.position + 1 for entry in ledger.entries}
    return render_to_string("compactions/_summary_lines.html", {"lines": lines, "positions": positions})


class _Compact(json.JSONEncoder):
    """Encodes JSON without spaces."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "separators": (",", ":")})
