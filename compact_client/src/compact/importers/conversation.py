"""The result of reading a log: messages, a timeline of what the agent did, and the compactions it made.

A parser fills one `SessionLog` while it reads. The caller takes new spans with `drain`, so a log of any size needs only
the memory of the agent's current context.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from compact.ledgers.foreign_compaction import MAIN, Compaction, Format, LogMessage

LogSpanKind = Literal["user", "generation", "tool", "agent", "compaction"]


@dataclass(slots=True)
class LogSpan:
    """One user message, model call, tool call, sub-agent or compaction in a log.

    `key` is unique in the session and comes from the log's own ids, so that every import gives the same span id.
    """

    kind: LogSpanKind
    name: str
    started_at: str | None = None
    ended_at: str | None = None
    model: str | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    payload: Mapping[str, Any] = field(default_factory=dict)
    is_error: bool = False
    key: str = ""
    parent: str | None = MAIN
    """The key of the span around this one: `MAIN` for the session itself, None if this log does not say."""
    thread: str = MAIN
    compaction: Compaction | None = None


@dataclass(frozen=True, slots=True)
class SessionLink:
    """The session that this one continues."""

    kind: Literal["resumed", "forked"]
    session_id: str


@dataclass(slots=True)
class Conversation:
    """Messages in a provider's format. Session logs also have spans and compactions."""

    items: list[dict[str, Any]]
    source: str = "messages"
    session_id: str | None = None
    format: Format | None = None
    model: str | None = None
    window_tokens: int | None = None
    tools: list[Any] = field(default_factory=list)
    spans: list[LogSpan] = field(default_factory=list)
    compactions: list[Compaction] = field(default_factory=list)
    context: list[LogMessage] = field(default_factory=list)
    """The messages that are in the agent's prompt at the end of the log."""
    cwd: str | None = None
    version: str | None = None
    link: SessionLink | None = None


@dataclass(slots=True)
class Thread:
    """The conversation of the agent, or of one sub-agent: its current prompt and its unfinished spans."""

    key: str = MAIN
    context: dict[str, LogMessage] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    """The message id of each record, where one message has several records."""
    open_calls: dict[str, LogSpan] = field(default_factory=dict)
    generation: LogSpan | None = None
    compactions: int = 0

    @property
    def parent(self) -> str:
        """The key of the span that contains the thread's spans."""
        return f"agent:{self.key}" if self.key else MAIN

    def add(self, message: LogMessage) -> None:
        """Append a message to the prompt."""
        self.context[message.id] = message

    def replace_context(self, messages: Iterable[LogMessage]) -> None:
        """Set the prompt, for example after a compaction."""
        self.context = {message.id: message for message in messages}
        self.aliases = {alias: name for alias, name in self.aliases.items() if name in self.context}


class SessionLog:
    """One session while its log is read. `keep_items` also collects every message, for readers of whole logs."""

    def __init__(self, source: str, message_format: Format, *, keep_items: bool = False) -> None:
        self.source = source
        self.format: Format = message_format
        self.session_id: str | None = None
        self.agent_id: str | None = None
        """The sub-agent that this file belongs to, if it is not the session's main log."""
        self.model: str | None = None
        self.window_tokens: int | None = None
        self.cwd: str | None = None
        self.version: str | None = None
        self.link: SessionLink | None = None
        self.threads: dict[str, Thread] = {}
        self.items: list[dict[str, Any]] | None = [] if keep_items else None
        self.first_at: str | None = None
        self.last_at: str | None = None
        self.generations = 0
        self._new: dict[str, LogSpan] = {}

    def thread(self, key: str = MAIN) -> Thread:
        """Return a thread, which is created on first use."""
        return self.threads.setdefault(key, Thread(key))

    def note_time(self, at: str | None) -> None:
        """Extend the session's period. Times in one log have one format, so that texts can be compared."""
        if at:
            self.first_at = at if self.first_at is None else min(self.first_at, at)
            self.last_at = at if self.last_at is None else max(self.last_at, at)

    def add_message(self, thread: Thread, message: LogMessage) -> None:
        """Append a message to a thread's prompt."""
        thread.add(message)
        if self.items is not None and not thread.key:
            self.items.append(message.item)

    def add_span(self, span: LogSpan, thread: Thread | None = None) -> LogSpan:
        """Add a new span, or mark a known one as changed."""
        if thread is not None:
            span.thread = thread.key
            if span.parent == MAIN:
                span.parent = thread.parent
        if span.compaction is not None:
            span.compaction.turn = self.generations
        self._new[span.key] = span
        return span

    def drain(self) -> list[LogSpan]:
        """Return the spans that are new or changed since the last call."""
        spans, self._new = list(self._new.values()), {}
        return spans

    def open_spans(self) -> Iterator[LogSpan]:
        """Yield the tool calls that have no result yet."""
        for thread in self.threads.values():
            yield from thread.open_calls.values()


def text_blocks(content: Any) -> str:
    """Return the text of Anthropic or Responses content, one block per line."""
    if isinstance(content, str):
        return content
    if isinstance(content, Iterable):
        return "\n".join(
            str(block.get("text", "")) for block in content if isinstance(block, Mapping) and "text" in block
        )
    return ""


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a value from a log if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """Return a value from a log if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_count(value: Any) -> int:
    """Return a number from a log, or 0 for anything else."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0


def as_text(value: Any) -> str | None:
    """Return a text from a log, or None for anything else."""
    return value if isinstance(value, str) and value else None
