"""OpenAI chat completions and responses with compaction.

    chat = ChatCompletions(openai.OpenAI(), manager, session_id="s1")
    response = chat.create(model="gpt-5", messages=history, tools=tools)

    responses = Responses(openai.AsyncOpenAI(), manager, session_id="s1")
    response = await responses.create(model="gpt-5", input=history)

Both have the methods of the client's own `chat.completions` and `responses`. This module does not import the package
`openai`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from compact.integrations.client import C, CompactingClient
from compact.integrations.model_api import CHAT, RESPONSES
from compact.integrations.recall_call import DESCRIPTION, PARAMETERS, TOOL_NAME, RecallCall, RecallTool
from compact.manager import CompactManager

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream, OpenAI, Stream
    from openai.lib.streaming.chat import AsyncChatCompletionStreamManager, ChatCompletionStreamManager
    from openai.lib.streaming.responses import AsyncResponseStreamManager, ResponseStreamManager
    from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessageParam, ParsedChatCompletion
    from openai.types.responses import ParsedResponse, Response, ResponseInputParam, ResponseStreamEvent

T = TypeVar("T")


def recall_tool(
    manager: CompactManager,
    session_id: str | Callable[[], str],
    *,
    api: Literal["chat", "responses"] = "chat",
    name: str = TOOL_NAME,
    limit: int = 5,
    max_tokens: int = 2_000,
) -> RecallTool:
    """Return a tool for `tools=[…]` with which the model can search in its own past.

    Answer a call with `tool.run(call.function.arguments)`, or `tool.run(call.arguments)` of the Responses API.
    """
    function = {"name": name, "description": DESCRIPTION, "parameters": dict(PARAMETERS), "strict": True}
    definition = {"type": "function", "function": function} if api == "chat" else {"type": "function", **function}
    call = RecallCall(manager, name=name, limit=limit, max_tokens=max_tokens)
    return RecallTool(definition, call, session_id)


class ChatCompletions(CompactingClient[C]):
    """The client's `chat.completions`, with compaction. The client may be sync or async."""

    _api = CHAT

    def _resource(self) -> Any:
        return self._client.chat.completions

    if TYPE_CHECKING:

        @overload
        def create(
            self: ChatCompletions[OpenAI],
            *,
            model: str,
            messages: Iterable[ChatCompletionMessageParam],
            stream: Literal[True],
            protected: Collection[int] = (),
            **arguments: Any,
        ) -> Stream[ChatCompletionChunk]: ...
        @overload
        def create(
            self: ChatCompletions[OpenAI],
            *,
            model: str,
            messages: Iterable[ChatCompletionMessageParam],
            stream: Literal[False] | None = None,
            protected: Collection[int] = (),
            **arguments: Any,
        ) -> ChatCompletion: ...
        @overload
        def create(
            self: ChatCompletions[AsyncOpenAI],
            *,
            model: str,
            messages: Iterable[ChatCompletionMessageParam],
            stream: Literal[True],
            protected: Collection[int] = (),
            **arguments: Any,
        ) -> Coroutine[Any, Any, AsyncStream[ChatCompletionChunk]]: ...
        @overload
        def create(
            self: ChatCompletions[AsyncOpenAI],
            *,
            model: str,
            messages: Iterable[ChatCompletionMessageParam],
            stream: Literal[False] | None = None,
            protected: Collection[int] = (),
            **arguments: Any,
        ) -> Coroutine[Any, Any, ChatCompletion]: ...
        @overload
        def create(self, **arguments: Any) -> Any: ...
        def create(self, **arguments: Any) -> Any: ...

        @overload
        def parse(
            self: ChatCompletions[OpenAI],
            *,
            model: str,
            messages: Iterable[ChatCompletionMessageParam],
            response_format: type[T],
            protected: Collection[int] = (),
            **arguments: Any,
        ) -> ParsedChatCompletion[T]: ...
        @overload
        def parse(
            self: ChatCompletions[AsyncOpenAI],
            *,
            model: str,
            messages: Iterable[ChatCompletionMessageParam],
            response_format: type[T],
            protected: Collection[int] = (),
            **arguments: Any,
        ) -> Coroutine[Any, Any, ParsedChatCompletion[T]]: ...
        @overload
        def parse(self, **arguments: Any) -> Any: ...
        def parse(self, **arguments: Any) -> Any: ...

        @overload
        def stream(
            self: ChatCompletions[OpenAI],
            *,
            model: str,
            messages: Iterable[ChatCompletionMessageParam],
            protected: Collection[int] = (),
            **arguments: Any,
        ) -> ChatCompletionStreamManager[Any]: ...
        @overload
        def stream(
            self: ChatCompletions[AsyncOpenAI],
            *,
            model: str,
            messages: Iterable[ChatCompletionMessageParam],
            protected: Collection[int] = (),
            **arguments: Any,
        ) -> AsyncChatCompletionStreamManager[Any]: ...
        @overload
        def stream(self, **arguments: Any) -> Any: ...
        def stream(self, **arguments: Any) -> Any: ...


