"""What can go wrong, outermost first.

CompactError
├── ConfigError            names the field: policy.trigger_pct must be 0.0-1.0
├── InsufficientBudget     what may not be pruned is already larger than the budget
├── MalformedMessage       a message that no provider would accept; compaction is skipped for that turn
├── SummarizationError     no summary could be made; the manager prunes instead
│   ├── SummaryTooLong     the summary is over its token limit; worth a retry with less
│   ├── SummaryRefused     the model declined; worth a retry as `brief`
│   └── SummarizerOverflow the summariser's own prompt did not fit its window
├── PlanConflict           another process committed a plan first, again and again
└── StoreFailed            a plan or artifact store raised
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class CompactError(Exception):
    """Root of every error this library raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Most are made from numbers and say a sentence; Python would call them with the sentence.
        return _again, (type(self), self.args, dict(self.__dict__))


def _again(kind: type[CompactError], args: tuple[Any, ...], state: dict[str, Any]) -> CompactError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class ConfigError(CompactError, ValueError):
    """A setting that cannot be right; the message names its field path."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path} {problem}")
        self.path = path
        self.problem = problem


class InsufficientBudget(CompactError):
    """What must stay is larger than the budget; carries the numbers and the way out."""

    def __init__(
        self,
        *,
        needed_tokens: int,
        budget_tokens: int,
        parts: Mapping[str, int] | None = None,
        detail: str = "Protected messages",
    ) -> None:
        self.needed_tokens = needed_tokens
        self.budget_tokens = budget_tokens
        self.parts = dict(parts or {})
        listing = ", ".join(f"{name} {tokens:,}" for name, tokens in self.parts.items() if tokens)
        super().__init__(
            f"{detail} need {needed_tokens:,} tokens but the budget is {budget_tokens:,}"
            + (f" ({listing}). " if listing else ". ")
            + "Reduce protected memory (protect fewer or shorter messages, or offer fewer tools), "
            "lower hard_cap_buffer, or increase the model context limit (max_context_tokens)."
        )


class MalformedMessage(CompactError):
    """A message that cannot be understood; `index` is its place in the list."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(f"messages[{index}] {problem}")
        self.index = index
        self.problem = problem


class SummarizationError(CompactError):
    """No summary could be made; the manager prunes instead."""


class SummaryTooLong(SummarizationError):
    """The summary is over its limit even after trimming."""

    def __init__(self, *, summary_tokens: int, max_tokens: int) -> None:
        super().__init__(f"the summary has {summary_tokens:,} tokens, the limit is {max_tokens:,}")
        self.summary_tokens = summary_tokens
        self.max_tokens = max_tokens


class SummaryRefused(SummarizationError):
    """The model declined to summarise."""


class SummarizerOverflow(SummarizationError):
    """The summariser's own prompt was too large for its window."""


class PlanConflict(CompactError):
    """Another writer committed a newer plan for the thread."""


class StoreFailed(CompactError):
    """A plan or artifact store of the caller's failed, in whatever way; the run goes on without its service."""
