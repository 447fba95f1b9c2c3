"""Session logs of pi (`~/.pi/agent/sessions/<folder>/<time>_<id>.jsonl`), versions 1 to 3.

Entries form a tree since version 2: `parentId` names the entry before, and the prompt is the path from the root to the
newest entry. A compaction names the first entry that it keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from compact.agents.log_records import LogRecord
from compact.agents.tool_results import without_images
from compact.ledgers.foreign_compaction import LogMessage
from compact.messages.json_values import as_count, as_mapping, as_text, text_blocks
from compact.messages.usage import Usage
from compact.recording import SessionLink, SessionRecorder

NAME = "pi"
CONTENT = ("message", "summary", "content")


def is_log_line(line: Mapping[str, Any]) -> bool:
    """Return True for the first line of a pi log."""
    return line.get("type") == "session" and "id" in line and "cwd" in line


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry of the tree. `prompt` is the whole prompt after a compaction."""

    parent: str | None
    message: LogMessage | None
    prompt: tuple[LogMessage, ...] | None


class PiParser:
    """Reads one log file."""

    def __init__(self, path: Path | None = None, *, keep_items: bool = False) -> None:
        self.recorder = SessionRecorder(NAME, "anthropic", keep_items=keep_items)
        self._last: str | None = None
        self._entries: dict[str, _Entry] = {}

    def feed(self, record: LogRecord) -> None:
        """Read one record."""
        line = record.value
        at = _time_of(line)
        match line.get("type"):
            case "session":
                self._read_header(line, at)
                return
            case "message":
                self._switch_branch(line)
                self._add_message(as_mapping(line.get("message")), record, at)
            case "compaction":
                self._switch_branch(line)
                self._add_compaction(line, record, at)
            case "branch_summary" | "custom_message":
                self._switch_branch(line)
                text = as_text(line.get("summary")) or text_blocks(line.get("content"))
                self._add_text(text, record, at, name="notice")
            case "model_change":
                self.recorder.model = as_text(line.get("modelId")) or self.recorder.model
        if name := as_text(line.get("id")):
            messages = self.recorder.own_thread.prompt
            prompt = tuple(messages.values()) if line.get("type") == "compaction" else None
            self._entries[name] = _Entry(as_text(line.get("parentId")), messages.get(name), prompt)
            self._last = name

    def finish(self) -> None:
        """Do nothing: each record is complete."""

    def _read_header(self, line: Mapping[str, Any], at: str | None) -> None:
        recorder = self.recorder
        recorder.session_id, recorder.cwd = as_text(line.get("id")), as_text(line.get("cwd"))
        recorder.model = as_text(line.get("modelId")) or recorder.model
        recorder.version = str(line.get("version", 1))
        recorder.note_time(at)
        parent = as_text(line.get("parentSession")) or as_text(line.get("branchedFrom"))
        if parent:
            # Logs are named <time>_<session>.jsonl.
            recorder.link = SessionLink("forked", Path(parent).stem.rpartition("_")[2])

    def _switch_branch(self, line: Mapping[str, Any]) -> None:
        """Continue from another entry than the last one, if the user went back to it."""
        parent = as_text(line.get("parentId"))
        if parent is not None and parent != self._last and parent in self._entries:
            self.recorder.set_prompt(self._prompt_at(parent))

    def _prompt_at(self, name: str | None) -> list[LogMessage]:
        """Return the prompt at an entry: the messages on the path to it, from the last compaction."""
        path: list[LogMessage] = []
        while name is not None and (entry := self._entries.get(name)) is not None:
            if entry.prompt is not None:
                return [*entry.prompt, *reversed(path)]
            if entry.message is not None:
                path.append(entry.message)
            name = entry.parent
        return path[::-1]

    def _add_message(self, message: Mapping[str, Any], record: LogRecord, at: str | None) -> None:
        self.recorder.note_time(at)
        match message.get("role"):
            case "assistant":
                self._add_assistant(message, record, at)
            case "toolResult":
                self._add_result(message, record, at)
            case "bashExecution":
                text = f"$ {message.get('command')}\n{message.get('output')}"
                self._add_text(text, record, at, name="notice")
            case "user":
                self._add_text(text_blocks(message.get("content")), record, at, name="user")

    def _add_text(self, text: str, record: LogRecord, at: str | None, *, name: str) -> None:
        item = {"role": "user", "content": text}
        message = LogMessage(_id_of(record), item, at, record.line, is_program=name != "user")
        self.recorder.add(message)
        self.recorder.user(message, text)

    def _add_assistant(self, source: Mapping[str, Any], record: LogRecord, at: str | None) -> None:
        content = source.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": str(content or "")}]
        blocks = [_block(block) for block in blocks if isinstance(block, dict)]
        message = LogMessage(_id_of(record), {"role": "assistant", "content": blocks}, at, record.line)
        self.recorder.add(message)
        span = self.recorder.generation(message.id, at=at, model=as_text(source.get("model")))
        self.recorder.count(span, _usage(as_mapping(source.get("usage"))))
        span.payload = {"output": [message.item]}
        span.is_error = source.get("stopReason") == "error"
        for block in blocks:
            if block.get("type") == "tool_use":
                self.recorder.call(str(block["id"]), str(block["name"]), block["input"], at=at)

    def _add_result(self, source: Mapping[str, Any], record: LogRecord, at: str | None) -> None:
        call_id, output = str(source.get("toolCallId")), without_images(source.get("content"))
        block = {"type": "tool_result", "tool_use_id": call_id, "content": output}
        is_error = bool(source.get("isError"))
        if is_error:
            block["is_error"] = True
        self.recorder.add(LogMessage(_id_of(record), {"role": "user", "content": [block]}, at, record.line))
        self.recorder.result(call_id, output, at=at, is_error=is_error)

    def _add_compaction(self, line: Mapping[str, Any], record: LogRecord, at: str | None) -> None:
        compaction = self.recorder.begin_compaction(_id_of(record), at=at, line=record.line)
        before = compaction.before
        kept = before[self._first_kept(line, before) :]
        compaction.tokens_before = as_count(line.get("tokensBefore")) or None
        compaction.summary = as_text(line.get("summary")) or ""
        compaction.summary_id = f"{compaction.id}-summary"
        compaction.fates = {message.id: ("kept", "after the first kept entry") for message in kept}
        item = {"role": "user", "content": compaction.summary}
        compaction.after = (LogMessage(compaction.summary_id, item, at, record.line, is_program=True), *kept)
        self.recorder.note_time(at)
        self.recorder.compaction(compaction, "pi compacted")

    def _first_kept(self, line: Mapping[str, Any], before: tuple[LogMessage, ...]) -> int:
        """Return the position of the first message that a compaction keeps."""
        index, name = line.get("firstKeptEntryIndex"), as_text(line.get("firstKeptEntryId"))
        if isinstance(index, int):
            # Version 1 counts the lines of the file.
            return next((place for place, message in enumerate(before) if message.line > index), len(before))
        if name is None:
            return len(before)
        # The first kept entry may be a change of the model. Then the messages after it are kept.
        return next((place for place, m in enumerate(before) if m.id == name), len(self._prompt_at(name)))


def _block(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return a block of pi's format in Anthropic's format."""
    if block.get("type") != "toolCall":
        return dict(block)
    return {"type": "tool_use", "id": block.get("id"), "name": block.get("name"), "input": block.get("arguments")}


def _usage(usage: Mapping[str, Any]) -> Usage:
    uncached, cached, written, output = (
        as_count(usage.get(name)) for name in ("input", "cacheRead", "cacheWrite", "output")
    )
    return Usage.with_cache(uncached, cached=cached, cache_write=written, output=output)


def _id_of(record: LogRecord) -> str:
    return as_text(record.value.get("id")) or record.digest


def _time_of(line: Mapping[str, Any]) -> str | None:
    """Return the time of an entry as text. Messages also have one in milliseconds."""
    if at := as_text(line.get("timestamp")):
        return at
    milliseconds = as_count(as_mapping(line.get("message")).get("timestamp"))
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat() if milliseconds else None
