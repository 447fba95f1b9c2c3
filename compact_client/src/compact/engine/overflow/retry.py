"""Send a request, and send a shorter one after each context overflow. Steps for sync and async callers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from compact.engine.effects import Steps
from compact.engine.overflow.errors import is_context_length_error
from compact.exceptions import CompactError

Messages = list[Any]
Recover = Callable[[Exception, int], Steps[Messages]]
"""Returns a shorter request, given the provider's error and the number of the attempt."""


class Retries:
    """The retries of one model call, counted from 1."""

    def __init__(self) -> None:
        self._attempt = 0

    def send(self, messages: Messages, send: Callable[[Messages], Any], recover: Recover) -> Steps[Any]:
        """Send until the provider accepts the request. Return its response."""
        while True:
            try:
                return (yield partial(send, messages))
            except Exception as error:
                messages = yield from self.recover(error, recover)

    def recover(self, error: Exception, recover: Recover) -> Steps[Messages]:
        """Return a shorter request. Raise the provider's own error if there is none, or if it is no overflow."""
        if not is_context_length_error(error):
            raise error
        self._attempt += 1
        try:
            return (yield from recover(error, self._attempt))
        except CompactError as reason:
            raise error from reason
