"""One session while it is recorded, from a log, from the wire or from telemetry.

A source says what happened, with the agent's own ids: `user`, `generation`, `call`, `result` and `agent` for the
timeline, `add`, `put`, `set_prompt` and `compaction` for the prompt. The recorder numbers turns and compactions, knows
which calls are open, ends those that the model did not wait for, and replaces an earlier version of the same thing. The
caller takes new and changed spans with `drain`, so a session of any length needs only the memory of its current prompt.

One recorder belongs to one session. Recorders share no state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from compact.events import EVIDENCE
from compact.ledgers.foreign_compaction import MAIN, Compaction, Format, LogMessage
from compact.messages.usage import Usage
from compact.recording.spans import RecordedSpan, SessionLink
from compact.recording.thread import Thread


class SessionRecorder:
    """Records one session. `keep_items` also collects every message of the agent itself, for readers of whole logs.

    Times are texts. Those of one session have one format, so that they can be compared.
    """

    def __init__(self, source: str, message_format: Format, *, keep_items: bool = False) -> None:
        self.source = source
        self.format: Format = message_format
        self.session_id: str | None = None
        self.agent_id: str | None = None
        """The sub-agent that this recording is about, if the session's main conversation is recorded elsewhere."""
        self.model: str | None = None
        self.window_tokens: int | None = None
        self.cwd: str | None = None
        self.version: str | None = None
        self.link: SessionLink | None = None
        self.items: list[dict[str, Any]] | None = [] if keep_items else None
        self.first_at: str | None = None
        self.last_at: str | None = None
        self._threads: dict[str, Thread] = {}
        self._agents: dict[str, RecordedSpan] = {}
        self._versions: dict[str, int] = {}
        self._changed: dict[str, RecordedSpan] = {}

    # Threads and times.

    @property
    def own_thread(self) -> Thread:
        """The conversation of the agent that is recorded."""
        return self.thread(self.agent_id or MAIN)

    def thread(self, key: str = MAIN) -> Thread:
        """Return the conversation of the main agent, or of a sub-agent. It is created on first use."""
        thread = self._threads.get(key)
        if thread is None:
            thread = self._threads[key] = Thread(key)
        return thread

    def note_time(self, at: str | None) -> None:
        """Extend the session's period."""
        if at:
            self.first_at = at if self.first_at is None else min(self.first_at, at)
            self.last_at = at if self.last_at is None else max(self.last_at, at)

    # The prompt.

    def add(self, message: LogMessage, thread: Thread | None = None) -> None:
        """Append a message to the prompt."""
        thread = thread or self.own_thread
        thread.prompt[message.id] = message
        if self.items is not None and not thread.key:
            self.items.append(message.item)

    def put(self, message: LogMessage, thread: Thread | None = None) -> None:
        """Replace the earlier version of a message, or append it. One that left the prompt does not return."""
        thread = thread or self.own_thread
        known = thread.prompt.get(message.id)
        if known is not None:
            known.item.clear()
            known.item.update(message.item)
            known.masked, known.is_program = None, message.is_program
        elif message.id not in thread.former:
            self.add(message, thread)

    def extend(self, name: str, message: LogMessage, blocks: Iterable[Any], thread: Thread) -> LogMessage:
        """Append content to the message `name` of the prompt, which `message` belongs to, and return the whole."""
        known = thread.prompt[name]
        known.item["content"].extend(blocks)
        known.masked = None
        thread.aliases[message.id] = name
        return known

    def set_prompt(self, messages: Iterable[LogMessage], thread: Thread | None = None) -> None:
        """Replace the prompt, as the user does with an edit, a rewind or another branch."""
        (thread or self.own_thread).set_prompt(messages)

    def is_new_version(self, name: str, source: Mapping[str, Any]) -> bool:
        """Return False for a record that is the same as when it was last seen, for sources that repeat records."""
        version = hash(str(source))
        if self._versions.get(name) == version:
            return False
        self._versions[name] = version
        return True

    def has_version(self, name: str) -> bool:
        """Return True if a record was seen before, in any version."""
        return name in self._versions

    # The timeline.

    def user(self, message: LogMessage, text: str, thread: Thread | None = None) -> None:
        """Record what a user said, or what the agent's program said in the user's place."""
        self._user(message, text, thread or self.own_thread, message.id)

    def user_after_call(self, message: LogMessage, text: str, thread: Thread | None = None) -> None:
        """Record what a user said, for a message that has no id on the wire.

        It is recognized by its text and by the model call before it, so that a log and the wire name the same span.
        """
        thread = thread or self.own_thread
        digest = hashlib.sha256(text.strip().encode("utf-8", "replace")).hexdigest()[:24]
        self._user(message, text, thread, f"{thread.key}:{thread.last_call}:{digest}")

    def _user(self, message: LogMessage, text: str, thread: Thread, name: str) -> None:
        kind, payload = "notice" if message.is_program else "user", {"text": text}
        span = RecordedSpan("user", kind, message.at, message.at, payload=payload, key=f"user:{name}")
        self._note(span, thread)

    def generation(
        self, name: str, *, at: str | None, model: str | None = None, thread: Thread | None = None
    ) -> RecordedSpan:
        """Record a model call, or return the newest one to change it, if it has this name.

        A new call has its number in `turn`, and ends the calls without a result, because the model did not wait.
        """
        thread = thread or self.own_thread
        key = f"generation:{name}"
        span = thread.generation
        if span is None or span.key != key:
            turn = thread.turns.get(key)
            if turn is None:
                self._abort_calls(thread, at)
                turn = thread.turns[key] = thread.turn_count + 1
            span = RecordedSpan("generation", model or "model", at, at, model, data={"turn": turn}, key=key)
            thread.generation = span
            if thread is self.own_thread:
                self.model = model or self.model
        elif model and span.model is None:
            span.name = span.model = model
        return self._note(span, thread)

    def count(self, span: RecordedSpan, usage: Usage) -> None:
        """Record the usage of a model call. Its prompt is the one after a compaction that came before it."""
        span.usage = usage.to_dict() or span.usage
        self.change(span)
        thread = self.thread(span.thread)
        compaction = thread.unsized.compaction if thread.unsized is not None else None
        if compaction is not None and span.data["turn"] >= compaction.turn:
            self.size_prompt(usage.input_tokens, thread)

    def size_prompt(self, tokens: int, thread: Thread | None = None) -> None:
        """Record the size of the prompt, as the provider counted it, for a compaction whose result has no size yet.

        What agents report is often the summary alone, without system prompt, tools and memory files.
        """
        thread = thread or self.own_thread
        span = thread.unsized
        if tokens and span is not None and span.compaction is not None:
            span.compaction.tokens_after, thread.unsized = tokens, None
            self._note(span, thread)

    def aside(
        self,
        name: str,
        title: str,
        *,
        at: str | None,
        model: str | None = None,
        data: Mapping[str, Any] | None = None,
        thread: Thread | None = None,
    ) -> RecordedSpan:
        """Record a model call beside the conversation, such as one for a title. It is no turn."""
        data = {**(data or {}), "is_aside": True}
        span = RecordedSpan("generation", title, at, at, model, data=data, key=f"aside:{name}")
        return self._note(span, thread or self.own_thread)

    def change(self, span: RecordedSpan) -> None:
        """Mark a span as changed."""
        self._changed[span.key] = span

    def call(
        self, call_id: str, name: str, arguments: Any, *, at: str | None, thread: Thread | None = None
    ) -> RecordedSpan:
        """Record a tool call, which is open until its `result`."""
        thread = thread or self.own_thread
        span = RecordedSpan("tool", name, at, payload={"input": arguments}, key=f"tool:{call_id}")
        aborted = thread.aborted_calls.get(call_id)
        if aborted is not None:
            # A new version of a call that has ended.
            span.ended_at, span.data = aborted.ended_at, aborted.data
            thread.aborted_calls[call_id] = span
        else:
            thread.open_calls[call_id] = span
        return self._note(span, thread)

    def result(
        self, call_id: str, output: Any, *, at: str | None, is_error: bool = False, thread: Thread | None = None
    ) -> RecordedSpan | None:
        """Record the result of a call. Return its span, or None for a call that is not known or has a result."""
        thread = thread or self.own_thread
        span = thread.open_calls.pop(call_id, None)
        if span is None:
            span = thread.aborted_calls.pop(call_id, None)
            if span is None:
                return None
            # The server merges data, so a mark that it has must be taken back.
            span.data = {} if span.key in self._changed else {"interrupted": False}
        span.ended_at, span.is_error = at, is_error
        span.payload = {**span.payload, "output": output}
        return self._note(span, thread)

    def agent(
        self, agent_id: str, *, name: str | None = None, at: str | None = None, parent: str | None = None
    ) -> None:
        """Record a sub-agent, or add to what is known about it. `parent` is the key of the call that started it.

        A sub-agent that has a start ends with its last span.
        """
        span = self._agents.setdefault(agent_id, RecordedSpan("agent", "sub-agent", key=f"agent:{agent_id}"))
        span.name, span.parent = name or span.name, parent or span.parent or None
        span.started_at = span.started_at or at
        self.change(span)

    def next_compaction_id(self, thread: Thread | None = None) -> str:
        """Return a name for a new compaction: the model call before it, so that a log and the wire use the same one."""
        thread = thread or self.own_thread
        anchor = f"after {thread.key}:{thread.last_call}"
        number = sum(name.partition("#")[0] == anchor for name in thread.compactions) + 1
        return anchor if number == 1 else f"{anchor}#{number}"

    def begin_compaction(
        self, compaction_id: str, *, at: str | None, line: int = 0, thread: Thread | None = None
    ) -> Compaction:
        """Return a compaction of the current prompt. It is recorded with `compaction`, once its result is known.

        A compaction that was begun before keeps its number.
        """
        thread = thread or self.own_thread
        number, _ = thread.compactions.setdefault(compaction_id, (thread.compaction_count + 1, EVIDENCE[0]))
        before = tuple(thread.prompt.values())
        compaction = Compaction(compaction_id, number, self.source, at, before, self.format, line=line)
        compaction.thread, compaction.turn = thread.key, thread.turn_count + 1
        compaction.earlier_summaries = frozenset(thread.summaries)
        return compaction

    def compaction(self, compaction: Compaction, name: str, *, newer: Iterable[LogMessage] = ()) -> RecordedSpan | None:
        """Record a compaction and set the prompt to its result, followed by the messages that are `newer`.

        Recording it again replaces what was known, unless that has better evidence: then this returns None.
        """
        thread = self.thread(compaction.thread)
        number, known = thread.compactions.get(compaction.id, (compaction.number, compaction.evidence))
        if EVIDENCE.index(compaction.evidence) < EVIDENCE.index(known):
            return None
        thread.compactions[compaction.id] = number, compaction.evidence
        if compaction.summary_id is not None:
            thread.summaries.add(compaction.summary_id)
        thread.set_prompt((*compaction.after, *newer))
        data = {"trigger": compaction.trigger, "tokens_before": compaction.tokens_before}
        payload = {"summary": compaction.summary} if compaction.summary is not None else {}
        span = RecordedSpan(
            "compaction", name, compaction.at, compaction.at, data=data, payload=payload,
            key=f"compaction:{compaction.id}", compaction=compaction,
        )  # fmt: skip
        thread.unsized = span if compaction.is_inferred else None
        return self._note(span, thread)

    # Reading.

    def drain(self) -> list[RecordedSpan]:
        """Return the spans that are new or changed since the last call."""
        for span in tuple(self._changed.values()):
            self._extend_agent(span)
        spans, self._changed = list(self._changed.values()), {}
        return spans

    def open_calls(self) -> Iterator[RecordedSpan]:
        """Yield the tool calls that have no result yet, and that the agent may still wait for."""
        for thread in self._threads.values():
            yield from thread.open_calls.values()

    def _note(self, span: RecordedSpan, thread: Thread) -> RecordedSpan:
        span.thread = thread.key
        if span.parent == MAIN:
            span.parent = thread.parent
        self._changed[span.key] = span
        return span

    def _extend_agent(self, span: RecordedSpan) -> None:
        agent = self._agents.get(span.thread)
        at = span.ended_at or span.started_at
        if agent is not None and agent.started_at and at and at > (agent.ended_at or ""):
            agent.ended_at = at
            self._changed[agent.key] = agent

    def _abort_calls(self, thread: Thread, at: str | None) -> None:
        """End the calls that the model did not wait for."""
        for call_id, span in thread.open_calls.items():
            span.ended_at, span.data = at or self.last_at, {**span.data, "interrupted": True}
            thread.aborted_calls[call_id] = span
            self._note(span, thread)
        thread.open_calls = {}
