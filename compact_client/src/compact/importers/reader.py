"""Read a conversation: JSON in any supported message format, a transcript, or a session log.

The format is detected from the content, not from the file name. Lines that are not part of the conversation are
skipped.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from compact.agents.agent import Agent, Parser
from compact.agents.log_records import LogRecord, SkippedLine, parse_line, read_records
from compact.agents.registry import detect_agent, storage_of, titles
from compact.exceptions import CompactError
from compact.importers.conversation import Conversation
from compact.importers.log_source import open_log
from compact.messages.block_kinds import is_item

# Logs begin with titles, snapshots and other lines that several agents could have written.
MAX_LINES_TO_DETECT = 500


class UnreadableLog(CompactError):
    """The input contains no conversation in a supported format."""


def read_conversation(text: str) -> Conversation:
    """Return the conversation in a JSON document or in JSON lines.

    A line that is not valid JSON raises `UnreadableLog`, except an incomplete last line. `read_log` skips such lines.
    """
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if document is not None:
        agent = detect_agent(document) if isinstance(document, dict) else None
        return _read_document(document) if agent is None else _read_records(agent, [_record(document)])
    records = list(_strict(read_records(io.BytesIO(text.encode("utf-8", "surrogatepass")))))
    agent = find_agent(records)
    if agent is not None:
        return _read_records(agent, records)
    lines = [record.value for record in records]
    if len(lines) == 1 and "messages" in lines[0]:
        return _read_document(lines[0])
    items = [line for line in lines if _is_message(line)]
    if not items:
        raise UnreadableLog(
            "No conversation found. Expected a JSON list of messages, an object with `messages`, one message per line, "
            f"or a session log of {titles('or')}."
        )
    return Conversation(items)


def read_log(path: Path) -> tuple[Conversation, list[SkippedLine]]:
    """Return the conversation of a session log, with its compactions, and the lines that could not be read."""
    skipped: list[SkippedLine] = []
    with open_log(path) as stream:
        records: list[LogRecord] = []
        for line in read_file(stream, path):
            if isinstance(line, SkippedLine):
                skipped.append(line)
            else:
                records.append(line)
    agent = find_agent(records)
    if agent is None:
        raise UnreadableLog(f"{path} is not a session log of {titles('or')}.")
    return _read_records(agent, records, path), skipped


def read_file(stream: IO[bytes], path: Path, *, line: int = 0, position: int = 0) -> Iterator[LogRecord | SkippedLine]:
    """Yield the records of a log file. A file that is one JSON document is one record."""
    storage = storage_of(path)
    if storage is not None:
        yield from storage.read_session(path)
        return
    if path.suffix != ".json":
        yield from read_records(stream, line=line, position=position)
        return
    raw = stream.read()
    try:
        value = parse_line(raw)
    except (ValueError, RecursionError):
        # The agent rewrites the document as a whole, so it may be half-written now.
        yield SkippedLine(1, 0, "is incomplete", is_incomplete=True)
        return
    if isinstance(value, dict):
        yield LogRecord(value, raw, 1, len(raw))


def find_agent(records: Iterable[LogRecord]) -> Agent | None:
    """Return the agent that wrote a log, by its first lines."""
    for number, record in enumerate(records):
        if number >= MAX_LINES_TO_DETECT:
            return None
        if agent := detect_agent(record.value):
            return agent
    return None


def to_conversation(parser: Parser) -> Conversation:
    """Return everything that a parser has read. The parser must keep its items."""
    recorder = parser.recorder
    spans = recorder.drain()
    return Conversation(
        recorder.items or [],
        source=recorder.source,
        session_id=recorder.session_id,
        format=recorder.format,
        model=recorder.model,
        window_tokens=recorder.window_tokens,
        spans=spans,
        compactions=[span.compaction for span in spans if span.compaction is not None],
        context=list(recorder.own_thread.prompt.values()),
        cwd=recorder.cwd,
        version=recorder.version,
        link=recorder.link,
    )


def _read_records(agent: Agent, records: Iterable[LogRecord], path: Path | None = None) -> Conversation:
    parser = agent.parser(path, keep_items=True)
    for record in records:
        parser.feed(record)
    parser.finish()
    return to_conversation(parser)


def _record(document: dict[str, Any]) -> LogRecord:
    return LogRecord(document, json.dumps(document).encode(), 1, 0)


def _strict(lines: Iterable[LogRecord | SkippedLine]) -> Iterator[LogRecord]:
    for line in lines:
        if isinstance(line, LogRecord):
            yield line
        elif line.reason != "is not a JSON object" and not line.is_incomplete:
            raise UnreadableLog(f"Line {line.line} {line.reason}.")


def _read_document(document: Any) -> Conversation:
    if isinstance(document, dict):
        nested = next((document[name] for name in ("messages", "input") if isinstance(document.get(name), list)), None)
        if nested is not None:
            conversation = _read_document(nested)
            conversation.tools = list(document.get("tools") or ())
            conversation.model = document.get("model")
            conversation.session_id = document.get("session_id") or document.get("id")
            return conversation
        document = [document]
    items = [item for item in document if _is_message(item)] if isinstance(document, list) else []
    if items:
        return Conversation(items)
    raise UnreadableLog("No conversation found. Expected a JSON list of messages or an object with `messages`.")


def _is_message(item: Any) -> bool:
    return isinstance(item, dict) and ("role" in item or is_item(item))
