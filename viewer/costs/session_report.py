"""The costs of a session's compactions, for the page and the API."""

from __future__ import annotations

from dataclasses import dataclass

from ingest.models import Session
from viewer.compactions.cost import CacheEffect, cache_effect
from viewer.costs.amounts import Cost
from viewer.costs.compaction_rates import compaction_rates
from viewer.costs.queries import project_rates, session_cost
from viewer.sessions import queries
from viewer.sessions.checks import Check
from viewer.visibility.public_parts import Visibility

# The page lists the newest compactions. Sessions with more are rare.
MAX_COMPACTIONS = 200


@dataclass(frozen=True, slots=True)
class NumberedEffect:
    """The cost of one compaction with its number on the pages."""

    number: int
    check: Check
    effect: CacheEffect


def compaction_effects(session: Session, cost: Cost, visibility: Visibility) -> list[NumberedEffect]:
    """Return the costs of the newest compactions of a session, oldest first."""
    checks = queries.checks(session, visibility).timeline()
    positions = [position for position, check in enumerate(checks) if check.is_compaction]
    find = project_rates(session.project_id)
    effects = []
    for number, position in enumerate(positions, 1):
        if number <= len(positions) - MAX_COMPACTIONS:
            continue
        check = checks[position]
        following = positions[number] if number < len(positions) else len(checks)
        rates = compaction_rates(session, check, cost, find)
        effects.append(NumberedEffect(number, check, cache_effect(check, following - position - 1, rates)))
    return effects


def compaction_effect(session: Session, check: Check, calls: int) -> CacheEffect:
    """Return the cost of one compaction after `calls` later calls."""
    rates = compaction_rates(session, check, session_cost(session), project_rates(session.project_id))
    return cache_effect(check, calls, rates)
