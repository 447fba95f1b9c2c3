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
from typing import Any, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

from compact import events
from compact.delivery.stderr import say
from compact.engine.call import CallOptions
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


def _say_unreported(error: Exception) -> None:
    say("compact", f"Could not report the provider's compaction: {type(error).__name__}: {error}")


def usage_of(response: Any) -> Any:
    """Return the `usage` attribute of a response, or None."""
    return getattr(response, "usage", None)


class ModelCall:
    """A request to a model, from the caller's full message list to the reported usage.

    `messages` is never changed. `options` returns the options of `CompactManager.preflight`. It is a function so that a
    tool whose schema cannot be read counts as a failed compaction, not as a failed call. `read_usage` extracts the
    provider's token counts from a response. `scope` is entered around every call to the manager, so that a framework
    can set the parent span of the events.
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
        messages = self.prepare()
        response = self._retries.run(messages, send, self._recover)
        self.report(response)
        return response

    async def arun(self, send: Callable[[Messages], Awaitable[R]]) -> R:
        """Run the call for an async caller."""
        messages = await self.aprepare()
        response = await self._retries.arun(messages, send, self._arecover)
        await self._areport(response)
        return response

    def stream(self, open_stream: Callable[[Messages], Iterator[R]], *, prepared: Messages) -> Iterator[R]:
        """Yield the events of a streamed response. Report the token counts in it.

        The request is sent again if an overflow is reported before the first content. Until then, the events are held
        back. After that, the consumer has already seen a part of the response.
        """
        messages = prepared
        self._retries = Retries()
        while True:
            head = StreamHead()
            try:
                for event in open_stream(messages):
                    self._report_event(event)
                    yield from head.add(event)
                yield from head.release()
                return
            except Exception as error:
                if head.has_content:
                    raise
                try:
                    messages = self.recover(error)
                except StreamedOverflow as overflow:
                    yield from (*head.release(), overflow.event)
                    return

    async def astream(
        self, open_stream: Callable[[Messages], AsyncIterator[R]], *, prepared: Messages | None = None
    ) -> AsyncIterator[R]:
        """Async version of `stream`. Pass `prepared` if `aprepare` already ran."""
        messages = await self._first_messages(prepared)
        while True:
            head = StreamHead()
            try:
                async for event in open_stream(messages):
                    await self._areport_event(event)
                    for visible in head.add(event):
                        yield visible
                for visible in head.release():
                    yield visible
                return
            except Exception as error:
                if head.has_content:
                    raise
                try:
                    messages = await self.arecover(error)
                except StreamedOverflow as overflow:
                    for visible in (*head.release(), overflow.event):
                        yield visible
                    return

    def preflight(self) -> Messages:
        """Return the messages to send. Raise if compaction fails."""
        with self._scope():
            options = self._preflight_options()
            try:
                return self._remember(self.manager.preflight(self.session_id, self.messages, **options))
            except InsufficientBudget:
                if self.manager.cfg.policy.on_insufficient_budget == "raise":
                    raise
                return self._remember(self.manager.reduce(self.session_id, self.messages, **options))

    async def apreflight(self) -> Messages:
        """Async version of `preflight`."""
        with self._scope():
            options = self._preflight_options()
            try:
                return self._remember(await self.manager.apreflight(self.session_id, self.messages, **options))
            except InsufficientBudget:
                if self.manager.cfg.policy.on_insufficient_budget == "raise":
                    raise
                return self._remember(await self.manager.areduce(self.session_id, self.messages, **options))

    def prepare(self) -> Messages:
        """Return the messages to send, which are the caller's own if compaction fails."""
        self._retries = Retries()
        try:
            return self.preflight()
        except InsufficientBudget:
            raise
        except Exception as error:
            self._report_failure(error)
            return list(self.messages)

    async def aprepare(self) -> Messages:
        """Async version of `prepare`."""
        self._retries = Retries()
        try:
            return await self.apreflight()
        except InsufficientBudget:
            raise
        except Exception as error:
            self._report_failure(error)
            return list(self.messages)

    def recover(self, error: Exception) -> Messages:
        """Return a shorter request after a context overflow.

        Raise `error` itself if it is anything else, or if the request cannot be shortened any further.
        """
        return self._retries.recover(error, self._recover)

    async def arecover(self, error: Exception) -> Messages:
        """Async version of `recover`."""
        return await self._retries.arecover(error, self._arecover)

    def report(self, response: Any) -> None:
        """Report the token counts of a response, to correct later estimates, and compactions of the provider."""
        self.report_usage(self._read_usage(response))
        self._emit_all(self._provider.read_response(response))

    def report_usage(self, usage: Any) -> None:
        """Report token counts, if there are any, to correct later estimates."""
        if usage is not None:
            report_usage(self.manager, self.session_id, usage, messages=self.messages)

    def _remember(self, messages: Messages) -> Messages:
        """Remember the request, because it is what a provider compacts."""
        self._provider.items = messages
        return messages

    def _new_redactor(self) -> OutboundRedactor:
        return OutboundRedactor(self.manager.cfg.redaction, hook=self.manager.cfg.redact)

    def _preflight_options(self) -> CallOptions:
        # A running agent must not stop because one turn and one tool pair do not fit, unless the policy says so.
        return {"floor": "newest", **self._options()}

    def _report_event(self, event: Any) -> None:
        response = response_of(event)
        if response is not None:
            self.report(response)
        else:
            self._emit_all(self._provider.read_event(event))

    async def _areport(self, response: Any) -> None:
        self.report_usage(self._read_usage(response))
        await self._aemit_all(self._provider.read_response(response))

    async def _areport_event(self, event: Any) -> None:
        response = response_of(event)
        if response is not None:
            await self._areport(response)
        else:
            await self._aemit_all(self._provider.read_event(event))

    def _emit_all(self, compactions: Iterator[BuildEvent]) -> None:
        if not self.manager.has_listeners:
            return
        try:
            for build in compactions:
                self.manager.emit_event(self.session_id, build())
        except Exception as error:
            _say_unreported(error)

    async def _aemit_all(self, compactions: Iterator[BuildEvent]) -> None:
        if not self.manager.has_listeners:
            return
        try:
            for build in compactions:
                self.manager.emit_event(self.session_id, await asyncio.to_thread(build))
        except Exception as error:
            _say_unreported(error)

    async def _first_messages(self, prepared: Messages | None) -> Messages:
        self._retries = Retries()
        return await self.aprepare() if prepared is None else prepared

    def _recover(self, error: Exception, attempt: int) -> Messages:
        with self._scope():
            return self._remember(self.manager.recover(self.session_id, self.messages, error, attempt=attempt))

    async def _arecover(self, error: Exception, attempt: int) -> Messages:
        with self._scope():
            return self._remember(await self.manager.arecover(self.session_id, self.messages, error, attempt=attempt))

    def _report_failure(self, error: Exception) -> None:
        log_failure(error)
        event = events.ErrorEvent.from_exception(error, "sent unchanged")
        try:
            self.manager.emit_event(self.session_id, event)
        except Exception as reason:
            say("compact", f"Could not report the failure: {type(reason).__name__}: {reason}")


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
    say("compact", message)
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
        say("compact", f"Could not read the provider's token usage: {type(error).__name__}: {error}")


def log_failure(error: Exception) -> None:
    """Write one line to stderr about a failed compaction."""
    say("compact", f"Compaction failed, sending the request unchanged: {type(error).__name__}: {error}")
