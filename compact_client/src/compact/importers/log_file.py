"""One log file that is read in steps while an agent writes it.

A step reads what is new, up to a number of bytes, and gives the events for it. The position after a step is saved by
the caller once the events are delivered. A new process reads the file from its beginning to learn the agent's prompt,
but gives events only for what comes after the saved position.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from compact.agents.agent import Agent, Parser
from compact.agents.log_records import LogRecord, SkippedLine
from compact.importers.log_source import open_log
from compact.importers.reader import MAX_LINES_TO_DETECT, find_agent, read_file
from compact.ledgers.inferred_ledger import seal_messages
from compact.recording import ArchiveTranscript, RecordedSpan, SessionEvents
from compact.redaction.log_content import LogRedactor

_STEP_BYTES = 4 * 1024 * 1024
_BATCH_BYTES = 256 * 1024
_BATCH_LINES = 500
_HEAD_BYTES = 512


@dataclass(frozen=True, slots=True)
class Position:
    """The end of what was delivered: bytes, lines, and a digest of the file's beginning."""

    size: int = 0
    line: int = 0
    head: str = ""


@dataclass(slots=True)
class Step:
    """The result of one step."""

    events: list[dict[str, Any]] = field(default_factory=list)
    spans: list[RecordedSpan] = field(default_factory=list)
    skipped: list[SkippedLine] = field(default_factory=list)
    bytes_read: int = 0
    is_at_end: bool = False


