"""Base class for wrappers of provider clients.

The clients of OpenAI and Anthropic send every request of a resource, such as `client.chat.completions`, through the
resource's `_post`. A wrapper has its own instance of that resource, and the `_post` of this instance compacts. So all
methods of the resource (`create`, `parse`, `stream`, `with_raw_response` and so on) work and return the client's own
types.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from compact.integrations.model_api import ModelApi
from compact.integrations.model_call import CallOptions, Messages, ModelCall, usage_of, warn_once
from compact.manager import CompactManager

C = TypeVar("C")
Body = Mapping[str, Any]


class CompactingClient(Generic[C]):
    """A provider client whose requests are checked against the context window.

    A request that the provider rejects as too long is shortened and sent again. The caller's list is never changed.
    Methods and attributes that do not send messages are those of the client.
    """

    _api: ClassVar[ModelApi]

    def __init__(self, client: C, manager: CompactManager, *, session_id: str) -> None:
        self._client: Any = client
        self.manager = manager
        self.session_id = session_id

    def create(self, *, protected: Collection[int] = (), **arguments: Any) -> Any:
        """Call the client's `create` with the same arguments. The result of an async client is awaitable.

        `protected` are the indexes of messages that a compaction must not remove or change.
        """
        return self._bind(protected).create(**arguments)

    async def acreate(self, *, protected: Collection[int] = (), **arguments: Any) -> Any:
        """Call the `create` of an async client."""
        return await self._bind(protected).create(**arguments)

    def stream(self, *, protected: Collection[int] = (), **arguments: Any) -> Any:
        """Call the client's `stream`, which returns a context manager."""
        return self._bind(protected).stream(**arguments)

    def parse(self, *, protected: Collection[int] = (), **arguments: Any) -> Any:
        """Call the client's `parse`. The result of an async client is awaitable."""
        return self._bind(protected).parse(**arguments)

    @property
    def with_raw_response(self) -> Any:
        """The client's `with_raw_response`. Its methods take `protected` too."""
        return _Variant(lambda protected: self._bind(protected).with_raw_response)

    @property
    def with_streaming_response(self) -> Any:
        """The client's `with_streaming_response`. Its methods take `protected` too."""
        return _Variant(lambda protected: self._bind(protected).with_streaming_response)

    def __getattr__(self, name: str) -> Any:
        # Only names without a definition here arrive: `count_tokens`, `retrieve`, `batches` and so on.
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._bind(()), name)

    def _resource(self) -> Any:
        """Return the part of the client that this class wraps."""
        raise NotImplementedError

    def _valid_items(self, items: Messages) -> Messages:
        """Return the messages as the provider's rules require them."""
        return items

    def _bind(self, protected: Collection[int]) -> Any:
        """Return a new instance of the wrapped resource that compacts."""
        resource = self._resource()
        if not hasattr(resource, "_post"):
            return _PlainResource(self, resource, protected)
        bound = type(resource)(resource._client)
        bound._post = (self._apost if _is_async(resource) else self._post)(bound._post, protected)
        return bound

    def _post(self, post: Callable[..., Any], protected: Collection[int]) -> Callable[..., Any]:
        def compacting_post(path: str, **request: Any) -> Any:
            call, body = self._model_call(path, request.get("body"), protected)

            def send(items: Messages) -> Any:
                return post(path, **{**request, "body": self._replace(body, items)})

            if call is None:
                return post(path, **{**request, "body": body})
            response = call.run(send)
            if request.get("stream") and hasattr(response, "_iterator"):
                _recover_stream(response, call, send)
            return response

        return compacting_post

    def _apost(self, post: Callable[..., Any], protected: Collection[int]) -> Callable[..., Any]:
        async def compacting_post(path: str, **request: Any) -> Any:
            call, body = self._model_call(path, request.get("body"), protected)

            async def send(items: Messages) -> Any:
                return await post(path, **{**request, "body": self._replace(body, items)})

            if call is None:
                return await post(path, **{**request, "body": body})
            response = await call.arun(send)
            if request.get("stream") and hasattr(response, "_iterator"):
                _recover_async_stream(response, call, send)
            return response

        return compacting_post

    def _model_call(self, path: str, body: Any, protected: Collection[int]) -> tuple[ModelCall | None, Any]:
        """Return the call for a request to a model, or None for any other request, and the body to send."""
        if not isinstance(body, Mapping) or self._api.items_key not in body:
            return None, body
        items = body[self._api.items_key]
        if isinstance(items, str):
            items = [{"role": "user", "content": items}]
        if not path.partition("?")[0].endswith(self._api.paths):
            return None, self._replace(body, [_without_meta(item) for item in items])
        if self._api.is_kept_by_server(body):
            self._warn_about_server()
            return None, self._replace(body, [_without_meta(item) for item in items])
        return self._new_call(list(items), body, protected), body

    def _new_call(self, items: Messages, arguments: Body, protected: Collection[int]) -> ModelCall:
        def options() -> CallOptions:
            return {**self._api.read_options(arguments), "protected": protected}

        return ModelCall(self.manager, self.session_id, items, options=options, read_usage=_usage)

    def _replace(self, body: Body, items: Messages) -> dict[str, Any]:
        """Return the request with other messages. Library-only keys never reach the provider."""
        return {**body, self._api.items_key: self._valid_items([_without_meta(item) for item in items])}

    def _warn_about_server(self) -> None:
        message = (
            "The server keeps this conversation (conversation or previous_response_id) and receives only new items, so "
            "there is nothing to compact."
        )
        warn_once(self.manager, self.session_id, "server_managed", message)


