"""tail and import: what passes between a terminal and the server."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from compact.cli import exit_codes, output
from compact.delivery.endpoint import server_url, without_credentials
from compact.importers import UnreadableLog, read_conversation, spans_of
from compact.redaction.outbound import OutboundRedactor

_REFUSED = {4401: "no valid API token", 4403: "this token has no right to tail", 4404: "no such project"}


def tail(options: argparse.Namespace) -> int:
    token = options.token or os.environ.get("ARIADNE_API_TOKEN")
    if not token:
        raise exit_codes.Stop(exit_codes.USAGE, "tail needs an API token: --token or ARIADNE_API_TOKEN")
    try:
        import websockets  # noqa: F401
    except ImportError:
        raise exit_codes.Stop(exit_codes.USAGE, "this needs websockets: pip install 'compact-client[cli]'") from None
    if not options.json:
        output.console()
    return asyncio.run(_follow(options, token))


async def _follow(options: argparse.Namespace, token: str) -> int:
    import json

    from websockets.asyncio.client import connect
    from websockets.exceptions import ConnectionClosed, InvalidHandshake

    base = server_url(options.url, "/ws/tail/").replace("http", "ws", 1)
    filters = {name: getattr(options, name) for name in ("session", "kind", "status", "q", "project")}
    seq = options.after
    left = options.count
    failures = 0
    while True:
        query = urlencode({name: value for name, value in {**filters, "after": seq}.items() if value is not None})
        try:
            async with connect(f"{base}?{query}", additional_headers={"Authorization": f"Bearer {token}"}) as socket:
                failures = 0
                async for text in socket:
                    frame = json.loads(text)
                    seq = frame.get("seq", seq)
                    for event in frame.get("events", ()):
                        _print(event, is_json=options.json)
                        if left is not None and (left := left - 1) <= 0:
                            return exit_codes.OK
                    await socket.send("ack")
        except ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd else 0
            if code in _REFUSED:
                raise exit_codes.Stop(exit_codes.UNREACHABLE, f"the server refused: {_REFUSED[code]}") from None
        except InvalidHandshake as error:
            raise exit_codes.Stop(exit_codes.UNREACHABLE, f"the server refused: {error}") from None
        except OSError as error:
            if failures == 0 and seq is None:
                raise exit_codes.Stop(exit_codes.UNREACHABLE, f"{without_credentials(base)}: {error}") from None
        failures += 1
        # After a break, begin where the last frame ended: the server sends what was missed.
        await asyncio.sleep(min(5.0, 0.2 * 2**failures))


def _print(event: dict[str, Any], *, is_json: bool) -> None:
    if is_json:
        output.line(event)
        return
    from rich.text import Text

    at = datetime.fromtimestamp((event.get("at") or 0) / 1000, UTC).astimezone()
    style = "red" if event.get("status") == "error" else "magenta" if event["kind"].startswith("compact.") else "cyan"
    line = Text(f"{at:%H:%M:%S.%f}"[:-3], style="dim")
    line.append(f"  {event['session']}  ", style="dim")
    line.append(f"{event['kind']:<26}", style=style)
    line.append(f" {event.get('text') or event.get('name') or ''}")
    output.console().print(line)


def bring(options: argparse.Namespace) -> int:
    from compact.exporters import AriadneExporter

    files = list(_logs(options.paths))
    if not files:
        raise exit_codes.Stop(exit_codes.UNREADABLE, f"no session logs under {', '.join(options.paths)}")
    if options.session_id and len(files) > 1:
        raise exit_codes.Stop(exit_codes.USAGE, "--session-id needs exactly one log")
    exporter = None if options.dry_run else AriadneExporter(options.url, options.key, spool_dir=None)
    outbound = OutboundRedactor()
    told: list[dict[str, Any]] = []
    for file in _tracked(files, options):
        try:
            conversation = read_conversation(file.read_text(errors="replace"))
        except UnreadableLog as error:
            told.append({"file": str(file), "problem": str(error)})
            continue
        if not conversation.moments:
            told.append({"file": str(file), "problem": "no session log: it tells neither times nor model calls"})
            continue
        session_id = options.session_id or conversation.session_id or file.stem
        count = 0
        for event in spans_of(conversation, session_id=session_id, window_tokens=options.max_tokens):
            count += 1
            if exporter is not None:
                exporter.emit(
                    {**event, **outbound.redact_value({k: event[k] for k in ("data", "payload") if k in event})}
                )
        told.append({"file": str(file), "session": session_id, "source": conversation.source, "events": count})
    sent = exporter.flush(60.0) if exporter is not None else True
    stats = exporter.stats() if exporter is not None else {}
    if exporter is not None:
        exporter.close(0.5)
    if options.json:
        output.document({"logs": told, "sent": stats.get("sent", 0), "rejected": stats.get("rejected", 0)})
    else:
        names = ("source", "session", "events")
        rows = [(*(row.get(name, "") for name in names), row.get("problem") or row["file"]) for row in told]
        output.table("", ("source", "session", "events", "log"), rows, right=(2,))
    if not sent or stats.get("rejected"):
        raise exit_codes.Stop(exit_codes.UNREACHABLE, "not everything was taken by the server; see the lines above")
    return exit_codes.OK if any("session" in row for row in told) else exit_codes.UNREADABLE


def _logs(paths: list[str]) -> Iterator[Path]:
    for name in paths:
        path = Path(name).expanduser()
        if path.is_dir():
            yield from sorted(path.rglob("*.jsonl"))
        else:
            yield path


def _tracked(files: list[Path], options: argparse.Namespace) -> Any:
    if options.json or len(files) < 2 or not sys.stderr.isatty():
        return files
    from rich.progress import track

    return track(files, description="importing", console=output.console(to_stderr=True), transient=True)
