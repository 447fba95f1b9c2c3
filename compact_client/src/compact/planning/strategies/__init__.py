"""The ladder: externalize, summarize, clear, drop. Least aggressive first, one rung per file."""

from __future__ import annotations

from compact.planning.strategies.base import CompactionProposal, CompactionStrategy, Workbench
from compact.planning.strategies.clear import ClearStrategy
from compact.planning.strategies.drop import DropStrategy
from compact.planning.strategies.externalize import ExternalizeStrategy
from compact.planning.strategies.summarize import SummarizeStrategy

__all__ = [
    "ClearStrategy",
    "CompactionProposal",
    "CompactionStrategy",
    "DropStrategy",
    "ExternalizeStrategy",
    "SummarizeStrategy",
    "Workbench",
    "strategy_named",
]

_BY_NAME: dict[str, CompactionStrategy] = {
    strategy.name: strategy
    for strategy in (ExternalizeStrategy(), SummarizeStrategy(), ClearStrategy(), DropStrategy())
}


def strategy_named(name: str) -> CompactionStrategy:
    return _BY_NAME[name]
