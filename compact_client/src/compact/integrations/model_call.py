"""One model call: preflight, send, recover from a context overflow, report usage.

Every integration creates one `ModelCall` per request. If a framework hands over the function that sends the request,
the integration uses `run`, `arun`, `stream` or `astream`. If a framework offers callbacks instead, it calls `prepare`,
`recover` and `report` from them.

A failure in this library never fails the model call. The request is sent unchanged, and one line on stderr says why.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from compact.delivery.stderr import say
from compact.engine.call import CallOptions
from compact.engine.overflow.errors import is_context_length_error
from compact.exceptions import CompactError
from compact.integrations.stream_events import StreamedOverflow, StreamHead, response_of
from compact.manager import CompactManager

__all__ = ["CallOptions", "Messages", "ModelCall", "log_failure", "report_usage", "usage_of"]

R = TypeVar("R")
Messages = list[Any]


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
        self._attempt = 0

    def run(self, send: Callable[[Messages], R]) -> R:
        """Send the request, and send a shorter one after each context overflow."""
        messages = self.prepare()
        while True:
            try:
                response = send(messages)
            except Exception as error:
                messages = self.recover(error)
            else:
                self.report(response)
                return response

    async def arun(self, send: Callable[[Messages], Awaitable[R]], *, prepared: Messages | None = None) -> R:
        """Run the call for an async caller. Pass `prepared` if `aprepare` already ran."""
        messages = await self._first_messages(prepared)
        while True:
            try:
                response = await send(messages)
            except Exception as error:
                messages = await self.arecover(error)
            else:
                self.report(response)
                return response

    def stream(self, open_stream: Callable[[Messages], Iterator[R]], *, prepared: Messages) -> Iterator[R]:
        """Yield the events of a streamed response. Report the token counts in it.

        The request is sent again if an overflow is reported before the first content. Until then, the events are held
        back. After that, the consumer has already seen a part of the response.
        """
        messages = prepared
        self._attempt = 0
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
                    self._report_event(event)
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
            return self.manager.preflight(self.session_id, self.messages, **self._preflight_options())

    async def apreflight(self) -> Messages:
        """Async version of `preflight`."""
        with self._scope():
            return await self.manager.apreflight(self.session_id, self.messages, **self._preflight_options())

    def prepare(self) -> Messages:
        """Return the messages to send, which are the caller's own if compaction fails."""
        self._attempt = 0
        try:
            return self.preflight()
        except Exception as error:
            log_failure(error)
            return list(self.messages)

    async def aprepare(self) -> Messages:
        """Async version of `prepare`."""
        self._attempt = 0
        try:
            return await self.apreflight()
        except Exception as error:
            log_failure(error)
            return list(self.messages)

    def recover(self, error: Exception) -> Messages:
        """Return a shorter request after a context overflow.

        Raise `error` itself if it is anything else, or if the request cannot be shortened any further.
        """
        self._count_attempt(error)
        try:
            with self._scope():
                return self.manager.recover(self.session_id, self.messages, error, attempt=self._attempt)
        except CompactError as reason:
            raise error from reason

    async def arecover(self, error: Exception) -> Messages:
        """Async version of `recover`."""
        self._count_attempt(error)
        try:
            with self._scope():
                return await self.manager.arecover(self.session_id, self.messages, error, attempt=self._attempt)
        except CompactError as reason:
            raise error from reason

    def report(self, response: Any) -> None:
        """Report the token counts of a response, if it has any, to correct later estimates."""
        usage = self._read_usage(response)
        if usage is not None:
            report_usage(self.manager, self.session_id, usage)

    def _preflight_options(self) -> CallOptions:
        # A running agent must not stop because one turn and one tool pair do not fit, unless the policy says so.
        return {"floor": "newest", **self._options()}

    def _report_event(self, event: Any) -> None:
        response = response_of(event)
        if response is not None:
            self.report(response)

    async def _first_messages(self, prepared: Messages | None) -> Messages:
        self._attempt = 0
        return await self.aprepare() if prepared is None else prepared

    def _count_attempt(self, error: Exception) -> None:
        if not is_context_length_error(error):
            raise error
        self._attempt += 1


def report_usage(manager: CompactManager, session_id: str, usage: Any) -> None:
    """Report a provider's token counts. Log a failure instead of raising it."""
    try:
        manager.report_usage(session_id, usage)
    except Exception as error:
        say("compact", f"Could not read the provider's token usage: {type(error).__name__}: {error}")


def log_failure(error: Exception) -> None:
    """Write one line to stderr about a failed compaction."""
    say("compact", f"Compaction failed, sending the request unchanged: {type(error).__name__}: {error}")