class LogFile:
    """Reads one log. `agent` is detected from the content if it is not given."""

    def __init__(
        self,
        path: Path,
        agent: Agent | None = None,
        *,
        position: Position | None = None,
        session_id: str | None = None,
        window_tokens: int | None = None,
    ) -> None:
        self.path = path
        self.agent = agent
        self.delivered = position or Position()
        self._session_id = session_id
        self._window_tokens = window_tokens
        self._parser: Parser | None = None
        self._events: SessionEvents | None = None
        self._redactor = LogRedactor()
        self._held: list[LogRecord] = []
        """Records from before the format is known."""
        self._position = 0
        self._line = 0
        self._head = ""

    @property
    def _is_document(self) -> bool:
        """True if the log is one JSON document that the agent rewrites."""
        return self.path.suffix == ".json"

    @property
    def session_id(self) -> str | None:
        """The session of the log, once it is known."""
        return self._events.session_id if self._events else None

    @property
    def project(self) -> str | None:
        """The project folder of the agent, once it is known."""
        return self._parser.recorder.cwd if self._parser else None

    @property
    def last_at(self) -> str | None:
        """The time of the last record, as the agent wrote it."""
        return self._parser.recorder.last_at if self._parser else None

    @property
    def position(self) -> Position:
        """The end of what was read."""
        return Position(self._position, self._line, self._head)

    def steps(self, archive: ArchiveTranscript | None, *, is_final: bool = False) -> Iterator[Step]:
        """Yield the steps to the current end of the file. `is_final` also reads a last line without a newline."""
        with open_log(self.path) as stream:
            self._check_identity(stream)
            if self._position >= _size(stream) and not self._is_document:
                return
            stream.seek(0 if self._is_document else self._position)
            step = Step()
            for line in self._redacted_lines(stream, is_final=is_final):
                self._take(line, step)
                if step.bytes_read >= _STEP_BYTES:
                    yield self._complete(step, archive)
                    step = Step()
            if is_final and self._parser is not None:
                self._parser.finish()
            step.is_at_end = True
            yield self._complete(step, archive)

    def _redacted_lines(self, stream: IO[bytes], *, is_final: bool) -> Iterator[LogRecord | SkippedLine]:
        """Yield the new lines, redacted many at a time, up to one that the agent is still writing."""
        batch: list[LogRecord | SkippedLine] = []
        size = 0
        for line in read_file(stream, self.path, line=self._line, position=self._position):
            if not is_final and self._is_unfinished(line):
                break
            batch.append(line)
            size += len(line.raw) if isinstance(line, LogRecord) else 0
            if size >= _BATCH_BYTES or len(batch) >= _BATCH_LINES:
                yield from self._redact(batch)
                batch, size = [], 0
        yield from self._redact(batch)

    def _redact_records(self, records: Iterable[LogRecord], agent: Agent) -> Iterator[LogRecord]:
        texts = [record.without_binary() for record in records]
        contents = [record.content(agent.content) for record in texts]
        for record, old, new in zip(texts, contents, self._redactor.redact(contents), strict=True):
            yield record if new is old else record.with_content(new)

    def _redact(self, lines: list[LogRecord | SkippedLine]) -> list[LogRecord | SkippedLine]:
        """Return the lines without images and secrets, if the format is known. Until then nothing is parsed."""
        if self.agent is None:
            self.agent = find_agent(line for line in lines if isinstance(line, LogRecord))
        if self.agent is None:
            return lines
        records = [line for line in [*self._held, *lines] if isinstance(line, LogRecord)]
        clean = self._redact_records(records, self.agent)
        self._held = [next(clean) for _ in self._held]
        return [next(clean) if isinstance(line, LogRecord) else line for line in lines]

    def _is_unfinished(self, line: LogRecord | SkippedLine) -> bool:
        if isinstance(line, SkippedLine):
            return line.is_incomplete
        return not line.raw.endswith(b"\n") and not self._is_document

    def _take(self, line: LogRecord | SkippedLine, step: Step) -> None:
        """Read one line and move the position behind it. An incomplete line stays for the next step."""
        number = line.line
        if isinstance(line, LogRecord):
            self._feed(line)
        else:
            number -= line.is_incomplete
            if line.end > self.delivered.size or line.is_incomplete:
                step.skipped.append(line)
        step.bytes_read += max(0, line.end - self._position)
        self._position, self._line = line.end, number
        if self._position == self.delivered.size and self._parser is not None and not self._is_document:
            self._parser.recorder.drain()  # An earlier process has delivered everything up to here.

    def interrupted_events(self) -> list[dict[str, Any]]:
        """Return the calls without a result as ended, for a log that no agent writes any more."""
        return list(map(self._redactor.clean_labels, self._events.interrupted_events())) if self._events else []

    def _check_identity(self, stream: IO[bytes]) -> None:
        """Start again if the file was truncated or replaced since the last step."""
        stream.seek(0)
        head = hashlib.blake2b(stream.read(_HEAD_BYTES), digest_size=8).hexdigest()
        size = _size(stream)
        known = self._head or self.delivered.head
        is_same_head = head == known or (self.delivered.size < _HEAD_BYTES and self._position < _HEAD_BYTES)
        is_shorter = size < max(self._position, self.delivered.size)
        self._head = head
        if not self._is_document and known and (is_shorter or not is_same_head):
            self.delivered = Position()
            self._parser = self._events = None
            self._held, self._position, self._line = [], 0, 0

    def _feed(self, record: LogRecord) -> None:
        if self._parser is None:
            if self.agent is None:
                if len(self._held) < MAX_LINES_TO_DETECT:
                    self._held.append(record)
                return
            self._parser = self.agent.parser(self.path)
            for held in self._held:
                self._parser.feed(held)
            self._held = []
        self._parser.feed(record)

    def _complete(self, step: Step, archive: ArchiveTranscript | None) -> Step:
        if self._parser is None:
            return step
        recorder = self._parser.recorder
        spans = recorder.drain()
        is_known = not self._is_document and self._position <= self.delivered.size
        if is_known or not spans:
            return step
        if self._events is None:
            session_id = self._session_id or recorder.session_id or self.path.stem
            self._events = SessionEvents(
                recorder, session_id=session_id, window_tokens=self._window_tokens, mask=seal_messages
            )
        step.spans = spans
        events = list(self._events.session_events())
        for span in spans:
            events.extend(self._events.span_events(span, archive=archive))
        step.events.extend(map(self._redactor.clean_labels, events))
        return step


def _size(stream: IO[bytes]) -> int:
    return stream.seek(0, os.SEEK_END)
