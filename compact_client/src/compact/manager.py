"""The public front: check a conversation before it is sent, and compact it when it must be.

Every entry point has a sync and an async form that run the same steps. The host's messages are never changed. The
result is a new list in the same format.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, Unpack

from compact import events
from compact.config import CompactConfig
from compact.engine.call import Call, CallOptions
from compact.engine.effects import Steps, adrive, arun, drive, run, single_step
from compact.engine.engine import Engine
from compact.engine.overflow.recovery import recover
from compact.engine.overflow.retry import Retries
from compact.engine.preflight import preflight, report_outcome
from compact.engine.recall import recall
from compact.engine.reduction import reduce_request
from compact.engine.rehydration import insert_before_turn
from compact.engine.session import Branches, Evictions, Session
from compact.engine.session.request import to_item
from compact.engine.warm_up import WarmUp, rehearse
from compact.exceptions import CompactError, CorruptData
from compact.memory import Memory
from compact.messages.codecs.langchain import HostMessages
from compact.messages.normalization import normalize
from compact.messages.usage import Usage
from compact.planning.plan import CompactionPlan
from compact.protocols import Exporter
from compact.recall import Passage

T = TypeVar("T")
"""The type of the host's messages: `Message`, a dict, or a type of a provider's or framework's package."""
R = TypeVar("R")

Operation = Callable[[Engine, Session, Call], Steps[list[Any]]]
"""The steps of one call, from the host's list to the list to send."""

_MAX_LOCK_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class _CalledBranch:
    """The branch that a task or thread used last, so that a tool it calls later searches in the same one."""

    branches: weakref.ref[Branches]
    number: int
    is_of_task: bool
    """True if a task used it. Its own tasks inherit this, and no others. The next job of a thread may be anybody's."""


_called_branch: ContextVar[_CalledBranch | None] = ContextVar("compact_called_branch", default=None)


