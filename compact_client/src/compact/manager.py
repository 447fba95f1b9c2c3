"""The front of the library: check a conversation before it is sent, and compact it when it must be.

Every entry has a sync and an async form that run the same steps. What a host passes in is never changed; what it
gets back is a new list of the same kind.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar, Unpack

from compact import events
from compact.config import CompactConfig
from compact.engine.call import Call, CallOptions
from compact.engine.effects import Steps, arun, run
from compact.engine.engine import Engine
from compact.engine.overflow import recover
from compact.engine.overflow_errors import is_context_length_error
from compact.engine.rehydration import with_injected
from compact.engine.request import as_item
from compact.engine.session import Session
from compact.exceptions import CompactError
from compact.exporters.multi import MultiExporter
from compact.memory import Memory
from compact.messages import Message
from compact.messages.normalization import normalize
from compact.messages.units import group_units
from compact.planning.budget import Usage, correction_factor
from compact.planning.partition import pin_rule
from compact.planning.plan import CompactionPlan
from compact.protocols import Exporter

T = TypeVar("T", Message, dict[str, Any])
R = TypeVar("R")

_MAX_SESSIONS = 1024
_LOCK_ASKED_EVERY_S = 0.02


class CompactManager:
    """Compacts any number of sessions; safe to share between threads and tasks."""

    def __init__(self, cfg: CompactConfig, *, clock: events.Clock = events.utc_now) -> None:
        self._engine = Engine(cfg, clock)
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def cfg(self) -> CompactConfig:
        """The configuration; a changed exporter or storage counts from the next call on."""
        return self._engine.cfg

    @cfg.setter
    def cfg(self, cfg: CompactConfig) -> None:
        self._engine.cfg = cfg

    def preflight(self, session_id: str, messages: Sequence[T], **options: Unpack[CallOptions]) -> list[T]:
        """Count the request, compact it if a trigger says so, and return what to send.

        `tools` and `output_schema` are counted; `instructions` is a system prompt that is not among the messages;
        `format` names the messages' format where it cannot be told; `protected` are places in the list that must
        stay, for formats without room for a flag.
        """
        call = Call(messages, **options)
        return self._run(session_id, lambda session: self._engine.preflight(session, call))

    async def apreflight(self, session_id: str, messages: Sequence[T], **options: Unpack[CallOptions]) -> list[T]:
        """`preflight` for async callers: summarisers and stores never block the event loop."""
        call = Call(messages, **options)
        return await self._arun(session_id, lambda session: self._engine.preflight(session, call))

    def manual_compact(
        self,
        session_id: str,
        messages: Sequence[T],
        note: str = "manual",
        **options: Unpack[CallOptions],
    ) -> list[T]:
        """Compact whatever the usage; the note is in the trace. `report` then says what was saved."""
        call = Call(messages, note=note, **options)
        return self._run(session_id, lambda session: self._engine.preflight(session, call))

    async def amanual_compact(
        self,
        session_id: str,
        messages: Sequence[T],
        note: str = "manual",
        **options: Unpack[CallOptions],
    ) -> list[T]:
        """`manual_compact` for async callers."""
        call = Call(messages, note=note, **options)
        return await self._arun(session_id, lambda session: self._engine.preflight(session, call))

    def request_compaction(self, session_id: str, note: str = "the agent asked for it") -> None:
        """Have the session's next preflight compact, whatever the usage: what a tool of the agent's own may call."""
        self._session(session_id).requested_note = note

    def report(self, session_id: str) -> str:
        """One line about the last compaction: tokens saved and messages compressed."""
        plan = self._session(session_id).plan
        if plan is None:
            return "nothing was compacted yet"
        saved = plan.original_token_count - plan.compacted_token_count
        gone = sum(entry.fate in ("summarized", "externalized", "dropped") for entry in plan.ledger)
        share = saved / plan.original_token_count if plan.original_token_count else 0.0
        return f"{saved:,} tokens saved ({share:.0%}), {gone} messages compressed"

    def plan(self, session_id: str) -> CompactionPlan | None:
        """The session's current plan, if it was ever compacted."""
        return self._session(session_id).plan

    def remember(self, session_id: str) -> Memory:
        """What is remembered now: the summary, what is pinned, and the recent window."""
        session = self._session(session_id)
        with _looking(session):
            pinned: list[Message] = []
            recent: list[Message] = []
            messages = session.request.messages
            for unit in group_units(messages):
                rule = pin_rule(unit, messages, self.cfg.policy, session.protected_ids)
                (pinned if rule else recent).extend(messages[index] for index in unit.indices)
            plan = session.plan
            return Memory(
                session_id,
                plan.summary_text if plan else None,
                plan.session_summary if plan else None,
                tuple(pinned),
                tuple(message for message in recent if not message.is_summary),
                session.last_estimate,
                plan,
            )

    def rerender(self, session_id: str, number: int) -> list[Any]:
        """The messages of the session's request `number` (from 1), byte for byte as they were returned."""
        session = self._session(session_id)
        with _looking(session):
            if not 1 <= number <= len(session.sent):
                raise CompactError(f"session {session_id!r} has sent {len(session.sent)} requests, not {number}")
            sent = session.sent[number - 1]
            if sent.view_version != session.view_version and sent.view_version not in session.old_views:
                raise CompactError(f"request {number} was sent before the history was edited many times over")
            view = session.old_views.get(sent.view_version, session.view)[: sent.view_length]
            forms = session.forms_at(number)
            shorten = self._engine.shortener(session)
            rendered = session.rendered(
                view,
                session.plans.get(sent.plan_version),
                lambda message: forms.get(message.id or "") or shorten(message),
            )
            assert session.codec is not None
            normal = normalize(rendered, session.codec, protected_flag=self.cfg.policy.protected_flag)
            return [as_item(message) for message in with_injected(normal.messages, sent.injected)]

    def report_usage(self, session_id: str, usage: Any) -> None:
        """Tell what the provider counted for the last request; it corrects every later estimate."""
        session = self._session(session_id)
        reported = Usage.from_provider(usage)
        with _looking(session):
            uncorrected = round(session.last_estimate / session.correction)
            session.correction = correction_factor(reported.input_tokens, uncorrected)
            session.is_corrected = reported.input_tokens > 0 and uncorrected > 0
            session.last_usage = reported

    def report_outcome(self, session_id: str, *, success: bool) -> None:
        """Tell whether the task succeeded; it is emitted with the quality figures."""
        session = self._session(session_id)
        with _looking(session):
            self._engine.report_outcome(session, success=success)

    def read_artifact(self, session_id: str, artifact_id: str, *, context: Any = None) -> str | None:
        """The full content behind a pointer, if the requester may have it: what the `read_artifact` tool calls."""
        session = self._session(session_id)
        store = self.cfg.artifact_store
        if store is None:
            return None
        with _looking(session):
            session.rehydration_requests += 1
            content: str | None = run(_one(lambda: store.retrieve(artifact_id, context or self.cfg.security_context)))
            return content

    async def aread_artifact(self, session_id: str, artifact_id: str, *, context: Any = None) -> str | None:
        """`read_artifact` for async callers."""
        session = self._session(session_id)
        store = self.cfg.artifact_store
        if store is None:
            return None
        session.rehydration_requests += 1
        content: str | None = await arun(
            _one(lambda: store.retrieve(artifact_id, context or self.cfg.security_context))
        )
        return content

    def add_exporter(self, exporter: Exporter) -> None:
        """Send events to one more exporter, from the next check on."""
        current = self.cfg.exporter
        combined = exporter if current is None else MultiExporter(current, exporter)
        self.cfg = self._engine.cfg = replace(self.cfg, exporter=combined)

    def recover(self, session_id: str, messages: Sequence[T], error: BaseException, *, attempt: int = 1) -> list[T]:
        """After a context overflow: the last request without its oldest messages, pairs intact.

        `messages` is what was sent, or the host's own list. Raises when the attempts are used up or nothing may go.
        """
        return self._run(session_id, lambda session: recover(self._engine, session, messages, error, attempt))

    async def arecover(
        self, session_id: str, messages: Sequence[T], error: BaseException, *, attempt: int = 1
    ) -> list[T]:
        """`recover` for async callers."""
        return await self._arun(session_id, lambda session: recover(self._engine, session, messages, error, attempt))

    def call_with_recovery(
        self, session_id: str, messages: Sequence[T], call: Callable[[list[T]], R], **preflight: Any
    ) -> R:
        """Preflight, call the model, and on a context overflow shrink and call again, a few times at most."""
        sending = self.preflight(session_id, messages, **preflight)
        for attempt in range(1, self.cfg.policy.overflow_max_retries + 1):
            try:
                return call(sending)
            except Exception as error:
                if not is_context_length_error(error):
                    raise
                sending = self.recover(session_id, messages, error, attempt=attempt)
        return call(sending)

    async def acall_with_recovery(
        self, session_id: str, messages: Sequence[T], call: Callable[[list[T]], Awaitable[R]], **preflight: Any
    ) -> R:
        """`call_with_recovery` for async callers."""
        sending = await self.apreflight(session_id, messages, **preflight)
        for attempt in range(1, self.cfg.policy.overflow_max_retries + 1):
            try:
                return await call(sending)
            except Exception as error:
                if not is_context_length_error(error):
                    raise
                sending = await self.arecover(session_id, messages, error, attempt=attempt)
        return await call(sending)

    def forget(self, session_id: str) -> None:
        """Let go of a session's state; a stored plan stays stored."""
        with self._lock:
            self._sessions.pop(session_id, None)

    def _session(self, session_id: str) -> Session:
        with self._lock:
            session = self._sessions.get(session_id)
            if session is None:
                session = self._sessions[session_id] = Session(session_id, events.new_trace_id())
                if len(self._sessions) > _MAX_SESSIONS:
                    self._sessions.popitem(last=False)
            else:
                self._sessions.move_to_end(session_id)
            return session

    def _run(self, session_id: str, steps: Callable[[Session], Steps[R]]) -> R:
        session = self._session(session_id)
        if session.driven_by == threading.get_ident():
            raise CompactError(
                f"session {session_id!r} is in the middle of a call on this thread: an exporter or storage must not "
                "compact the session it hears of, and an event loop that runs apreflight must not run preflight"
            )
        with session.lock, _driving(session):
            return run(self._engine.delivering(steps(session)))

    async def _arun(self, session_id: str, steps: Callable[[Session], Steps[R]]) -> R:
        session = self._session(session_id)
        # Asked for again and again, without a thread: threads that wait for the lock would be those that its holder
        # needs to go on, and one whose task was cancelled would take the lock and never give it back.
        delay_s = 0.001
        while not session.lock.acquire(blocking=False):
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, _LOCK_ASKED_EVERY_S)
        try:
            with _driving(session):
                return await arun(self._engine.delivering(steps(session)))
        finally:
            session.lock.release()


@contextmanager
def _driving(session: Session) -> Iterator[None]:
    session.driven_by = threading.get_ident()
    try:
        yield
    finally:
        session.driven_by = None


@contextmanager
def _looking(session: Session) -> Iterator[None]:
    """Hold the session for a moment; a thread that is in the middle of a call for it would wait for itself."""
    if session.driven_by == threading.get_ident():
        yield
        return
    with session.lock:
        yield


def _one(effect: Callable[[], Any]) -> Steps[Any]:
    return (yield effect)
