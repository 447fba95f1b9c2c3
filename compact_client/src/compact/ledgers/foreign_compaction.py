"""A compaction that another agent or a provider made, with the messages of the prompt before and after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from compact.events import Evidence
from compact.messages import RedactedMessage

Format = Literal["chat", "responses", "anthropic"]
LogFate = Literal["kept", "truncated", "cleared", "summarized", "dropped"]
MAIN = ""
"""The key of the main thread. Other threads belong to sub-agents."""


@dataclass(slots=True)
class LogMessage:
    """One message of the agent's prompt. An assistant message grows while its blocks arrive."""

    id: str
    item: dict[str, Any]
    at: str | None = None
    line: int = 0
    is_program: bool = False
    """True for a user message that the agent wrote itself: an earlier summary, a notice or a skill."""
    masked: RedactedMessage | None = field(default=None, repr=False, compare=False)
    """The redacted form, once a compaction needed it. A message that grows or changes must reset it."""


@dataclass(slots=True)
class Compaction:
    """A compaction that the agent or its provider made, as the log records it.

    `fates` has the messages of `before` whose fate is known. If both prompts were seen, these are all. Those that are
    not listed left the prompt.
    """

    id: str
    number: int
    agent: str
    at: str | None
    before: tuple[LogMessage, ...]
    format: Format
    after: tuple[LogMessage, ...] = ()
    trigger: str = "auto"
    tokens_before: int | None = None
    tokens_after: int | None = None
    duration_ms: float | None = None
    summary: str | None = None
    summary_id: str | None = None
    earlier_summaries: frozenset[str] = frozenset()
    """The ids of the summaries of earlier compactions. They are no messages of the conversation."""
    is_opaque: bool = False
    """True if the provider encrypts the summary, so that its content is unknown."""
    fates: Mapping[str, tuple[LogFate, str]] = field(default_factory=dict)
    """The fate and the rule of messages, by message id."""
    thread: str = MAIN
    line: int = 0
    turn: int = 0
    """The number of the model call after it."""
    evidence: Evidence = "inferred"

    @property
    def is_inferred(self) -> bool:
        """True if the prompts were not seen as they were sent, so that the fates of messages are inferred."""
        return self.evidence in ("possible", "inferred")
