"""The exceptions of the library.

CompactError
├── ConfigError            an invalid setting, with its path: policy.trigger_pct must be 0.0-1.0
├── InsufficientBudget     messages that must stay exceed the budget
├── MalformedMessage       a message that no provider would accept. It is reported and sent unchanged
├── SummarizationError     no summary could be written, so the manager prunes instead
│   ├── SummaryTooLong     the summary exceeds its token limit, to be retried with a lower one
│   ├── SummaryRefused     the model declined, to be retried with the style `brief`
│   └── SummarizerOverflow the summarizer's own prompt exceeded its window
├── PlanConflict           another process committed a newer plan
└── StoreFailed            a plan store or an artifact store raised an exception
    └── CorruptData        stored data that cannot be read, to be reported and replaced
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class CompactError(Exception):
    """Base class of the library's exceptions."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The default would call the constructor with the message, but most constructors take other arguments.
        return _restore, (type(self), self.args, dict(self.__dict__))


def _restore(kind: type[CompactError], args: tuple[Any, ...], state: dict[str, Any]) -> CompactError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class ConfigError(CompactError, ValueError):
    """An invalid setting. The message starts with the path of the setting."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path} {problem}")
        self.path = path
        self.problem = problem


class InsufficientBudget(CompactError):
    """Messages that must stay exceed the budget. The message has the numbers and the options."""

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
    """A message that cannot be decoded. `index` is its position in the list."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(f"messages[{index}] {problem}")
        self.index = index
        self.problem = problem


class SummarizationError(CompactError):
    """No summary could be written. The manager prunes instead."""


class SummaryTooLong(SummarizationError):
    """The summary exceeds its token limit, even after trimming."""

    def __init__(self, *, summary_tokens: int, max_tokens: int) -> None:
        super().__init__(f"The summary has {summary_tokens:,} tokens but the limit is {max_tokens:,}.")
        self.summary_tokens = summary_tokens
        self.max_tokens = max_tokens


class SummaryRefused(SummarizationError):
    """The model declined to write a summary."""


class SummarizerOverflow(SummarizationError):
    """The summarizer's own prompt exceeded its window."""


class PlanConflict(CompactError):
    """Another process committed a newer plan for the thread."""


class StoreFailed(CompactError):
    """A plan store or an artifact store raised an exception. The run continues without it."""


class CorruptData(StoreFailed):
    """Stored data that cannot be read. `version` is that of a plan, so that the next one can replace it."""

    def __init__(self, what: str, problem: str, *, version: int = 0) -> None:
        super().__init__(f"{what} is corrupt: {problem}")
        self.version = version
