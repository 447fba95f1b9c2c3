"""The parts of a compaction's page that depend only on its spans: ledger, diagram, summary and lost facts.

They are computed once per process and version of the spans. The texts of messages are not among them, because an
archive may expire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any
from uuid import UUID

from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from ingest.models import Session
from viewer.compactions import queries
from viewer.compactions.flow import build_flow
from viewer.compactions.ledger import Ledger
from viewer.compactions.lineage import Version, hide_text, previous_summary, summary_version
from viewer.kinds import PRUNED, RETENTION, SUMMARY
from viewer.sessions.checks import Check

# A page with a long summary has about 150 kB.
_CACHED_PAGES = 64


@dataclass(frozen=True)
class StoredParts:
    """The stored parts of a compaction, with their content. Callers hide it from readers who may not see it."""

    ledger: Ledger
    version: Version | None
    lost: list[dict[str, Any]]
    sizes: tuple[int, int | None]

    @cached_property
    def flow(self) -> SafeString | None:
        """The diagram as HTML."""
        if not self.ledger.entries:
            return None
        flow = build_flow(self.ledger, *self.sizes)
        return render_to_string("compactions/_flow.html", {"flow": flow, "ledger": self.ledger})

    @cached_property
    def lines(self) -> SafeString:
        """The lines of the summary as HTML."""
        positions = {entry.id: entry.position + 1 for entry in self.ledger.entries}
        return render_to_string("compactions/_summary_lines.html", {"version": self.version, "positions": positions})

    @cached_property
    def hidden_version(self) -> Version | None:
        return self.version and hide_text(self.version)


@dataclass(frozen=True)
class _Request:
    """The spans to read. Two requests for the same version of the same spans are equal."""

    session_key: UUID
    number: int
    versions: tuple[tuple[str, int], ...]  # keys and sequence numbers of the spans
    sizes: tuple[int, int | None]
    session: Session = field(compare=False)
    check: Check = field(compare=False)
    previous: Check | None = field(compare=False)


def read_parts(session: Session, compactions: Sequence[Check], number: int) -> StoredParts:
    """Return the stored parts of compaction `number` of a session."""
    check, previous = compactions[number - 1], previous_summary(compactions, number)
    spans = [*(check.span(kind) for kind in (PRUNED, SUMMARY, RETENTION)), previous.span(SUMMARY) if previous else None]
    versions = tuple((span.key, span.seq) for span in spans if span is not None)
    sizes = (check.before, check.after)
    return _read(_Request(session.session_key, number, versions, sizes, session, check, previous))


@lru_cache(maxsize=_CACHED_PAGES)
def _read(request: _Request) -> StoredParts:
    check = request.check
    pruned, summary, retention = (check.span(kind) for kind in (PRUNED, SUMMARY, RETENTION))
    before = request.previous.span(SUMMARY) if request.previous else None
    spans = [span for span in (pruned, summary, retention, before) if span is not None]
    payloads: Mapping[str, Any] = queries.payloads(request.session, spans) if spans else {}
    previous = payloads.get(before.key) if before else None
    return StoredParts(
        ledger=queries.public_ledger(payloads.get(pruned.key) if pruned else None),
        version=summary_version(request.number, summary, payloads.get(summary.key), previous) if summary else None,
        lost=queries.lost_facts(payloads.get(retention.key) if retention else None),
        sizes=request.sizes,
    )
