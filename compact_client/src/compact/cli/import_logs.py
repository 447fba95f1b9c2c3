"""The import command: send session logs of other agents to the server."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from compact.cli import exit_codes, output
from compact.exporters import AriadneExporter
from compact.exporters.redaction import RedactingExporter
from compact.importers import UnreadableLog, ingest_events, read_conversation
from compact.redaction.outbound import OutboundRedactor

_FLUSH_TIMEOUT_S = 60.0


def import_logs(options: argparse.Namespace) -> int:
    """Import every log under the given paths and print one row per file."""
    files = list(_log_files(options.paths))
    if not files:
        raise exit_codes.Stop(exit_codes.UNREADABLE, f"No session logs under {', '.join(options.paths)}.")
    if options.session_id and len(files) > 1:
        raise exit_codes.Stop(exit_codes.USAGE, f"--session-id needs exactly one log, but there are {len(files)}.")
    if options.dry_run:
        rows = _import_files(files, options, lambda event: None)
        is_complete, stats = True, {}
    else:
        exporter = AriadneExporter(options.url, options.key, spool_dir=None)
        rows = _import_files(files, options, RedactingExporter(exporter, OutboundRedactor()).emit)
        is_complete = exporter.flush(_FLUSH_TIMEOUT_S)
        stats = exporter.stats()
        exporter.close(0.5)
    _print(rows, stats, is_json=options.json)
    if not is_complete or stats.get("rejected"):
        message = "The server did not accept all events. See the lines above."
        raise exit_codes.Stop(exit_codes.UNREACHABLE, message)
    return exit_codes.OK if any("session" in row for row in rows) else exit_codes.UNREADABLE


def _log_files(paths: list[str]) -> Iterator[Path]:
    for name in paths:
        path = Path(name).expanduser()
        if path.is_dir():
            yield from sorted(path.rglob("*.jsonl"))
        else:
            yield path


def _import_files(
    files: list[Path], options: argparse.Namespace, emit: Callable[[dict[str, Any]], None]
) -> list[dict[str, Any]]:
    tracked = output.progress(files, "importing", is_json=options.json)
    return [_import_file(file, options, emit) for file in tracked]


def _import_file(file: Path, options: argparse.Namespace, emit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Send the spans of one log. Return the row for the output."""
    try:
        conversation = read_conversation(file.read_text(errors="replace"))
    except UnreadableLog as error:
        return {"file": str(file), "problem": str(error)}
    if not conversation.spans:
        return {"file": str(file), "problem": "Not a session log: it has no timestamps and no model calls."}
    session_id = options.session_id or conversation.session_id or file.stem
    count = 0
    for event in ingest_events(conversation, session_id=session_id, window_tokens=options.max_tokens):
        emit(event)
        count += 1
    return {"file": str(file), "session": session_id, "source": conversation.source, "events": count}


def _print(rows: list[dict[str, Any]], stats: dict[str, Any], *, is_json: bool) -> None:
    if is_json:
        output.document({"logs": rows, "sent": stats.get("sent", 0), "rejected": stats.get("rejected", 0)})
        return
    names = ("source", "session", "events")
    cells = [(*(row.get(name, "") for name in names), row.get("problem") or row["file"]) for row in rows]
    output.table("", (*names, "log"), cells, right=(2,))
