"""Session logs of Codex (`~/.codex/sessions/**/rollout-*.jsonl`), with Responses items inside.

Logs until September 2025 have bare items without times. Later ones have records with `timestamp`, `type` and
`payload`. A compaction replaces the prompt with its `replacement_history`. If the provider compacts, that history
contains an encrypted item instead of a summary.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from compact.agents.codex import NAME
from compact.agents.codex.history import apply_history, keep_user_messages
from compact.agents.codex.notices import is_notice
from compact.agents.log_records import LogRecord
from compact.ledgers.foreign_compaction import LogMessage
from compact.messages.json_values import as_count, as_list, as_mapping, as_text, text_blocks
from compact.messages.usage import Usage
from compact.recording import RecordedSpan, SessionLink, SessionRecorder

# The last ones are for logs from before September 2025, whose lines are items.
CONTENT = ("payload", "content", "output", "arguments", "input", "action", "summary")
RECORDS = {"session_meta", "response_item", "event_msg", "turn_context", "compacted"}
_ITEMS = {"message", "reasoning", "function_call", "function_call_output", "local_shell_call", "web_search_call"}
_ITEMS |= {"custom_tool_call", "custom_tool_call_output", "local_shell_call_output", "compaction", "compaction_summary"}
_CALLS = {"function_call", "custom_tool_call", "local_shell_call"}
_OUTPUTS = {"function_call_output", "custom_tool_call_output", "local_shell_call_output"}
_CWD = re.compile(r"<cwd>([^<]+)</cwd>")
_ID_CHARS = 36
# A forked session starts with a copy of the other session's records, written at once.
_COPY_TIME = timedelta(seconds=2)


def is_log_line(line: Mapping[str, Any]) -> bool:
    """Return True if a line is a record of a Codex log."""
    return line.get("type") in RECORDS and isinstance(line.get("payload"), dict)


def is_bare_header(line: Mapping[str, Any]) -> bool:
    """Return True for the first line of a log from before September 2025."""
    return "instructions" in line and "id" in line and "timestamp" in line and "type" not in line


def is_first_line(line: Mapping[str, Any]) -> bool:
    """Return True for a line that only a Codex log has."""
    return is_log_line(line) or is_bare_header(line)


def session_of(stem: str) -> str:
    """Return the id in the name of a log, which has a time before it."""
    return stem[-_ID_CHARS:]


class CodexParser:
    """Reads one log file."""

    def __init__(self, path: Path | None = None, *, keep_items: bool = False) -> None:
        self.recorder = SessionRecorder(NAME, "responses", keep_items=keep_items)
        self._thread_id: str | None = None
        self._copied_until: datetime | None = None
        self._is_forked = False
        self._last_total: Mapping[str, Any] | None = None
        self._context_tokens: int | None = None
        self._generation: RecordedSpan | None = None
        """The model call that the next items belong to."""
        """The last compaction, until the next model call shows the size of its prompt."""
        self._has_new_result = False
        """True if a tool result arrived, which only the next model call reads."""

    def feed(self, record: LogRecord) -> None:
        """Read one record."""
        line = record.value
        if is_bare_header(line):
            self._read_meta(line, as_text(line.get("timestamp")))
            return
        if not is_log_line(line):
            if line.get("type") in _ITEMS:
                self._add_item(line, record, self.recorder.first_at)
            return
        payload, at = line["payload"], as_text(line.get("timestamp"))
        match line["type"]:
            case "session_meta":
                self._read_meta(payload, as_text(payload.get("timestamp")) or at)
            case "turn_context":
                self.recorder.model = as_text(payload.get("model")) or self.recorder.model
                self.recorder.cwd = self.recorder.cwd or as_text(payload.get("cwd"))
            case "response_item":
                self._add_item(payload, record, at)
            case "event_msg":
                self._read_event(payload, at)
            case "compacted":
                self._add_compaction(payload, record, at)

    def finish(self) -> None:
        """Do nothing: each record is complete."""

    def _read_meta(self, meta: Mapping[str, Any], at: str | None) -> None:
        thread_id = as_text(meta.get("id")) or as_text(meta.get("session_id"))
        if self._thread_id is not None:
            # The header of the session that this one was forked from.
            self._is_forked = self._is_forked or thread_id != self._thread_id
            return
        self._thread_id = thread_id
        recorder = self.recorder
        recorder.cwd, recorder.version = as_text(meta.get("cwd")), as_text(meta.get("cli_version"))
        recorder.note_time(at)
        spawn = as_mapping(as_mapping(as_mapping(meta.get("source")).get("subagent")).get("thread_spawn"))
        parent = as_text(spawn.get("parent_thread_id")) or as_text(meta.get("parent_thread_id"))
        origin = as_text(meta.get("forked_from_id"))
        if (parent or origin) and (started := _parse_time(at)):
            self._copied_until = started + _COPY_TIME
        if parent:
            recorder.session_id, recorder.agent_id = parent, thread_id
            name = as_text(spawn.get("agent_role")) or as_text(meta.get("agent_nickname")) or "sub-agent"
            recorder.agent(str(thread_id), name=name, at=at)
            return
        recorder.session_id = thread_id
        if origin:
            recorder.link = SessionLink("forked", origin)

    def _is_copied(self, at: str | None) -> bool:
        if not self._is_forked or self._copied_until is None:
            return False
        moment = _parse_time(at)
        return moment is not None and moment <= self._copied_until

    # Items.

    def _add_item(self, item: Mapping[str, Any], record: LogRecord, at: str | None) -> None:
        is_copied = self._is_copied(at)
        if not is_copied:
            self.recorder.note_time(at)
        message = LogMessage(_item_id(item, record.digest), dict(item), at, record.line)
        # The answer with a summary is logged before its compaction, and was never a part of the prompt.
        if not as_mapping(record.value.get("metadata")).get("compaction_output"):
            self.recorder.add(message)
        if not is_copied:
            self._add_spans(item, message, at)

    def _add_spans(self, item: Mapping[str, Any], message: LogMessage, at: str | None) -> None:
        kind = item.get("type")
        if kind == "message":
            self._add_message(str(item.get("role")), text_blocks(item.get("content")), message, at)
        elif kind in _CALLS:
            self._open_generation(message, at)
            arguments = item.get("arguments") or item.get("input") or item.get("action")
            call_id = str(item.get("call_id") or message.id)
            self.recorder.call(call_id, str(item.get("name") or kind), arguments, at=at)
        elif kind in _OUTPUTS:
            self._has_new_result = True
            self._add_result(item, at)

    def _add_result(self, item: Mapping[str, Any], at: str | None) -> None:
        output = item.get("output")
        call = self.recorder.result(
            str(item.get("call_id")), _without_images(output), at=at, is_error=_has_failed(output)
        )
        if call is not None and "spawn" in call.name and isinstance(output, str):
            self._connect_agent(output, call)

    def _connect_agent(self, output: str, call: RecordedSpan) -> None:
        """Connect a sub-agent, which has its own log, to the call that started it."""
        try:
            result = as_mapping(json.loads(output))
        except ValueError:
            return
        for name in ("agent_id", "thread_id", "id"):
            if agent_id := as_text(result.get(name)):
                self.recorder.agent(agent_id, parent=call.key)
                return

    def _add_message(self, role: str, text: str, message: LogMessage, at: str | None) -> None:
        if role == "assistant":
            generation = self._open_generation(message, at)
            output = [*as_list(generation.payload.get("output")), {"role": "assistant", "content": text}]
            generation.payload = {"output": output}
        elif role == "user":
            if not self.recorder.cwd and (match := _CWD.search(text)):
                self.recorder.cwd = match[1]
            message.is_program = is_notice(text)
            self.recorder.user(message, text)

    def _open_generation(self, message: LogMessage, at: str | None) -> RecordedSpan:
        """Return the model call that an item belongs to. A call ends when the log reports its usage."""
        span = self._generation
        if span is None or span.usage or self._has_new_result:
            span = self._generation = self.recorder.generation(message.id, at=at, model=self.recorder.model)
        self._has_new_result = False
        span.ended_at = at
        self.recorder.change(span)
        return span

    def _read_event(self, payload: Mapping[str, Any], at: str | None) -> None:
        kind = payload.get("type")
        if kind == "token_count" and not self._is_copied(at):
            self._read_token_count(as_mapping(payload.get("info")))
        elif kind == "thread_rolled_back":
            self._roll_back(as_count(payload.get("num_turns")))

    def _read_token_count(self, info: Mapping[str, Any]) -> None:
        total = as_mapping(info.get("total_token_usage"))
        if not info or (total and total == self._last_total):
            return  # Codex repeats the counts when only the rate limits change.
        self._last_total = total
        self.recorder.window_tokens = as_count(info.get("model_context_window")) or self.recorder.window_tokens
        usage = as_mapping(info.get("last_token_usage"))
        input_tokens, output, cached = (
            as_count(usage.get(name)) for name in ("input_tokens", "output_tokens", "cached_input_tokens")
        )
        counts = Usage(input_tokens, output, cached)
        self._context_tokens = as_count(usage.get("total_tokens")) or counts.total_tokens
        self.recorder.size_prompt(input_tokens)
        generation = self._generation
        if generation is not None and input_tokens and not generation.usage:
            self.recorder.count(generation, counts)

    def _roll_back(self, turns: int) -> None:
        """Remove the last user turns from the prompt, as the user did."""
        messages = list(self.recorder.own_thread.prompt.values())
        while turns and messages:
            removed = messages.pop()
            turns -= removed.item.get("role") == "user" and not is_notice(text_blocks(removed.item.get("content")))
        self.recorder.set_prompt(messages)

    # Compactions.

    def _add_compaction(self, payload: Mapping[str, Any], record: LogRecord, at: str | None) -> None:
        compaction = self.recorder.begin_compaction(self.recorder.next_compaction_id(), at=at, line=record.line)
        compaction.trigger = as_text(payload.get("trigger")) or "auto"
        compaction.tokens_before = as_count(payload.get("tokens_before")) or self._context_tokens
        compaction.summary = as_text(payload.get("message"))
        history = payload.get("replacement_history")
        if isinstance(history, list):
            apply_history(compaction, [item for item in history if isinstance(item, Mapping)])
        else:
            keep_user_messages(compaction)
        self._generation = None
        self._context_tokens = None
        if self._is_copied(at):
            self.recorder.set_prompt(compaction.after)
            return
        self.recorder.note_time(at)
        self.recorder.compaction(compaction, "Codex compacted")


def _without_images(output: Any) -> Any:
    """Return an output with a note in place of each image."""
    if not isinstance(output, list):
        return output
    return [
        {"type": "text", "text": "[image]"} if as_mapping(part).get("type") == "input_image" else part
        for part in output
    ]


def _item_id(item: Mapping[str, Any], digest: str) -> str:
    if name := as_text(item.get("id")):
        return name
    call_id = as_text(item.get("call_id"))
    return f"{item.get('type')}-{call_id}" if call_id else digest


def _has_failed(output: Any) -> bool:
    """Return True if a tool reports a failure: a non-zero exit code in its metadata, or `success: false`."""
    if isinstance(output, str) and output.startswith('{"') and '"metadata"' in output[-200:]:
        try:
            output = json.loads(output)
        except ValueError:
            return False
    result = as_mapping(output)
    return result.get("success") is False or bool(as_mapping(result.get("metadata")).get("exit_code"))


def _parse_time(at: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(at) if at else None
    except ValueError:
        return None
