"""The compactions of imported logs that lost the most facts, read from the events that the server gets."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from compact.delivery.endpoint import server_url, without_credentials
from compact.events import RetentionEvent
from compact.importers.uncompaction import LostItem, items_from_facts

SHOWN: Final = 3
"""The number of compactions that are shown, and of lost facts of each."""


@dataclass(frozen=True, slots=True)
class CompactionLoss:
    """The facts that one compaction lost."""

    session: str
    compaction: int
    span: str
    """The id of the compaction's span, by which the server finds its page."""
    at: str | None
    facts_total: int
    facts_kept: int
    items: tuple[LostItem, ...]
    """The worst lost facts, those that look most like a commitment first."""

    @property
    def facts_lost(self) -> int:
        """The number of facts that are in no message of the new prompt."""
        return self.facts_total - self.facts_kept

    def address(self, url: str) -> str:
        """Return the address of the compaction's page on a server."""
        path = f"/sessions/{quote(self.session, safe='')}/compactions/of/{quote(self.span, safe='')}/"
        return server_url(without_credentials(url), path)


def find_losses(events: Iterable[Mapping[str, Any]]) -> Iterator[CompactionLoss]:
    """Yield a loss for each compaction that lost something."""
    for event in events:
        if event.get("kind") != RetentionEvent.name:
            continue
        figures, facts = event["properties"], (event.get("payload") or {}).get("lost") or ()
        items = items_from_facts(_distinct(facts), figures["step"], event.get("started_at"))
        loss = CompactionLoss(
            session=str(event["session_id"]),
            compaction=figures["step"],
            span=str(event["parent_id"]),
            at=event.get("started_at"),
            facts_total=figures["facts_total"],
            facts_kept=figures["facts_kept"],
            items=tuple(items),
        )
        if loss.facts_lost:
            yield loss


def _distinct(facts: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the first facts, without those that a fact before them contains."""
    chosen: list[Mapping[str, Any]] = []
    for fact in facts:
        if not any(str(fact["text"]) in str(other["text"]) for other in chosen):
            chosen.append(fact)
        if len(chosen) == SHOWN:
            break
    return chosen


def worst_losses(losses: Iterable[CompactionLoss]) -> list[CompactionLoss]:
    """Return the few compactions that lost the most facts, the worst first."""
    return heapq.nlargest(SHOWN, losses, key=lambda loss: loss.facts_lost)
