"""Anthropic messages with compaction.

    messages = AnthropicMessages(anthropic.Anthropic(), manager, session_id="s1")
    response = messages.create(model="claude-opus-4-6", max_tokens=1_000, system=system, messages=history)

It has the methods of the client's own `messages`. For the beta API, pass `client.beta` instead of the client. This
module does not import the package `anthropic`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Literal, overload

from compact.integrations.client import C, CompactingClient
from compact.integrations.model_api import ANTHROPIC
from compact.integrations.model_call import Messages
from compact.integrations.recall_call import DESCRIPTION, PARAMETERS, TOOL_NAME, RecallCall, RecallTool
from compact.manager import CompactManager

if TYPE_CHECKING:
    from anthropic import Anthropic, AsyncAnthropic, AsyncStream, Stream
    from anthropic.lib.streaming import AsyncMessageStreamManager, MessageStreamManager
    from anthropic.types import Message, MessageParam, RawMessageStreamEvent

_OPENING = {"role": "user", "content": "(The conversation so far is summarized below.)"}


def recall_tool(
    manager: CompactManager,
    session_id: str | Callable[[], str],
    *,
    name: str = TOOL_NAME,
    limit: int = 5,
    max_tokens: int = 2_000,
) -> RecallTool:
    """Return a tool for `tools=[…]` with which the model can search in its own past.

    Answer a `tool_use` block with `tool.run(block.input)`.
    """
    definition = {"name": name, "description": DESCRIPTION, "input_schema": dict(PARAMETERS)}
    call = RecallCall(manager, name=name, limit=limit, max_tokens=max_tokens)
    return RecallTool(definition, call, session_id)


class AnthropicMessages(CompactingClient[C]):
    """The client's `messages`, with compaction. The client may be sync or async."""

    _api = ANTHROPIC

    def _resource(self) -> Any:
        return self._client.messages

    def _valid_items(self, items: Messages) -> Messages:
        # The API requires a user message first, but the summary is an assistant message.
        if items and items[0].get("role") == "assistant":
            return [_OPENING, *items]
        return items

    if TYPE_CHECKING:

        @overload
        def create(
            self: AnthropicMessages[Anthropic],
            *,
            model: str,
            max_tokens: int,
            messages: Iterable[MessageParam],
            stream: Literal[True],
            protected: Collection[int] = (),
            **arguments: Any,
        ) -> Stream[RawMessageStreamEvent]: ...
        @overload
        def create(
            self: AnthropicMessages[Anthropic],
            *,
            model: str,
            max_tokens: int,
            messages: Iterable[MessageParam],
            stream: Literal[False] = False,
            protected: Collection[int] = (),
            **arguments: Any,
        ) -> Message: ...
        @overload
        def create(
            self: AnthropicMessages[AsyncAnthropic],
            *,
            model: str,
            max_tokens: int,
            messages: Iterable[MessageParam],
            stream: Literal[True],
            protected: Collection[int] = (),
            **arguments: Any,
        ) -> Coroutine[Any, Any, AsyncStream[RawMessageStreamEvent]]: ...
        @overload
        def create(
            self: AnthropicMessages[AsyncAnthropic],
            *,
            model: str,
            max_tokens: int,
            messages: Iterable[MessageParam],
            stream: Literal[False] = False,
            protected: Collection[int] = (),
            **arguments: Any,
        ) -> Coroutine[Any, Any, Message]: ...
        @overload
        def create(self, **arguments: Any) -> Any: ...
        def create(self, **arguments: Any) -> Any: ...

        @overload
        def stream(
            self: AnthropicMessages[Anthropic],
            *,
            model: str,
            max_tokens: int,
            messages: Iterable[MessageParam],
            protected: Collection[int] = (),
            **arguments: Any,
        ) -> MessageStreamManager[Any]: ...
        @overload
        def stream(
            self: AnthropicMessages[AsyncAnthropic],
            *,
            model: str,
            max_tokens: int,
            messages: Iterable[MessageParam],
            protected: Collection[int] = (),
            **arguments: Any,
        ) -> AsyncMessageStreamManager[Any]: ...
        @overload
        def stream(self, **arguments: Any) -> Any: ...
        def stream(self, **arguments: Any) -> Any: ...
