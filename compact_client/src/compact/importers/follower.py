"""Import logs, and follow them while agents write them. `compactctl import` and `compactctl watch` both use this.

Each log is delivered in steps, and the state file advances after each delivered step. An interrupted import therefore
continues where it stopped, and a delivery that is repeated changes nothing on the server.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

from compact.agents.agent import Agent
from compact.agents.registry import BY_NAME
from compact.importers.discovery import LogFilter, LogLocation
from compact.importers.log_file import LogFile, Position, Step
from compact.importers.log_source import change_time_of, size_of, status_of
from compact.importers.losses import CompactionLoss, find_losses, worst_losses
from compact.importers.upload import Undelivered, Upload
from compact.importers.watch_state import WatchState
from compact.recording import ArchiveTranscript

POLL_S = 0.1
_SCAN_S = 1.0
_SCAN_SHARE = 0.05  # of the time may be spent on searching for new logs
_MAX_OPEN_LOGS = 32
_FINISHED_S = 600.0  # An agent that has not written for this long does not wait for its tools.
_MIN_PARALLEL_BYTES = 16 * 1024 * 1024


@dataclass(slots=True)
class FileReport:
    """The result of reading one log, or the news since the last report."""

    file: Path
    session: str | None = None
    source: str | None = None
    events: int = 0
    compactions: int = 0
    bytes_read: int = 0
    skipped: list[tuple[int, str]] = field(default_factory=list)
    """The line numbers that could not be read, with the reasons."""
    problem: str | None = None
    losses: list[CompactionLoss] = field(default_factory=list)
    """The compactions that lost the most facts."""
    position: Position = field(default_factory=Position)

    def add(self, step: Step, log: LogFile) -> None:
        """Add the result of a step."""
        self.session, self.source = log.session_id, log.agent.name if log.agent else None
        self.compactions += sum(span.compaction is not None for span in step.spans)
        self.losses = worst_losses([*self.losses, *find_losses(step.events)])
        self.bytes_read += step.bytes_read
        self.skipped += [(line.line, line.reason) for line in step.skipped]
        self.position = log.position


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Settings of all logs."""

    session_id: str | None = None
    window_tokens: int | None = None
    with_transcripts: bool = True
    """True to archive the prompt before each compaction."""


def import_log(
    path: Path, agent: Agent | None, position: Position, options: ImportOptions, upload: Upload
) -> FileReport:
    """Deliver what a log has beyond a position, to its end."""
    report = FileReport(path, position=position)
    log = LogFile(path, agent, position=position, session_id=options.session_id, window_tokens=options.window_tokens)
    try:
        for step in log.steps(_archive(upload, options), is_final=True):
            report.events += upload.send(step.events)
            report.add(step, log)
        if _is_finished(log):
            report.events += upload.send(log.interrupted_events())
    except OSError as error:
        report.problem = str(error)
    if log.agent is None and not report.skipped:
        report.problem = report.problem or "Not a session log of a supported agent."
    return report


def _is_finished(log: LogFile) -> bool:
    """Return True if the agent does not wait for its tools any more. The file of a copied log is newer than its end."""
    try:
        last = datetime.fromisoformat(log.last_at or "").timestamp()
    except ValueError:
        last = change_time_of(log.path)
    return time.time() - last > _FINISHED_S


def _archive(upload: Upload, options: ImportOptions) -> ArchiveTranscript | None:
    return upload.archive if options.with_transcripts else None


