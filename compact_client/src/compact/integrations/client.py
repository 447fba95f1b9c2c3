"""Base class for wrappers of provider clients."""

from __future__ import annotations

from typing import Any

from compact.integrations.model_call import CallOptions, Messages, ModelCall
from compact.manager import CompactManager


class CompactingClient:
    """A provider client whose requests are checked against the context window.

    A request that the provider rejects as too long is shortened and sent again. The caller's list is never changed.
    """

    def __init__(self, client: Any, manager: CompactManager, *, session_id: str) -> None:
        self._client = client
        self.manager = manager
        self.session_id = session_id

    def create(self, **arguments: Any) -> Any:
        """Call the client's `create` with the same arguments."""
        return self._model_call(arguments).run(lambda messages: self._send(arguments, messages))

    async def acreate(self, **arguments: Any) -> Any:
        """Call the `create` of an async client."""
        return await self._model_call(arguments).arun(lambda messages: self._send(arguments, messages))

    def _model_call(self, arguments: dict[str, Any]) -> ModelCall:
        messages = arguments["messages"]
        return ModelCall(self.manager, self.session_id, messages, options=lambda: self._options(arguments))

    def _options(self, arguments: dict[str, Any]) -> CallOptions:
        """Return the parts of a request that take up space next to the messages."""
        raise NotImplementedError

    def _send(self, arguments: dict[str, Any], messages: Messages) -> Any:
        """Call the client with the given messages instead of the caller's."""
        raise NotImplementedError
