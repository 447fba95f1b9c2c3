"""The conversation of an agent, or of one of its sub-agents: its current prompt and what is not finished."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from compact.events import Evidence
from compact.ledgers.foreign_compaction import MAIN, LogMessage
from compact.recording.spans import RecordedSpan


@dataclass(slots=True)
class Thread:
    """One conversation. A `SessionRecorder` creates and changes it, and everybody else only reads it."""

    key: str = MAIN
    prompt: dict[str, LogMessage] = field(default_factory=dict)
    """The messages that the model sees now, by id."""
    aliases: dict[str, str] = field(default_factory=dict)
    """The message that other ids belong to, where a source writes one message in several records."""
    former: set[str] = field(default_factory=set)
    """The messages that left the prompt."""
    generation: RecordedSpan | None = None
    """The newest model call."""
    turns: dict[str, int] = field(default_factory=dict)
    """The number of each model call, by the key of its span."""
    open_calls: dict[str, RecordedSpan] = field(default_factory=dict)
    aborted_calls: dict[str, RecordedSpan] = field(default_factory=dict)
    """The calls that the model did not wait for. Their results may still come."""
    compactions: dict[str, tuple[int, Evidence]] = field(default_factory=dict)
    """The number of each compaction, and how it is known, by its id."""
    summaries: set[str] = field(default_factory=set)
    """The ids of the summaries of its compactions."""
    unsized: RecordedSpan | None = None
    """The newest compaction, until the provider has counted the prompt after it."""
    earlier_turns: int = 0
    earlier_compactions: int = 0
    earlier_call: str = ""
    """The numbers, and the name of the last call, of a recording that this one continues."""

    @property
    def turn_count(self) -> int:
        """The number of model calls so far."""
        return self.earlier_turns + len(self.turns)

    @property
    def compaction_count(self) -> int:
        """The number of compactions so far."""
        return self.earlier_compactions + len(self.compactions)

    @property
    def parent(self) -> str:
        """The key of the span that contains the thread's spans."""
        return f"agent:{self.key}" if self.key else MAIN

    @property
    def last_call(self) -> str:
        """The name that the source gave to the newest model call, or the empty string."""
        return self.generation.key.removeprefix("generation:") if self.generation is not None else self.earlier_call

    def set_prompt(self, messages: Iterable[LogMessage]) -> None:
        """Replace the prompt."""
        before = self.prompt.keys()
        self.prompt = {message.id: message for message in messages}
        self.former |= before - self.prompt.keys()
        self.former -= self.prompt.keys()
        self.aliases = {alias: name for alias, name in self.aliases.items() if name in self.prompt}