class _Variant:
    """The raw or streaming form of a resource, whose methods take `protected` too."""

    def __init__(self, bind: Callable[[Collection[int]], Any]) -> None:
        self._bind = bind

    def __getattr__(self, name: str) -> Any:
        def method(*, protected: Collection[int] = (), **arguments: Any) -> Any:
            return getattr(self._bind(protected), name)(**arguments)

        return method


class _PlainResource:
    """A resource of any other client that has the same `create`."""

    def __init__(self, wrapper: CompactingClient[Any], resource: Any, protected: Collection[int]) -> None:
        self._wrapper = wrapper
        self._wrapped = resource
        self._protected = protected

    def create(self, **arguments: Any) -> Any:
        wrapper, create = self._wrapper, self._wrapped.create
        call = wrapper._new_call(list(arguments[wrapper._api.items_key]), arguments, self._protected)

        def send(items: Messages) -> Any:
            return create(**wrapper._replace(arguments, items))

        return call.arun(send) if _is_async(self._wrapped) else call.run(send)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)


def _is_async(resource: Any) -> bool:
    return inspect.iscoroutinefunction(inspect.unwrap(resource.create))


def _usage(response: Any) -> Any:
    """Return the token counts of a response, also of one from `with_raw_response`."""
    raw = getattr(response, "http_response", None)
    if raw is None:
        return usage_of(response)
    # The body of `with_streaming_response` has not been read yet, and reading it is up to the caller.
    is_json = raw.headers.get("content-type", "").startswith("application/json")
    return raw.json().get("usage") if is_json and raw.is_closed else None


def _without_meta(item: Any) -> Any:
    """Return a message without the key that only this library understands."""
    if isinstance(item, Mapping) and "meta" in item:
        return {key: value for key, value in item.items() if key != "meta"}
    return item


def _recover_stream(stream: Any, call: ModelCall, send: Callable[[Messages], Any]) -> None:
    """Replace the iterator of a client's stream by one that recovers from an overflow and reports usage."""
    iterators: list[Iterator[Any]] = [stream._iterator]
    # The iterator must not keep its own stream alive, so that a dropped stream is closed immediately.
    reference = weakref.ref(stream)

    def open_stream(items: Messages) -> Iterator[Any]:
        if iterators:
            return iterators.pop()
        replacement: Iterator[Any] = send(items)
        if (visible := reference()) is not None:
            visible.response = replacement.response  # type: ignore[attr-defined]
        return replacement

    stream._iterator = call.stream(open_stream, prepared=list(call.messages))


def _recover_async_stream(stream: Any, call: ModelCall, send: Callable[[Messages], Any]) -> None:
    """Async version of `_recover_stream`."""
    iterators = [stream._iterator]
    reference = weakref.ref(stream)

    async def open_stream(items: Messages) -> AsyncIterator[Any]:
        if iterators:
            events = iterators.pop()
        else:
            replacement = await send(items)
            if (visible := reference()) is not None:
                visible.response = replacement.response
            events = replacement
        async for event in events:
            yield event

    stream._iterator = call.astream(open_stream, prepared=list(call.messages))
