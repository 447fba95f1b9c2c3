"""One model call: preflight, send, recover from a context overflow, report usage.

Every integration creates one `ModelCall` per request. If a framework hands over the function that sends the request,
the integration uses `run`, `arun`, `stream` or `astream`. If a framework offers callbacks instead, it calls `prepare`,
`recover` and `report` from them.

A failure in this library never fails the model call. The request is sent unchanged, one line on stderr says why, and an
event reports it. `InsufficientBudget` is no such failure: the request is reduced, or the error is raised, as the policy
says.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

from compact import events
from compact.delivery.stderr import log_problem
from compact.engine.call import CallOptions
from compact.engine.effects import Steps, StreamSteps, Visible, adrive, adrive_stream, drive, drive_stream
from compact.engine.overflow.retry import Retries
from compact.exceptions import InsufficientBudget
from compact.integrations.provider_compaction import BuildEvent, ProviderCompactions
from compact.integrations.stream_events import StreamedOverflow, StreamHead, response_of
from compact.manager import CompactManager
from compact.redaction.outbound import OutboundRedactor

__all__ = [
    "CallOptions",
    "Messages",
    "ModelCall",
    "log_failure",
    "new_session_id",
    "report_usage",
    "usage_of",
    "warn_once",
    "warn_unidentified",
]

R = TypeVar("R")
Messages = list[Any]
_warned: WeakKeyDictionary[CompactManager, set[str]] = WeakKeyDictionary()
_warned_lock = threading.Lock()
_END = object()
"""The end of a stream."""


def usage_of(response: Any) -> Any:
    """Return the `usage` attribute of a response, or None."""
    return getattr(response, "usage", None)


@dataclass(frozen=True, slots=True)
class _Calls:
    """The calls of a model call that have a sync and an async form."""

    preflight: Callable[..., Any]
    reduce: Callable[..., Any]
    recover: Callable[..., Any]
    build_event: Callable[[BuildEvent], Any]
    next_event: Callable[[Any], Callable[[], Any]]
    """Returns the function that returns the next event of a stream, or `_END`."""

    @classmethod
    def sync(cls, manager: CompactManager) -> _Calls:
        """Return the calls of a sync caller."""
        return cls(
            manager.preflight,
            manager.reduce,
            manager.recover,
            lambda build: build(),
            lambda stream: partial(next, iter(stream), _END),
        )

    @classmethod
    def asynchronous(cls, manager: CompactManager) -> _Calls:
        """Return the calls of an async caller."""
        return cls(
            manager.apreflight,
            manager.areduce,
            manager.arecover,
            asyncio.to_thread,
            lambda stream: partial(anext, aiter(stream), _END),
        )


class ModelCall:
    """A request to a model, from the caller's full message list to the reported usage.

    `messages` is never changed. `options` returns the options of `CompactManager.preflight`. It is a function so that a
    tool whose schema cannot be read counts as a failed compaction, not as a failed call. `read_usage` extracts the
    provider's token counts from a response. `scope` is entered around every call to the manager, so that a framework
    can set the parent span of the events.

    Each method has a sync and an async form, and both run the same steps.
    """

    def __init__(
        self,
        manager: CompactManager,
        session_id: str,
        messages: Sequence[Any],
        *,
        options: Callable[[], CallOptions],
        read_usage: Callable[[Any], Any] = usage_of,
        scope: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.manager = manager
        self.session_id = session_id
        self.messages = messages
        self._read_usage = read_usage
        self._scope = scope
        self._options = options
        self._retries = Retries()
        self._provider = ProviderCompactions(messages, self._new_redactor)

    def run(self, send: Callable[[Messages], R]) -> R:
        """Send the request, and send a shorter one after each context overflow."""
        response: R = drive(self._run(_Calls.sync(self.manager), send))
        return response

    async def arun(self, send: Callable[[Messages], Awaitable[R]]) -> R:
        """Run the call for an async caller."""
        response: R = await adrive(self._run(_Calls.asynchronous(self.manager), send))
        return response

    def stream(self, open_stream: Callable[[Messages], Iterator[R]], *, prepared: Messages) -> Iterator[R]:
        """Yield the events of a streamed response. Report the token counts in it.

        The request is sent again if an overflow is reported before the first content. Until then, the events are held
        back. After that, the consumer has already seen a part of the response.
        """
        return drive_stream(self._stream(_Calls.sync(self.manager), open_stream, prepared))

    def astream(
        self, open_stream: Callable[[Messages], AsyncIterator[R]], *, prepared: Messages | None = None
    ) -> AsyncIterator[R]:
        """Async version of `stream`. Pass `prepared` if `aprepare` already ran."""
        return adrive_stream(self._stream(_Calls.asynchronous(self.manager), open_stream, prepared))

    def preflight(self) -> Messages:
        """Return the messages to send. Raise if compaction fails."""
        return drive(self._preflight(_Calls.sync(self.manager)))

    async def apreflight(self) -> Messages:
        """Async version of `preflight`."""
        return await adrive(self._preflight(_Calls.asynchronous(self.manager)))

    def prepare(self) -> Messages:
        """Return the messages to send, which are the caller's own if compaction fails."""
        return drive(self._prepare(_Calls.sync(self.manager)))

    async def aprepare(self) -> Messages:
        """Async version of `prepare`."""
        return await adrive(self._prepare(_Calls.asynchronous(self.manager)))

    def recover(self, error: Exception) -> Messages:
        """Return a shorter request after a context overflow.

        Raise `error` itself if it is anything else, or if the request cannot be shortened any further.
        """
        return drive(self._recover(_Calls.sync(self.manager), error))

    async def arecover(self, error: Exception) -> Messages:
        """Async version of `recover`."""
        return await adrive(self._recover(_Calls.asynchronous(self.manager), error))

    def report(self, response: Any) -> None:
        """Report the token counts of a response, to correct later estimates, and compactions of the provider."""
        drive(self._report(_Calls.sync(self.manager), response))

    def report_usage(self, usage: Any) -> None:
        """Report token counts, if there are any, to correct later estimates."""
        if usage is not None:
            report_usage(self.manager, self.session_id, usage, messages=self.messages)

    # The steps.

    def _run(self, calls: _Calls, send: Callable[[Messages], Any]) -> Steps[Any]:
        messages = yield from self._prepare(calls)
        response = yield from self._retries.send(messages, send, partial(self._shorten, calls))
        yield from self._report(calls, response)
        return response

    def _stream(self, calls: _Calls, open_stream: Callable[[Messages], Any], prepared: Messages | None) -> StreamSteps:
        self._retries = Retries()
        messages = (yield from self._prepare(calls)) if prepared is None else prepared
        while True:
            head = StreamHead()
            try:
                next_event = calls.next_event(open_stream(messages))
                while (event := (yield next_event)) is not _END:
                    yield from self._report_event(calls, event)
                    yield Visible(head.add(event))
                yield Visible(head.release())
                return
            except Exception as error:
                if head.has_content:
                    raise
                try:
                    messages = yield from self._recover(calls, error)
                except StreamedOverflow as overflow:
                    yield Visible((*head.release(), overflow.event))
                    return

    def _prepare(self, calls: _Calls) -> Steps[Messages]:
        self._retries = Retries()
        try:
            return (yield from self._preflight(calls))
        except InsufficientBudget:
            raise
        except Exception as error:
            self._report_failure(error)
            return list(self.messages)

    def _preflight(self, calls: _Calls) -> Steps[Messages]:
        with self._scope():
            # A running agent must not stop because one turn and one tool pair do not fit, unless the policy says so.
            options: CallOptions = {"floor": "newest", **self._options()}
            arguments = (self.session_id, self.messages)
            try:
                return self._remember((yield partial(calls.preflight, *arguments, **options)))
            except InsufficientBudget:
                if self.manager.cfg.policy.on_insufficient_budget == "raise":
                    raise
                return self._remember((yield partial(calls.reduce, *arguments, **options)))

    def _recover(self, calls: _Calls, error: Exception) -> Steps[Messages]:
        return self._retries.recover(error, partial(self._shorten, calls))

    def _shorten(self, calls: _Calls, error: Exception, attempt: int) -> Steps[Messages]:
        with self._scope():
            shorter = yield partial(calls.recover, self.session_id, self.messages, error, attempt=attempt)
            return self._remember(shorter)

    def _report_event(self, calls: _Calls, event: Any) -> Steps[None]:
        response = response_of(event)
        if response is not None:
            yield from self._report(calls, response)
        else:
            yield from self._emit_all(calls, self._provider.read_event(event))

    def _report(self, calls: _Calls, response: Any) -> Steps[None]:
        self.report_usage(self._read_usage(response))
        yield from self._emit_all(calls, self._provider.read_response(response))

    def _emit_all(self, calls: _Calls, compactions: Iterator[BuildEvent]) -> Steps[None]:
        if not self.manager.has_listeners:
            return
        try:
            for build in compactions:
                self.manager.emit_event(self.session_id, (yield partial(calls.build_event, build)))
        except Exception as error:
            log_problem("compact", f"Could not report the provider's compaction: {type(error).__name__}: {error}")

    def _remember(self, messages: Messages) -> Messages:
        """Remember the request, because it is what a provider compacts."""
        self._provider.items = messages
        return messages

    def _new_redactor(self) -> OutboundRedactor:
        return OutboundRedactor(self.manager.cfg.redaction, hook=self.manager.cfg.redact)

    def _report_failure(self, error: Exception) -> None:
        log_failure(error)
        event = events.ErrorEvent.from_exception(error, "sent unchanged")
        try:
            self.manager.emit_event(self.session_id, event)
        except Exception as reason:
            log_problem("compact", f"Could not report the failure: {type(reason).__name__}: {reason}")


