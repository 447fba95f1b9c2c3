"""The ladder: externalize, summarize, clear, drop. Least aggressive first, one rung per file."""

from __future__ import annotations

from compact.strategies.base import CompactionProposal, CompactionStrategy, Workbench
from compact.strategies.clear import ClearStrategy
from compact.strategies.drop import DropStrategy
from compact.strategies.externalize import ExternalizeStrategy
from compact.strategies.summarize import SummarizeStrategy

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
