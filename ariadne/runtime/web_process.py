"""Run one web process: daphne with a readiness signal and a graceful shutdown.

On SIGTERM it stops accepting connections, finishes open requests, asks websocket clients to reconnect (they resume by
sequence number on another process), and exits. It reports readiness so that the supervisor can restart processes one
by one, and then once per second that its event loop is alive.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from typing import Any
from weakref import WeakSet

from daphne.server import Server
from daphne.ws_protocol import WebSocketProtocol

from ariadne.runtime import descriptors
from ariadne.runtime.loop_monitor import LoopMonitor
from ariadne.runtime.socket_transport import SocketTransport

READY = b"ready"
APPLICATION = "ariadne.asgi:application"
# Longer than the writer's commit timeout, shorter than the supervisor's stop timeout.
DRAIN_TIMEOUT_S = 15.0
# A keep-alive connection may have a request on the wire, so wait until all have been idle this long.
QUIET_S = 0.3
MAX_FRAME_BYTES = 4 * 1024 * 1024
# Daphne passes a body to the application in pieces. With its default of 8 kB, a body of 270 kB is 34 messages.
_BODY_PIECE_BYTES = 1024 * 1024
_TICK_S = 0.02
# A websocket client that reads slowly gets this long to read why it was closed.
_CLOSE_TIMEOUT_S = 10
# `viewer.live.flow_control` reads the connection of a websocket from this extension.
_TRANSPORT_EXTENSION = "ariadne.transport"
_SERVICE_RESTART = 1012  # websocket close code registered for RFC 6455: the client should reconnect

Message = MutableMapping[str, Any]
Application = Callable[..., Awaitable[None]]


class WebProcess(Server):  # type: ignore[misc]
    """A daphne server with a readiness signal and graceful shutdown. `run()` returns after the shutdown."""

    def __init__(
        self,
        application: Application,
        endpoint: str,
        *,
        ready_fd: int | None = None,
        stacks_fd: int | None = None,
        lifespan: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        """`lifespan` is entered before the first request and left after the last."""
        self._ready_fd = ready_fd
        self._stacks_fd = stacks_fd
        self._lifespan = lifespan
        self._running = AsyncExitStack()
        self.exit_code = 0
        self._ports: list[Any] = []
        self._channels: WeakSet[Any] = WeakSet()
        self._is_draining = False
        super().__init__(
            self._close_after_response(application),
            endpoints=[endpoint],
            signal_handlers=False,
            ready_callable=self._ready,
            verbosity=0,
            server_name="",
            http_timeout=None,
            request_buffer_size=_BODY_PIECE_BYTES,
            # The limit applies to outgoing messages too. The largest has a thousand rows with names from agents.
            websocket_max_message_size=MAX_FRAME_BYTES,
            websocket_max_frame_size=MAX_FRAME_BYTES,
        )

    def listen_success(self, port: Any) -> None:
        super().listen_success(port)
        self._ports.append(port)
        descriptors.accept_when_free(port)

    def create_application(self, protocol: Any, scope: MutableMapping[str, Any]) -> Any:
        if scope["type"] == "websocket":
            scope["extensions"] = {_TRANSPORT_EXTENSION: SocketTransport(protocol.transport)}
        return super().create_application(protocol, scope)

    def _ready(self) -> None:
        # Not with setProtocolOptions, which resets the options that it does not get.
        self.ws_factory.closeHandshakeTimeout = _CLOSE_TIMEOUT_S
        build = self.http_factory.buildProtocol

        def build_and_track(address: Any) -> Any:
            protocol = build(address)
            # Twisted wraps the channel to negotiate HTTP/2. The inner channel has the requests.
            self._channels.add(protocol._channel)
            return protocol

        self.http_factory.buildProtocol = build_and_track
        loop = asyncio.get_event_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._begin_drain)
        self._start_task = loop.create_task(self._start())

    async def _start(self) -> None:
        try:
            await self._running.enter_async_context(self._lifespan())
        except Exception:
            self.exit_code = 1
            # A terminal that takes no lines must not keep the process from exiting.
            with contextlib.suppress(OSError):
                traceback.print_exc()
            self.stop()
            return
        if self._ready_fd is not None:
            # The supervisor may have stopped waiting.
            with contextlib.suppress(BrokenPipeError):
                os.write(self._ready_fd, READY)
        LoopMonitor(asyncio.get_running_loop(), self._ready_fd, self._stacks_fd)

    def _begin_drain(self) -> None:
        # A second signal stops immediately.
        if self._is_draining:
            self.stop()
            return
        self._is_draining = True
        self._drain_task = asyncio.ensure_future(self._drain())

    async def _drain(self) -> None:
        for port in self._ports:
            port.stopListening()
        for protocol in list(self.connections):
            # The public close method accepts only application codes.
            if getattr(protocol, "state", None) == WebSocketProtocol.STATE_OPEN:
                protocol.sendCloseFrame(code=_SERVICE_RESTART)
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        last_busy = time.monotonic()
        while time.monotonic() < deadline and time.monotonic() - last_busy < QUIET_S:
            if self._is_busy():
                last_busy = time.monotonic()
            await asyncio.sleep(_TICK_S)
        await self._running.aclose()
        self.stop()

    def _is_busy(self) -> bool:
        """Return True while a request is being read, processed or answered."""
        return any(_is_open(request) for channel in self._channels for request in channel.requests)

    def _close_after_response(self, application: Application) -> Application:
        """Wrap the application so that its responses close their connections during shutdown."""

        async def serve(scope: Any, receive: Any, send: Any) -> None:
            async def send_and_close(message: Message) -> None:
                if self._is_draining and message["type"] == "http.response.start":
                    message = {**message, "headers": [*message.get("headers", []), (b"Connection", b"close")]}
                    self._end_connections()
                await send(message)

            await application(scope, receive, send_and_close if scope["type"] == "http" else send)

        return serve

    def _end_connections(self) -> None:
        for channel in self._channels:
            if channel.requests:
                channel.persistent = 0


def _is_open(request: Any) -> bool:
    # A lost connection has no channel. A request that was upgraded to a websocket has no transport.
    return request.channel is not None and request.transport is not None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m ariadne.runtime.web_process", description=__doc__)
    parser.add_argument(
        "application", nargs="?", default=APPLICATION, help="module:name of the ASGI application (default: %(default)s)"
    )
    parser.add_argument("--bind", metavar="HOST:PORT", default="127.0.0.1:8000", help="address to listen on")
    parser.add_argument("--fd", type=int, help="listen on this inherited socket instead")
    parser.add_argument(
        "--ready-fd", type=int, help="write to this pipe once the process accepts requests, and then every second"
    )
    parser.add_argument("--stacks-fd", type=int, help="write the stacks of all threads to this file on SIGQUIT")
    options = parser.parse_args(arguments)
    descriptors.raise_limit()
    host, _, port = options.bind.rpartition(":")
    if not host or not port.isdigit():
        parser.error(f"--bind {options.bind}: use HOST:PORT")
    endpoint = f"tcp:port={port}:interface={host}" if options.fd is None else f"fd:fileno={options.fd}"
    module, _, name = options.application.partition(":")
    loaded = importlib.import_module(module)
    lifespan = getattr(loaded, "lifespan", nullcontext)
    fds = {"ready_fd": options.ready_fd, "stacks_fd": options.stacks_fd}
    server = WebProcess(getattr(loaded, name), endpoint, lifespan=lifespan, **fds)
    server.run()
    return server.exit_code


if __name__ == "__main__":
    sys.exit(main())