class CompactManager:
    """Compacts any number of sessions. Safe to share between threads and tasks.

    The first manager of a process loads the tokenizer, which takes 0.2 to 0.4 seconds and blocks all threads. Create it
    before an event loop serves requests.
    """

    def __init__(self, cfg: CompactConfig, *, clock: events.Clock = events.utc_now) -> None:
        self._engine = Engine(cfg, clock)
        self._sessions: OrderedDict[str, Branches] = OrderedDict()
        self._lock = threading.Lock()
        self._past_evictions = Evictions()
        self._running: set[asyncio.Task[Any]] = set()
        """The async calls of all sessions. An event loop itself keeps only weak references to tasks."""

    @property
    def cfg(self) -> CompactConfig:
        """The configuration, read-only. Create another manager to use a different one."""
        return self._engine.cfg

    def warm_up(self) -> WarmUp:
        """Prepare the first compaction in the background: import its modules, compile its patterns.

        Use it as `await manager.warm_up()`, or as `manager.warm_up().wait()` in sync code.
        """
        return WarmUp(lambda: rehearse(self.cfg))

    def add_exporter(self, exporter: Exporter) -> None:
        """Send events to one more exporter, starting with the next check."""
        self._engine.add_exporter(exporter)

    @property
    def has_listeners(self) -> bool:
        """True if events are sent anywhere."""
        return self._engine.has_listeners

    def emit_event(self, session_id: str, event: events.Event) -> None:
        """Send an event that belongs to no check. It is redacted like all others."""
        self._engine.emit_event(session_id, event)

    # Before a model call.

    def preflight(self, session_id: str, messages: Sequence[T], **options: Unpack[CallOptions]) -> list[T]:
        """Count the request, compact it if a trigger fires, and return the messages to send.

        `tools` and `output_schema` are counted. `instructions` is a system prompt that is not among the messages.
        `format` names the message format if it cannot be detected. `protected` are indexes of messages that must
        stay, for formats that cannot carry a flag. `floor` is the least to keep if the policy does not say. Raises
        `InsufficientBudget` if that does not fit.
        """
        return self._process(preflight, session_id, messages, options)

    async def apreflight(self, session_id: str, messages: Sequence[T], **options: Unpack[CallOptions]) -> list[T]:
        """Run `preflight` without blocking the event loop."""
        return await self._aprocess(preflight, session_id, messages, options)

    def manual_compact(
        self,
        session_id: str,
        messages: Sequence[T],
        note: str = "manual",
        **options: Unpack[CallOptions],
    ) -> list[T]:
        """Compact regardless of usage. The note becomes part of the trace, and `report` tells what was saved."""
        return self._process(preflight, session_id, messages, {"note": note, **options})

    async def amanual_compact(
        self,
        session_id: str,
        messages: Sequence[T],
        note: str = "manual",
        **options: Unpack[CallOptions],
    ) -> list[T]:
        """Run `manual_compact` without blocking the event loop."""
        return await self._aprocess(preflight, session_id, messages, {"note": note, **options})

    def request_compaction(self, session_id: str, note: str = "the agent requested it") -> None:
        """Make the session's next preflight compact regardless of usage. An agent's own tool can call this."""
        self._branches(session_id).shared.requested_note = note

    # After a model call.

    def report_usage(self, session_id: str, usage: Any, *, messages: Sequence[Any] | None = None) -> None:
        """Report the provider's token usage for the last request. It corrects later estimates.

        `messages` is the host's list of that request. It is needed only if several runs share the session id.
        """
        branches = self._branches(session_id)
        reported = Usage.from_provider(usage)
        with branches.read_access():
            known = branches.find(HostMessages(messages).items) if messages is not None else None
            session = known or branches.current
            session.usage.observe(session.usage.revert(session.last_estimate), reported.input_tokens)

    def report_outcome(self, session_id: str, *, success: bool) -> None:
        """Report whether the task succeeded. It is emitted with the quality figures."""
        branches = self._branches(session_id)
        with branches.read_access():
            report_outcome(self._engine, branches.current, success=success)

    def recover(self, session_id: str, messages: Sequence[T], error: BaseException, *, attempt: int = 1) -> list[T]:
        """Return the last request without its oldest messages, after a context overflow. Tool pairs stay intact.

        `messages` is what was sent, or the host's own list. Raises `CompactError` if the retries are used up or
        nothing can be removed.
        """
        return self._process(_recovery(error, attempt), session_id, messages, {})

    async def arecover(
        self, session_id: str, messages: Sequence[T], error: BaseException, *, attempt: int = 1
    ) -> list[T]:
        """Run `recover` without blocking the event loop."""
        return await self._aprocess(_recovery(error, attempt), session_id, messages, {})

    def call_with_recovery(
        self, session_id: str, messages: Sequence[T], call: Callable[[list[T]], R], **preflight: Any
    ) -> R:
        """Run `preflight` and call the model. After a context overflow, shrink the request and call again.

        The number of retries is `overflow_max_retries` of the policy.
        """
        request = partial(self.preflight, session_id, messages, **preflight)
        response: R = drive(_send(request, call, partial(self.recover, session_id, messages)))
        return response

    async def acall_with_recovery(
        self, session_id: str, messages: Sequence[T], call: Callable[[list[T]], Awaitable[R]], **preflight: Any
    ) -> R:
        """Run `call_with_recovery` with an async model call."""
        request = partial(self.apreflight, session_id, messages, **preflight)
        response: R = await adrive(_send(request, call, partial(self.arecover, session_id, messages)))
        return response

    def reduce(self, session_id: str, messages: Sequence[T], **options: Unpack[CallOptions]) -> list[T]:
        """Return only the messages that must stay, after `InsufficientBudget`. The plan does not change.

        This is the smallest valid request. It exceeds the budget, and the warning `prompt_reduced` reports it.
        """
        return self._process(reduce_request, session_id, messages, options)

    async def areduce(self, session_id: str, messages: Sequence[T], **options: Unpack[CallOptions]) -> list[T]:
        """Run `reduce` without blocking the event loop."""
        return await self._aprocess(reduce_request, session_id, messages, options)

    # State of a session.

    def report(self, session_id: str) -> str:
        """Return one line about the last compaction: the tokens saved and the messages compressed."""
        plan = self._session(session_id).plan
        if plan is None:
            return "nothing was compacted yet"
        return plan.report()

    def plan(self, session_id: str) -> CompactionPlan | None:
        """Return the session's current plan, or None if it was never compacted."""
        return self._session(session_id).plan

    def remember(self, session_id: str) -> Memory:
        """Return what the session remembers now: its summary, the pinned messages and the recent window."""
        branches = self._branches(session_id)
        with branches.read_access():
            session = branches.current
            return Memory.from_request(
                session_id,
                session.request.messages,
                plan=session.plan,
                tokens=session.last_estimate,
                policy=self.cfg.policy,
                protected_ids=session.protected_ids,
            )

    def rerender(self, session_id: str, number: int) -> list[Any]:
        """Return the messages of the session's request `number`, counted from 1, exactly as they were returned."""
        branches = self._branches(session_id)
        with branches.read_access():
            sent_requests = branches.shared.sent
            if not 1 <= number <= sent_requests.count:
                raise CompactError(
                    f"Session {session_id!r} has {sent_requests.count} requests, so there is no request {number}."
                )
            sent = sent_requests.get(number)
            session = branches.get(sent.branch) if sent is not None else None
            if sent is None or session is None:
                raise CompactError(
                    f"Request {number} of session {session_id!r} was evicted. Raise limits.max_requests "
                    f"({self.cfg.limits.max_requests:,}) or limits.max_branches ({self.cfg.limits.max_branches})."
                )
            if sent.view_version != session.view_version and sent.view_version not in session.old_views:
                raise CompactError(
                    f"Request {number} of session {session_id!r} is too old. The history was edited too often since."
                )
            view = session.old_views.get(sent.view_version, session.view)[: sent.view_length]
            options, forms = self._engine.render_options, session.forms.at(number)
            messages = [forms.get(message.id or "") or session.forms.get(message) for message in view]
            rendered = session.render_view(messages, session.plans.get(sent.plan_version))
            assert session.codec is not None
            normal = normalize(rendered, session.codec, protected_flag=options.protected_flag)
            return [to_item(message) for message in insert_before_turn(normal.messages, sent.injected, session.codec)]

    def recall(
        self,
        session_id: str,
        query: str,
        *,
        limit: int = 5,
        max_tokens: int = 2_000,
        messages: Sequence[Any] | None = None,
    ) -> list[Passage]:
        """Search in everything that the session has contained. Return redacted passages, best first.

        This includes messages that were compacted away, and after a restart those in the archive. At most `limit`
        passages with at most `max_tokens` in total are returned. `messages` is the host's list. It is needed only if
        several runs share the session id. Passages of another conversation under the same id are never returned: raises
        `CompactError` if it is not known which conversation is meant.
        """
        branches = self._branches(session_id)
        with branches.read_access():
            steps = self._recall(branches, query, limit, max_tokens, messages)
            return run(self._engine.with_delivery(steps))

    async def arecall(
        self,
        session_id: str,
        query: str,
        *,
        limit: int = 5,
        max_tokens: int = 2_000,
        messages: Sequence[Any] | None = None,
    ) -> list[Passage]:
        """Run `recall` without blocking the event loop."""
        branches = self._branches(session_id)
        steps = self._recall(branches, query, limit, max_tokens, messages, mark=_called_branch.get())
        return await self._arun(branches, steps)

    def _recall(
        self,
        branches: Branches,
        query: str,
        limit: int,
        max_tokens: int,
        messages: Sequence[Any] | None,
        *,
        mark: _CalledBranch | None = None,
    ) -> Steps[list[Passage]]:
        items = None if messages is None else HostMessages(messages).items
        session = self._find_branch(branches, items, mark)
        if session is None:
            return []
        return (yield from recall(self._engine, session, query, limit=limit, max_tokens=max_tokens, items=items))

    def enable_recall(self, tool_name: str = "recall") -> None:
        """End each new summary with a line that tells the model to call this tool, which must call `recall`.

        `recall_tool` of an integration calls this. The setting `recall.enabled` does the same.
        """
        self._engine.recall_tool_name = tool_name

    def _find_branch(
        self, branches: Branches, messages: Sequence[Any] | None, mark: _CalledBranch | None = None
    ) -> Session | None:
        """Return the branch that these messages continue, else the one of this task's last call.

        A thread is not a task: it may belong to a pool and run for another user now. Its last call counts only if no
        other conversation used the id since.
        """
        if messages is not None:
            return branches.find(messages)
        if len(branches) == 1:
            return branches.current
        mark = mark or _called_branch.get()
        called = branches.get(mark.number) if mark is not None and mark.branches() is branches else None
        is_known = mark is not None and called is not None and (mark.is_of_task or called is branches.current)
        if not is_known:
            raise CompactError(
                f"Session {branches.session_id!r} has {len(branches)} conversations that do not continue each other. "
                "Pass messages=… to search in the right one, or use one session id per conversation."
            )
        return called

    def read_artifact(self, session_id: str, artifact_id: str, *, context: Any = None) -> str | None:
        """Return the full content behind a pointer, or None if it is missing or the requester may not read it."""
        branches = self._branches(session_id)
        if self.cfg.artifact_store is None:
            return None
        with branches.read_access():
            return run(self._read_artifact(branches.current, artifact_id, context))

    async def aread_artifact(self, session_id: str, artifact_id: str, *, context: Any = None) -> str | None:
        """Run `read_artifact` without blocking the event loop."""
        if self.cfg.artifact_store is None:
            return None
        branches = self._branches(session_id)
        steps = branches.run_on(None, lambda session: self._read_artifact(session, artifact_id, context))
        return await self._arun(branches, steps)

    @property
    def evictions(self) -> Evictions:
        """The sessions, branches and requests that were evicted so far, because a limit was reached."""
        with self._lock:
            counts = self._past_evictions
            for branches in self._sessions.values():
                counts += Evictions(0, branches.evicted_count, branches.shared.sent.evicted_count)
            return counts

    def forget(self, session_id: str) -> None:
        """Discard a session's state in this process. A stored plan remains stored."""
        with self._lock:
            self._sessions.pop(session_id, None)

    def _read_artifact(self, session: Session, artifact_id: str, context: Any) -> Steps[str | None]:
        session.rehydration_requests += 1
        store, requester = self.cfg.artifact_store, context or self.cfg.security_context
        try:
            content: str | None = yield from single_step(lambda: store.retrieve(artifact_id, requester))
        except CorruptData as error:
            event = events.WarningEvent(severity="high", code="artifact_corrupt", message=str(error))
            self._engine.emit_event(session.session_id, event)
            return None
        return content

    def _session(self, session_id: str) -> Session:
        return self._branches(session_id).current

    def _branches(self, session_id: str) -> Branches:
        with self._lock:
            branches = self._sessions.get(session_id)
            if branches is not None:
                self._sessions.move_to_end(session_id)
                return branches
            limits = self.cfg.limits
            branches = self._sessions[session_id] = Branches(
                session_id,
                events.new_trace_id(),
                redactor=self._engine.redactor,
                max_branches=limits.max_branches,
                max_requests=limits.max_requests,
            )
            evicted = None
            if len(self._sessions) > limits.max_sessions:
                _, evicted = self._sessions.popitem(last=False)
                self._past_evictions += Evictions(1, evicted.evicted_count, evicted.shared.sent.evicted_count)
        if evicted is not None:
            self._report_eviction(evicted.session_id)
        return branches

    def _report_eviction(self, session_id: str) -> None:
        limit = self.cfg.limits.max_sessions
        text = f"The session was evicted, because it was not used for longer than {limit:,} others. Its log is gone."
        self.emit_event(session_id, events.WarningEvent(severity="low", code="session_evicted", message=text))

    def _process(
        self, operation: Operation, session_id: str, messages: Sequence[T], options: Mapping[str, Any]
    ) -> list[T]:
        """Run an operation on a host's list, and return the list to send."""
        host = HostMessages(messages)
        call = Call(host.items, **options)
        return host.restore(self._run(session_id, call.items, lambda session: operation(self._engine, session, call)))

    async def _aprocess(
        self, operation: Operation, session_id: str, messages: Sequence[T], options: Mapping[str, Any]
    ) -> list[T]:
        raw_call = Call(messages, **options)
        branches = self._branches(session_id)
        branch_numbers: list[int] = []

        def steps() -> Steps[list[T]]:
            # The worker reads the messages, because dumping those of LangChain takes time.
            host = HostMessages(messages)
            call = replace(raw_call, items=host.items)

            def run_on_branch(session: Session) -> Steps[list[Any]]:
                branch_numbers.append(session.number)
                return operation(self._engine, session, call)

            return host.restore((yield from branches.run_on(call.items, run_on_branch)))

        request = await self._arun(branches, steps())
        _called_branch.set(_CalledBranch(weakref.ref(branches), branch_numbers[-1], is_of_task=True))
        return request

    def _run(self, session_id: str, messages: Sequence[Any], steps: Callable[[Session], Steps[R]]) -> R:
        branches = self._branches(session_id)
        if branches.is_active_here:
            raise CompactError(
                f"Session {session_id!r} is already running a call on this thread. An exporter or storage must not "
                "compact the session whose events it receives, and an event loop that runs apreflight must not call "
                "preflight."
            )
        with branches.run_call():
            try:
                return run(self._engine.with_delivery(branches.run_on(messages, steps)))
            finally:
                _called_branch.set(_CalledBranch(weakref.ref(branches), branches.current.number, is_of_task=False))

    async def _arun(self, branches: Branches, steps: Steps[R]) -> R:
        # Poll instead of waiting in a thread. Waiting threads could occupy the pool that the lock's holder needs, and
        # the thread of a canceled task would acquire the lock and never release it.
        delay_s = 0.001
        while not branches.try_acquire():
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, _MAX_LOCK_POLL_S)
        # A canceled caller does not wait, but its call goes on: a thread cannot be stopped, and a plan that was
        # committed halfway would be lost. The session's next call waits for the lock.
        task = asyncio.create_task(arun(self._engine.with_delivery(steps), branches))
        self._running.add(task)
        task.add_done_callback(lambda done: self._release(branches, done))
        return await asyncio.shield(task)

    def _release(self, branches: Branches, done: asyncio.Task[Any]) -> None:
        self._running.discard(done)
        branches.release()


def _recovery(error: BaseException, attempt: int) -> Operation:
    return lambda engine, session, call: recover(engine, session, call.items, error, attempt)


def _send(preflight: Callable[[], Any], call: Callable[[list[T]], Any], recover: Callable[..., Any]) -> Steps[Any]:
    """Prepare a request and call the model, and again with a shorter request after each context overflow."""
    request = yield preflight
    retries = Retries()
    return (
        yield from retries.send(
            request, call, lambda error, attempt: single_step(partial(recover, error, attempt=attempt))
        )
    )
