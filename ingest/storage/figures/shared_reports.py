"""Count a compaction once that several events report.

Each report adds one to its session when it arrives. Today's clients send one report for each compaction, so that is
all. Reports of older clients are shared (see `compact.events.check_result`): among those with the same parent, only one
kind counts. This module takes the others out of the figures. It needs all shared reports of a parent, and runs only if
a commit has one, or if a session is counted again. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec
from compact.events.reading import deciding_kind

from ingest.decoding.records import Span
from ingest.storage.figures.aggregates import SessionDelta

Parent = tuple[str, str | None]


def shared_reports(spans: Iterable[Span]) -> list[Span]:
    """Return the spans whose compaction other spans may report, too."""
    return [span for span in spans if span.stats.event.is_shared_report]


def take_out(delta: SessionDelta, spans: Iterable[Span]) -> None:
    """Remove the reports that do not count from a delta to which these spans were added."""
    for span in _surplus(spans):
        delta.subtract([span])
        delta.add([_without_report(span)])


def correct(delta: SessionDelta, stored: Iterable[Span], replaced: Iterable[Span], changed: Iterable[Span]) -> None:
    """Correct a delta in which each report counts.

    `stored` are the reports of the session after the commit, in which `changed` are new and `replaced` those of before.
    """
    after = shared_reports(stored)
    new = {(span.trace_id, span.span_id) for span in changed}
    before = [span for span in after if (span.trace_id, span.span_id) not in new] + shared_reports(replaced)
    take_out(delta, after)
    # They did not count before the commit either.
    for span in _surplus(before):
        delta.subtract([_without_report(span)])
        delta.add([span])


def _surplus(spans: Iterable[Span]) -> list[Span]:
    """Return the shared reports that do not count."""
    parents: dict[Parent, list[Span]] = {}
    for span in shared_reports(spans):
        parents.setdefault((span.trace_id, span.parent_id), []).append(span)
    surplus = []
    for reports in parents.values():
        kind = deciding_kind(Counter(span.kind for span in reports))
        surplus += [span for span in reports if span.kind != kind]
    return surplus


def _without_report(span: Span) -> Span:
    event = msgspec.structs.replace(span.stats.event, is_compaction=False, freed_tokens=0, cache_lost_tokens=0)
    return msgspec.structs.replace(span, stats=msgspec.structs.replace(span.stats, event=event))
