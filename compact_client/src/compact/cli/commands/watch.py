"""The commands watch and import: send the logs of other agents to the server, once or as they grow."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from compact.agents.registry import AGENTS
from compact.cli import exit_codes, loss_report, output
from compact.cli.terminal import escape_line
from compact.importers.discovery import LogFilter, LogLocation
from compact.importers.follower import FileReport, Importer, ImportOptions, default_jobs
from compact.importers.log_source import size_of
from compact.importers.losses import worst_losses
from compact.importers.upload import DryRun, ServerUpload, Undelivered
from compact.importers.watch_state import WatchState

_AGE = re.compile(r"(\d+)\s*([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_TIMEOUT_S = 60.0
_FOREVER_S = 365 * 86_400.0
_LINE_EVERY_S = 5.0
_MAX_SKIPPED_SHOWN = 20


def import_logs(options: argparse.Namespace) -> int:
    """Import every log under the given paths, regardless of earlier imports, and print one row per log."""
    logs = LogFilter([Path(name).expanduser() for name in options.paths])
    files = logs.find()
    missing = [path for path in logs.paths if not path.exists()]
    if missing or not files:
        raise exit_codes.Stop(exit_codes.UNREADABLE, f"No session logs under {', '.join(options.paths)}.")
    if options.session_id and len(files) > 1:
        raise exit_codes.Stop(exit_codes.USAGE, f"--session-id needs exactly one log, but there are {len(files)}.")
    settings = ImportOptions(options.session_id, options.max_tokens, options.archive)
    importer = Importer(logs, WatchState(None), _upload_factory(options), options=settings, jobs=_jobs(options))
    reports = _import(importer, files, options)
    return _finish(reports, options)


def watch(options: argparse.Namespace) -> int:
    """Import the logs of all agents and follow them until Ctrl-C."""
    logs = _log_filter(options)
    create_upload = _upload_factory(options)
    state = WatchState(None) if options.dry_run else _state(options)
    importer = Importer(
        logs, state, create_upload, options=ImportOptions(with_transcripts=options.archive), jobs=_jobs(options)
    )
    reports: list[FileReport] = []
    try:
        reports += _import(importer, importer.find_pending(), options)
        if options.once or options.dry_run:
            if not reports:
                sys.stderr.write(f"{_explain_nothing(logs)}\n")
            return _finish(reports, options)
        for report in reports if options.json else ():
            output.line(_row(report))
        _print_rows(reports, options)
        if not options.json:
            loss_report.write(reports, options.url)
        return _follow(importer, logs, reports, options)
    except KeyboardInterrupt:
        if not options.json:
            sys.stderr.write("Stopped. Run the same command to continue.\n")
        return _exit_code(reports) if not options.once else exit_codes.INTERRUPTED


def _log_filter(options: argparse.Namespace) -> LogFilter:
    return LogFilter(
        [Path(name).expanduser() for name in options.paths],
        options.agent or (),
        parse_since(options.since) if options.since else None,
        Path(options.project).expanduser().absolute() if options.project else None,
    )


def parse_since(text: str) -> datetime:
    """Return the moment that `7d`, `12h` or a date means."""
    if match := _AGE.fullmatch(text.strip().lower()):
        return datetime.now(UTC) - timedelta(**{_UNITS[match[2]]: int(match[1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        message = f"--since {text!r} is neither an age such as 12h or 7d nor a date such as 2026-11-01."
        raise exit_codes.Stop(exit_codes.USAGE, message) from None
    return moment if moment.tzinfo else moment.astimezone()


def _upload_factory(options: argparse.Namespace) -> Any:
    if options.dry_run:
        return DryRun
    key = options.key or os.environ.get("ARIADNE_API_KEY") or urlsplit(options.url).password
    if not key:
        message = "No ingest key. Set ARIADNE_API_KEY or pass --key. Nothing was sent."
        raise exit_codes.Stop(exit_codes.USAGE, message)
    options.key = key
    is_followed = options.command == "watch" and not options.once
    timeout_s = _FOREVER_S if is_followed else _TIMEOUT_S
    return partial(ServerUpload, options.url, key, timeout_s=timeout_s, gives_up=not is_followed)


def _state(options: argparse.Namespace) -> WatchState:
    if options.state:
        return WatchState(Path(options.state).expanduser())
    return WatchState.of_server(options.url, options.key)


def _jobs(options: argparse.Namespace) -> int:
    return options.jobs or default_jobs()


def _import(importer: Importer, files: Sequence[LogLocation], options: argparse.Namespace) -> list[FileReport]:
    reports: list[FileReport] = []
    with _progress(files, options) as progress:
        try:
            for report in importer.import_all(files):
                reports.append(report)
                progress(report)
        except Undelivered as error:
            _print_rows(reports, options)
            message = f"{error} Run the same command to continue."
            raise exit_codes.Stop(exit_codes.UNREACHABLE, message) from None
    return reports


def _follow(importer: Importer, logs: LogFilter, reports: list[FileReport], options: argparse.Namespace) -> int:
    if not options.json:
        sys.stderr.write(f"Watching {_place(logs)}. Press Ctrl-C to stop.\n")
        sys.stderr.flush()
    for report in importer.follow():
        reports.append(report)
        _print_news(report, options)
    return _exit_code(reports)


def _place(logs: LogFilter) -> str:
    names = ", ".join(agent.title for agent in AGENTS if not logs.agents or agent.name in logs.agents)
    return ", ".join(map(str, logs.paths)) or f"the logs of {names}"


def _explain_nothing(logs: LogFilter) -> str:
    count = sum(logs.accepts(log) for log in logs.find())
    if count:
        return f"Nothing new in {_place(logs)} since the last import ({count} found)."
    return f"No sessions found in {_place(logs)}."


def _finish(reports: list[FileReport], options: argparse.Namespace) -> int:
    sent = 0 if options.dry_run else sum(report.events for report in reports)
    url = None if options.dry_run else options.url
    if options.json:
        rows = [_row(report) for report in reports]
        worst = worst_losses(loss for report in reports for loss in report.losses)
        losses = [loss_report.to_dict(loss, url) for loss in worst]
        output.document({"logs": rows, "sent": sent, "rejected": 0, "worst_compactions": losses})
    else:
        _print_rows(reports, options)
        loss_report.write(reports, url)
    _print_skipped(reports)
    return _exit_code(reports)


def _exit_code(reports: list[FileReport]) -> int:
    """Return 0 only if every line of every log could be read."""
    if any(report.skipped for report in reports):
        return exit_codes.UNREADABLE
    is_success = not reports or any(report.session for report in reports)
    return exit_codes.OK if is_success else exit_codes.UNREADABLE


def _row(report: FileReport) -> dict[str, Any]:
    row: dict[str, Any] = {"file": str(report.file)}
    if report.session:
        row |= {"session": report.session, "source": report.source}
        row |= {"events": report.events, "compactions": report.compactions}
    if report.skipped:
        row["skipped"] = [{"line": line, "reason": reason} for line, reason in report.skipped]
    if report.problem:
        row["problem"] = report.problem
    return row


def _print_rows(reports: list[FileReport], options: argparse.Namespace) -> None:
    names = ("source", "session", "events", "compactions")
    rows = [_row(report) for report in reports if report.session]
    if options.json or not rows:
        return
    if output.has_tables():
        cells = [[row[name] for name in (*names, "file")] for row in rows]
        output.table("", (*names, "log"), cells, right=(2, 3))
        return
    for row in rows:
        sys.stdout.write("  ".join(escape_line(row[name]) for name in (*names, "file")) + "\n")


def _print_news(report: FileReport, options: argparse.Namespace) -> None:
    if options.json:
        output.line(_row(report))
    elif report.session:
        compactions = f", {report.compactions} compaction{'s' if report.compactions > 1 else ''}"
        news = f"{report.events} events{compactions if report.compactions else ''}"
        sys.stdout.write(f"{datetime.now():%H:%M:%S}  {report.source}  {escape_line(report.session)}  {news}\n")
        sys.stdout.writelines(line + "\n" for loss in report.losses for line in loss_report.lines(loss, options.url))
        sys.stdout.flush()
    _print_skipped([report])


def _print_skipped(reports: list[FileReport]) -> None:
    """Write one line per line that could not be read, with file and number."""
    skipped = [(report.file, line, reason) for report in reports for line, reason in report.skipped]
    for file, line, reason in skipped[:_MAX_SKIPPED_SHOWN]:
        sys.stderr.write(f"{file}:{line}: skipped, the line {reason}\n")
    if len(skipped) > _MAX_SKIPPED_SHOWN:
        sys.stderr.write(f"{len(skipped) - _MAX_SKIPPED_SHOWN} more lines were skipped. --json lists them all.\n")
    for report in reports:
        if report.problem:
            sys.stderr.write(f"{report.file}: {report.problem}\n")


def _progress(files: Sequence[LogLocation], options: argparse.Namespace) -> AbstractContextManager[Any]:
    total = sum(size_of(log.path) for log in files)
    if options.json or len(files) < 2:
        return nullcontext(lambda report: None)
    if sys.stderr.isatty() and output.has_tables():
        return output.byte_progress("importing", total, lambda report: size_of(report.file))
    return nullcontext(_PlainProgress(len(files), total))


class _PlainProgress:
    """Writes a line every few seconds, for terminals without rich and for logs."""

    def __init__(self, logs: int, total: int) -> None:
        self._logs, self._total = logs, total
        self._done = self._bytes = 0
        self._started_at = self._last_line_at = time.monotonic()

    def __call__(self, report: FileReport) -> None:
        self._done += 1
        self._bytes += report.bytes_read
        now = time.monotonic()
        if now - self._last_line_at < _LINE_EVERY_S and self._done < self._logs:
            return
        self._last_line_at = now
        rate = self._bytes / 1e6 / max(now - self._started_at, 0.001)
        sys.stderr.write(
            f"Imported {self._done} of {self._logs} logs, {self._bytes / 1e6:,.1f} of {self._total / 1e6:,.1f} MB "
            f"({rate:.1f} MB/s)\n"
        )
