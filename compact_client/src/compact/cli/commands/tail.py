"""The tail command: follow live events from the server."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from compact.cli import exit_codes, extras, output
from compact.cli.terminal import escape_line
from compact.delivery.endpoint import server_url, without_credentials

# Close codes of the server that a retry would not change.
_REJECTIONS = {4401: "invalid API token", 4403: "this token does not have permission to tail", 4404: "unknown project"}
_MAX_DELAY_S = 5.0


def tail(options: argparse.Namespace) -> int:
    """Print events until interrupted, or until `--count` events were printed."""
    token = options.token or os.environ.get("ARIADNE_API_TOKEN")
    if not token:
        raise exit_codes.Stop(exit_codes.USAGE, "tail needs an API token. Set ARIADNE_API_TOKEN or use --token.")
    extras.require("websockets", extra="cli")
    if not options.json:
        output.console()
    return asyncio.run(_Tail(options, token).run())


class _Tail:
    """A websocket that reconnects after the last received event, so that no event is missed."""

    def __init__(self, options: argparse.Namespace, token: str) -> None:
        self._url = server_url(options.url, "/ws/tail/").replace("http", "ws", 1)
        self._filters = {name: getattr(options, name) for name in ("session", "kind", "status", "q", "project")}
        self._headers = {"Authorization": f"Bearer {token}"}
        self._is_json = options.json
        self._last_seq = options.after
        self._remaining = options.count
        self._failures = 0

    async def run(self) -> int:
        while not await self._try_connection():
            self._failures += 1
            await asyncio.sleep(min(_MAX_DELAY_S, 0.2 * 2**self._failures))
        return exit_codes.OK

    async def _try_connection(self) -> bool:
        """Print the events of one connection. Return True if the requested number was printed."""
        from websockets.exceptions import ConnectionClosed, InvalidHandshake

        try:
            return await self._print_events()
        except ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd else 0
            if code in _REJECTIONS:
                message = f"The server rejected the connection: {_REJECTIONS[code]}."
                raise exit_codes.Stop(exit_codes.UNREACHABLE, message) from None
        except InvalidHandshake as error:
            message = f"The server rejected the connection: {error}"
            raise exit_codes.Stop(exit_codes.UNREACHABLE, message) from None
        except OSError as error:
            if self._failures == 0 and self._last_seq is None:
                message = f"Cannot reach {without_credentials(self._url)}: {error}"
                raise exit_codes.Stop(exit_codes.UNREACHABLE, message) from None
        return False

    async def _print_events(self) -> bool:
        from websockets.asyncio.client import connect

        parameters = {**self._filters, "after": self._last_seq}
        query = urlencode({name: value for name, value in parameters.items() if value is not None})
        async with connect(f"{self._url}?{query}", additional_headers=self._headers) as socket:
            self._failures = 0
            async for text in socket:
                if self._print_frame(json.loads(text)):
                    return True
                await socket.send("ack")
        return False

    def _print_frame(self, frame: dict[str, Any]) -> bool:
        """Print the events of a frame. Return True if the requested number was printed."""
        self._last_seq = frame.get("seq", self._last_seq)
        for event in frame.get("events", ()):
            if self._is_json:
                output.line(event)
            else:
                _print(event)
            if self._remaining is not None:
                self._remaining -= 1
                if self._remaining <= 0:
                    return True
        return False


def _print(event: dict[str, Any]) -> None:
    at = datetime.fromtimestamp((event.get("at") or 0) / 1000, UTC).astimezone()
    line = output.style(f"{at:%H:%M:%S.%f}"[:-3], "dim")
    line.append(f"  {escape_line(event['session'])}  ", style="dim")
    line.append(f"{escape_line(event['kind']):<26}", style=_style(event))
    line.append(f" {escape_line(event.get('text') or event.get('name') or '')}")
    output.console().print(line)


def _style(event: dict[str, Any]) -> str:
    if event.get("status") == "error":
        return "red"
    return "magenta" if event["kind"].startswith("compact.") else "cyan"