def new_session_id(framework: str) -> str:
    """Return a session id that nothing else has, for a run without one."""
    return f"{framework}-{uuid4().hex[:16]}"


def warn_once(
    manager: CompactManager,
    session_id: str,
    code: events.WarningCode,
    message: str,
    *,
    severity: events.Severity = "medium",
) -> None:
    """Warn once per manager, on stderr and as a `compact.warning` event."""
    with _warned_lock:
        codes = _warned.setdefault(manager, set())
        if code in codes:
            return
        codes.add(code)
    log_problem("compact", message)
    manager.emit_event(session_id, events.WarningEvent(severity=severity, code=code, message=message))


def warn_unidentified(manager: CompactManager, session_id: str, fix: str) -> None:
    """Warn that a run has no session id of its own. `fix` says how to provide one."""
    message = f"No session id was given, so each run is its own session and nothing is remembered between runs. {fix}"
    warn_once(manager, session_id, "session_unidentified", message)


def report_usage(
    manager: CompactManager, session_id: str, usage: Any, *, messages: Sequence[Any] | None = None
) -> None:
    """Report a provider's token counts. Log a failure instead of raising it."""
    try:
        manager.report_usage(session_id, usage, messages=messages)
    except Exception as error:
        log_problem("compact", f"Could not read the provider's token usage: {type(error).__name__}: {error}")


def log_failure(error: Exception) -> None:
    """Write one line to stderr about a failed compaction."""
    log_problem("compact", f"Compaction failed, sending the request unchanged: {type(error).__name__}: {error}")