class Importer:
    """Imports the logs that a filter finds."""

    def __init__(
        self,
        log_filter: LogFilter,
        state: WatchState,
        create_upload: Callable[[], Upload],
        *,
        options: ImportOptions | None = None,
        jobs: int = 1,
    ) -> None:
        self._filter = log_filter
        self._state = state
        self._create_upload = create_upload
        self._options = options or ImportOptions()
        self._jobs = jobs

    def find_pending(self) -> list[LogLocation]:
        """Return the logs that are wanted and have something new."""
        return [log for log in self._filter.find() if self._has_news(log.path) and self._filter.accepts(log)]

    def import_all(self, logs: Sequence[LogLocation]) -> Iterator[FileReport]:
        """Deliver the logs and yield a report for each. Raise `Undelivered` if the server does not accept them."""
        try:
            for report in self._parallel(logs) if self._is_large(logs) else self._serial(logs):
                self._state.set(report.file, report.position)
                yield report
        finally:
            self._state.save()

    def follow(self, should_stop: Callable[[], bool] = lambda: False) -> Iterator[FileReport]:
        """Deliver what agents append, until the caller stops. Yield the news of each log."""
        upload = self._create_upload()
        try:
            watched = _Watched(self._filter)
            while not should_stop():
                for location in watched.find_changed():
                    report = self._advance(location, watched, upload)
                    if report.events or report.skipped or report.problem:
                        yield report
                self._state.save()
                time.sleep(POLL_S)
        finally:
            self._state.save()
            upload.close()

    def _advance(self, location: LogLocation, watched: _Watched, upload: Upload) -> FileReport:
        log = watched.open_log(location.path, partial(self._open, location))
        report = FileReport(location.path)
        try:
            for step in log.steps(_archive(upload, self._options)):
                report.events += upload.send(step.events)
                report.add(step, log)
                self._state.set(location.path, log.position)
        except OSError as error:
            report.problem = str(error)
        except Undelivered as error:
            report.problem = str(error)
        return report

    def _open(self, location: LogLocation) -> LogFile:
        position = self._state.get(location.path)
        return LogFile(location.path, location.agent, position=position, window_tokens=self._options.window_tokens)

    def _has_news(self, path: Path) -> bool:
        known = self._state.get(path)
        return not known.size or status_of(path)[0] != known.size

    def _is_large(self, logs: Sequence[LogLocation]) -> bool:
        total = sum(size_of(log.path) - self._state.get(log.path).size for log in logs)
        return self._jobs > 1 and len(logs) > 1 and total >= _MIN_PARALLEL_BYTES

    def _serial(self, logs: Sequence[LogLocation]) -> Iterator[FileReport]:
        upload = self._create_upload()
        try:
            for log in logs:
                yield import_log(log.path, log.agent, self._state.get(log.path), self._options, upload)
        finally:
            upload.close()

    def _parallel(self, logs: Sequence[LogLocation]) -> Iterator[FileReport]:
        """Import in several processes, because reading and redaction need the processor, not the network."""
        workers = min(self._jobs, len(logs))
        with ProcessPoolExecutor(
            workers, multiprocessing.get_context("spawn"), _start_worker, (self._create_upload, self._options)
        ) as pool:
            futures = [
                pool.submit(
                    _import_in_worker, log.path, log.agent.name if log.agent else None, self._state.get(log.path)
                )
                for log in logs
            ]
            try:
                for future in as_completed(futures):
                    yield future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


class _Watched:
    """The logs on disk and their sizes. Recently changed ones stay open, with the agent's prompt in memory."""

    def __init__(self, log_filter: LogFilter) -> None:
        self._filter = log_filter
        self._sizes: dict[Path, tuple[int, int]] = {}
        self._known: dict[Path, LogLocation] = {}
        self._open: OrderedDict[Path, LogFile] = OrderedDict()
        self._next_scan = 0.0

    def find_changed(self) -> Iterator[LogLocation]:
        """Yield the logs whose size or time changed. All logs are searched less often than the open ones."""
        now = time.monotonic()
        if now >= self._next_scan:
            logs = self._filter.find()
            took = time.monotonic() - now
            self._next_scan = now + max(_SCAN_S, took / _SCAN_SHARE)
        else:
            logs = [self._known[path] for path in self._open]
        for log in logs:
            if self._is_changed(log):
                yield log

    def open_log(self, path: Path, create: Callable[[], LogFile]) -> LogFile:
        """Return a log that keeps its state between steps."""
        log = self._open.get(path)
        if log is None:
            log = self._open[path] = create()
        self._open.move_to_end(path)
        while len(self._open) > _MAX_OPEN_LOGS:
            self._open.popitem(last=False)
        return log

    def _is_changed(self, log: LogLocation) -> bool:
        try:
            size = status_of(log.path)
        except OSError:
            return False
        if self._sizes.get(log.path) == size:
            return False
        if log.path not in self._known and not self._filter.accepts(log):
            return False  # The project is not known yet, or it is another one.
        self._sizes[log.path], self._known[log.path] = size, log
        return True


_worker: tuple[Upload, ImportOptions] | None = None


def _start_worker(create_upload: Callable[[], Upload], options: ImportOptions) -> None:
    global _worker  # noqa: PLW0603 - one per process
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent handles Ctrl-C.
    _worker = create_upload(), options


def _import_in_worker(path: Path, agent_name: str | None, position: Position) -> FileReport:
    assert _worker is not None
    upload, options = _worker
    return import_log(path, BY_NAME[agent_name] if agent_name else None, position, options, upload)


def default_jobs() -> int:
    """Return the number of processes for large imports."""
    return max(1, min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1))