class Responses(CompactingClient[C]):
    """The client's `responses`, with compaction. The client may be sync or async.

    A request with `previous_response_id` or `conversation` contains only the new items, so it is sent unchanged.
    """

    _api = RESPONSES

    def _resource(self) -> Any:
        return self._client.responses

    if TYPE_CHECKING:

        @overload
        def create(
            self: Responses[OpenAI],
            *,
            model: str,
            input: str | ResponseInputParam,
            stream: Literal[True],
            protected: Collection[int] = (),
            **arguments: Any,
        ) -> Stream[ResponseStreamEvent]: ...
        @overload
        def create(
            self: Responses[OpenAI],
            *,
            model: str,
            input: str | ResponseInputParam,
            stream: Literal[False] | None = None,
            protected: Collection[int] = (),
            **arguments: Any,
        ) -> Response: ...
        @overload
        def create(
            self: Responses[AsyncOpenAI],
            *,
            model: str,
            input: str | ResponseInputParam,
            stream: Literal[True],
            protected: Collection[int] = (),
            **arguments: Any,
        ) -> Coroutine[Any, Any, AsyncStream[ResponseStreamEvent]]: ...
        @overload
        def create(
            self: Responses[AsyncOpenAI],
            *,
            model: str,
            input: str | ResponseInputParam,
            stream: Literal[False] | None = None,
            protected: Collection[int] = (),
            **arguments: Any,
        ) -> Coroutine[Any, Any, Response]: ...
        @overload
        def create(self, **arguments: Any) -> Any: ...
        def create(self, **arguments: Any) -> Any: ...

        @overload
        def parse(
            self: Responses[OpenAI],
            *,
            model: str,
            input: str | ResponseInputParam,
            text_format: type[T],
            protected: Collection[int] = (),
            **arguments: Any,
        ) -> ParsedResponse[T]: ...
        @overload
        def parse(
            self: Responses[AsyncOpenAI],
            *,
            model: str,
            input: str | ResponseInputParam,
            text_format: type[T],
            protected: Collection[int] = (),
            **arguments: Any,
        ) -> Coroutine[Any, Any, ParsedResponse[T]]: ...
        @overload
        def parse(self, **arguments: Any) -> Any: ...
        def parse(self, **arguments: Any) -> Any: ...

        @overload
        def stream(
            self: Responses[OpenAI],
            *,
            model: str,
            input: str | ResponseInputParam,
            protected: Collection[int] = (),
            **arguments: Any,
        ) -> ResponseStreamManager[Any]: ...
        @overload
        def stream(
            self: Responses[AsyncOpenAI],
            *,
            model: str,
            input: str | ResponseInputParam,
            protected: Collection[int] = (),
            **arguments: Any,
        ) -> AsyncResponseStreamManager[Any]: ...
        @overload
        def stream(self, **arguments: Any) -> Any: ...
        def stream(self, **arguments: Any) -> Any: ...
