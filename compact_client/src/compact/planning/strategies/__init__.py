"""The strategies of the ladder, from least to most aggressive: externalize, summarize, clear, drop."""

from __future__ import annotations

from compact.planning.strategies.base import CompactionProposal, CompactionStrategy, StrategyContext
from compact.planning.strategies.clear import ClearStrategy
from compact.planning.strategies.drop import DropStrategy, propose_drop
from compact.planning.strategies.externalize import ExternalizeStrategy
from compact.planning.strategies.summarize import SpanSummary, SummarizeStrategy

__all__ = [
    "ClearStrategy",
    "CompactionProposal",
    "CompactionStrategy",
    "DropStrategy",
    "ExternalizeStrategy",
    "SpanSummary",
    "StrategyContext",
    "SummarizeStrategy",
    "get_strategy",
    "propose_drop",
]

_STRATEGIES: tuple[CompactionStrategy, ...] = (
    ExternalizeStrategy(),
    SummarizeStrategy(),
    ClearStrategy(),
    DropStrategy(),
)
_BY_NAME = {strategy.name: strategy for strategy in _STRATEGIES}


def get_strategy(name: str) -> CompactionStrategy:
    """Return the strategy that a policy names in its ladder."""
    return _BY_NAME[name]
