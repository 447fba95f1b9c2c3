"""The websocket of the Responses API, before a strict provider."""

from __future__ import annotations

import json
import threading
from typing import Any

from providers.rejection import Rejection
from providers.server import StrictProvider
from websockets.sync.server import ServerConnection, serve


class SocketServer:
    """Answers messages as the provider answers requests. Other requests than for a websocket are rejected."""

    def __init__(self, provider: StrictProvider) -> None:
        self._provider = provider
        self.extensions: list[Any] = []
        """The extensions of each connection."""
        self._server = serve(self._answer, "127.0.0.1", 0, max_size=None)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.socket.getsockname()[1]}"

    def __enter__(self) -> SocketServer:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._thread.join()

    def _answer(self, connection: ServerConnection) -> None:
        self.extensions.append(connection.protocol.extensions)
        for message in connection:
            body = json.loads(message)
            assert body.pop("type") == "response.create"
            # A connection knows its own responses, whether they are stored or not.
            body["store"] = True
            is_warm_up = body.pop("generate", None) is False
            if is_warm_up:
                body.pop("tools", None)
            reply = self._provider.handle("POST", "/v1/responses", {**body, "stream": True}, {})
            if isinstance(reply, Rejection):
                connection.send(json.dumps({"type": "error", "status": reply.status, **reply.body}))
                continue
            for _, event in reply.events:
                if not is_warm_up or "response" in event:
                    connection.send(json.dumps(event))
