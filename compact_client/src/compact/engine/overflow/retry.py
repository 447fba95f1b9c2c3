"""Send a request, and send a shorter one after each context overflow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from compact.engine.overflow.errors import is_context_length_error
from compact.exceptions import CompactError

R = TypeVar("R")
Messages = list[Any]
Recover = Callable[[Exception, int], Messages]
"""Returns a shorter request, given the provider's error and the number of the attempt."""
AsyncRecover = Callable[[Exception, int], Awaitable[Messages]]


class Retries:
    """The retries of one model call, counted from 1."""

    def __init__(self) -> None:
        self._attempt = 0

    def run(self, messages: Messages, send: Callable[[Messages], R], recover: Recover) -> R:
        """Send until the provider accepts the request."""
        while True:
            try:
                return send(messages)
            except Exception as error:
                messages = self.recover(error, recover)

    async def arun(self, messages: Messages, send: Callable[[Messages], Awaitable[R]], recover: AsyncRecover) -> R:
        """Async version of `run`."""
        while True:
            try:
                return await send(messages)
            except Exception as error:
                messages = await self.arecover(error, recover)

    def recover(self, error: Exception, recover: Recover) -> Messages:
        """Return a shorter request. Raise the provider's own error if there is none, or if it is no overflow."""
        attempt = self._next_attempt(error)
        try:
            return recover(error, attempt)
        except CompactError as reason:
            raise error from reason

    async def arecover(self, error: Exception, recover: AsyncRecover) -> Messages:
        """Async version of `recover`."""
        attempt = self._next_attempt(error)
        try:
            return await recover(error, attempt)
        except CompactError as reason:
            raise error from reason

    def _next_attempt(self, error: Exception) -> int:
        if not is_context_length_error(error):
            raise error
        self._attempt += 1
        return self._attempt
