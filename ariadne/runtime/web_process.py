"""One web process: daphne, and a way out that drops nothing.

Asked to stop, it takes no new connection, finishes every request that it has taken, tells open pages to come back (they
resume by sequence number on another process), and only then ends. It also says when it serves, so that a supervisor can
replace processes one by one.
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
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from weakref import WeakSet

from daphne.server import Server
from daphne.ws_protocol import WebSocketProtocol

APPLICATION = "ariadne.asgi:application"
# Longer than the writer's own limit for a commit, shorter than any supervisor's patience.
DRAIN_TIMEOUT_S = 15.0
# A keep-alive connection may hold a request that is still on the wire: so long must it have been quiet.
QUIET_S = 0.3
MAX_FRAME_BYTES = 4 * 1024 * 1024
_TICK_S = 0.02
_GOING_AWAY = 1012  # RFC 6455's registry: service restart, come back

Message = MutableMapping[str, Any]
Application = Callable[..., Awaitable[None]]


class WebProcess(Server):  # type: ignore[misc]
    """daphne's server with a ready signal and a drain. `run()` returns when it has stopped."""

    def __init__(self, application: Application, endpoint: str, *, ready_fd: int | None = None) -> None:
        self._ready_fd = ready_fd
        self._ports: list[Any] = []
        self._channels: WeakSet[Any] = WeakSet()
        self._is_draining = False
        super().__init__(
            self._closing(application),
            endpoints=[endpoint],
            signal_handlers=False,
            ready_callable=self._ready,
            verbosity=0,
            server_name="",
            http_timeout=None,
            # Counts for what is sent too. The largest frame is a thousand rows; ids and names are the agents' own.
            websocket_max_message_size=MAX_FRAME_BYTES,
            websocket_max_frame_size=MAX_FRAME_BYTES,
        )

    def listen_success(self, port: Any) -> None:
        super().listen_success(port)
        self._ports.append(port)
        _accept_one_by_one(port)

    def _ready(self) -> None:
        build = self.http_factory.buildProtocol

        def remembered(address: Any) -> Any:
            protocol = build(address)
            # Twisted wraps the channel, so that HTTP/2 could be chosen; the requests are the inner one's.
            self._channels.add(protocol._channel)
            return protocol

        self.http_factory.buildProtocol = remembered
        loop = asyncio.get_event_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._begin_drain)
        loop.call_soon(self._say_ready)

    def _say_ready(self) -> None:
        if self._ready_fd is not None:
            # Whoever asked may have gone on without waiting.
            with contextlib.suppress(BrokenPipeError):
                os.write(self._ready_fd, b"ready")
            os.close(self._ready_fd)

    def _begin_drain(self) -> None:
        # A second signal means now.
        if self._is_draining:
            self.stop()
            return
        self._is_draining = True
        self._drain_task = asyncio.ensure_future(self._drain())

    async def _drain(self) -> None:
        for port in self._ports:
            port.stopListening()
        for protocol in list(self.connections):
            # The public way to close takes only an application's own codes.
            if getattr(protocol, "state", None) == WebSocketProtocol.STATE_OPEN:
                protocol.sendCloseFrame(code=_GOING_AWAY)
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        last_busy = time.monotonic()
        while time.monotonic() < deadline and time.monotonic() - last_busy < QUIET_S:
            if self._is_busy():
                last_busy = time.monotonic()
            await asyncio.sleep(_TICK_S)
        self.stop()

    def _is_busy(self) -> bool:
        """Whether a request is being read, worked on or answered."""
        return any(_is_open(request) for channel in self._channels for request in channel.requests)

    def _closing(self, application: Application) -> Application:
        """The application, whose answers end their connections while draining."""

        async def serve(scope: Any, receive: Any, send: Any) -> None:
            async def closing(message: Message) -> None:
                if self._is_draining and message["type"] == "http.response.start":
                    message = {**message, "headers": [*message.get("headers", []), (b"Connection", b"close")]}
                    self._end_connections()
                await send(message)

            await application(scope, receive, closing if scope["type"] == "http" else send)

        return serve

    def _end_connections(self) -> None:
        for channel in self._channels:
            if channel.requests:
                channel.persistent = 0


def _accept_one_by_one(port: Any) -> None:
    """Leave waiting connections to the other processes of the socket: Twisted would take a hundred at a time."""
    accept = port.doRead

    def accept_one() -> None:
        port.numberAccepts = 1
        accept()

    port.doRead = accept_one


def _is_open(request: Any) -> bool:
    # A lost connection has no channel; a request that became a websocket gave its transport away.
    return request.channel is not None and request.transport is not None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m ariadne.runtime.web_process", description=__doc__)
    parser.add_argument("application", nargs="?", default=APPLICATION, help="module:name of another ASGI application")
    parser.add_argument("--bind", metavar="HOST:PORT", default="127.0.0.1:8000", help="listen here")
    parser.add_argument("--fd", type=int, help="listen on this inherited socket instead")
    parser.add_argument("--ready-fd", type=int, help="write a word to this descriptor once requests are taken")
    options = parser.parse_args(arguments)
    host, _, port = options.bind.rpartition(":")
    if not host or not port.isdigit():
        parser.error(f"--bind {options.bind}: give host:port")
    endpoint = f"tcp:port={port}:interface={host}" if options.fd is None else f"fd:fileno={options.fd}"
    module, _, name = options.application.partition(":")
    application = getattr(importlib.import_module(module), name)
    WebProcess(application, endpoint, ready_fd=options.ready_fd).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
