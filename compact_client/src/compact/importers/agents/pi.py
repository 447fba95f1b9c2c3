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

from compact.importers.agents.claude_code import compaction_span, without_images
from compact.importers.conversation import LogSpan, SessionLink, SessionLog, as_count, as_mapping, as_text, text_blocks
from compact.importers.records import LogRecord
from compact.ledgers.foreign_compaction import Compaction, LogMessage

NAME = "pi"
CONTENT = ("message", "summary", "content")
_INPUT_COUNTS = ("input", "cacheRead", "cacheWrite")


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
        self.log = SessionLog(NAME, "anthropic", keep_items=keep_items)
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
                self.log.model = as_text(line.get("modelId")) or self.log.model
        if name := as_text(line.get("id")):
            context = self.log.thread().context
            prompt = tuple(context.values()) if line.get("type") == "compaction" else None
            self._entries[name] = _Entry(as_text(line.get("parentId")), context.get(name), prompt)
            self._last = name

    def finish(self) -> None:
        """Do nothing: each record is complete."""

    def _read_header(self, line: Mapping[str, Any], at: str | None) -> None:
        log = self.log
        log.session_id, log.cwd = as_text(line.get("id")), as_text(line.get("cwd"))
        log.model = as_text(line.get("modelId")) or log.model
        log.version = str(line.get("version", 1))
        log.note_time(at)
        parent = as_text(line.get("parentSession")) or as_text(line.get("branchedFrom"))
        if parent:
            # Logs are named <time>_<session>.jsonl.
            log.link = SessionLink("forked", Path(parent).stem.rpartition("_")[2])

    def _switch_branch(self, line: Mapping[str, Any]) -> None:
        """Continue from another entry than the last one, if the user went back to it."""
        parent = as_text(line.get("parentId"))
        if parent is not None and parent != self._last and parent in self._entries:
            self.log.thread().replace_context(self._prompt_at(parent))

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
        self.log.note_time(at)
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
        thread = self.log.thread()
        item = {"role": "user", "content": text}
        message = LogMessage(_id_of(record), item, at, record.line, is_program=name != "user")
        self.log.add_message(thread, message)
        self.log.add_span(LogSpan("user", name, at, at, payload={"text": text}, key=f"user:{message.id}"), thread)

    def _add_assistant(self, source: Mapping[str, Any], record: LogRecord, at: str | None) -> None:
        log, thread = self.log, self.log.thread()
        content = source.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": str(content or "")}]
        blocks = [_block(block) for block in blocks if isinstance(block, dict)]
        message = LogMessage(_id_of(record), {"role": "assistant", "content": blocks}, at, record.line)
        log.add_message(thread, message)
        model = as_text(source.get("model"))
        log.model = model or log.model
        log.generations += 1
        log.add_span(
            LogSpan(
                "generation", model or "model", at, at, model, _usage(as_mapping(source.get("usage"))),
                data={"turn": log.generations},
                payload={"output": [message.item]},
                is_error=source.get("stopReason") == "error",
                key=f"generation:{message.id}",
            ),
            thread,
        )  # fmt: skip
        for block in blocks:
            if block.get("type") == "tool_use":
                call_id = str(block["id"])
                call = LogSpan("tool", str(block["name"]), at, payload={"input": block["input"]}, key=f"tool:{call_id}")
                thread.open_calls[call_id] = log.add_span(call, thread)

    def _add_result(self, source: Mapping[str, Any], record: LogRecord, at: str | None) -> None:
        thread = self.log.thread()
        call_id, output = str(source.get("toolCallId")), without_images(source.get("content"))
        block = {"type": "tool_result", "tool_use_id": call_id, "content": output}
        if source.get("isError"):
            block["is_error"] = True
        self.log.add_message(thread, LogMessage(_id_of(record), {"role": "user", "content": [block]}, at, record.line))
        span = thread.open_calls.pop(call_id, None)
        if span is not None:
            span.ended_at, span.is_error = at, bool(source.get("isError"))
            span.payload = {**span.payload, "output": output}
            self.log.add_span(span, thread)

    def _add_compaction(self, line: Mapping[str, Any], record: LogRecord, at: str | None) -> None:
        thread = self.log.thread()
        thread.compactions += 1
        before = tuple(thread.context.values())
        kept = before[self._first_kept(line, before) :]
        compaction = Compaction(_id_of(record), thread.compactions, NAME, at, before, "anthropic", line=record.line)
        compaction.trigger = "auto"
        compaction.tokens_before = as_count(line.get("tokensBefore")) or None
        compaction.summary = as_text(line.get("summary")) or ""
        compaction.summary_id = f"{compaction.id}-summary"
        compaction.fates = {message.id: ("kept", "after the first kept entry") for message in kept}
        item = {"role": "user", "content": compaction.summary}
        compaction.after = (LogMessage(compaction.summary_id, item, at, record.line, is_program=True), *kept)
        thread.replace_context(compaction.after)
        self.log.note_time(at)
        self.log.add_span(compaction_span(compaction, "pi compacted"), thread)

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


def _usage(usage: Mapping[str, Any]) -> dict[str, int]:
    input_tokens = sum(as_count(usage.get(name)) for name in _INPUT_COUNTS)
    if not input_tokens:
        return {}
    return {
        "input_tokens": input_tokens,
        "cached_tokens": as_count(usage.get("cacheRead")),
        "output_tokens": as_count(usage.get("output")),
    }


def _id_of(record: LogRecord) -> str:
    return as_text(record.value.get("id")) or record.digest


def _time_of(line: Mapping[str, Any]) -> str | None:
    """Return the time of an entry as text. Messages also have one in milliseconds."""
    if at := as_text(line.get("timestamp")):
        return at
    milliseconds = as_count(as_mapping(line.get("message")).get("timestamp"))
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat() if milliseconds else None
