"""Session logs of Codex (`~/.codex/sessions/**/rollout-*.jsonl`), with Responses items inside.

Logs until September 2025 have bare items without times. Later ones have records with `timestamp`, `type` and
`payload`. A compaction replaces the prompt with its `replacement_history`. If the provider compacts, that history
contains an encrypted item instead of a summary.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from compact.importers.agents.claude_code import compaction_span
from compact.importers.conversation import (
    LogSpan,
    SessionLink,
    SessionLog,
    Thread,
    as_count,
    as_list,
    as_mapping,
    as_text,
    text_blocks,
)
from compact.importers.records import LogRecord
from compact.ledgers.foreign_compaction import Compaction, LogFate, LogMessage
from compact.messages import content_hash

NAME = "codex"
# The last ones are for logs from before September 2025, whose lines are items.
CONTENT = ("payload", "content", "output", "arguments", "input", "action", "summary")
RECORDS = {"session_meta", "response_item", "event_msg", "turn_context", "compacted"}
_ITEMS = {"message", "reasoning", "function_call", "function_call_output", "local_shell_call", "web_search_call"}
_ITEMS |= {"custom_tool_call", "custom_tool_call_output", "local_shell_call_output", "compaction", "compaction_summary"}
_CALLS = {"function_call", "custom_tool_call", "local_shell_call"}
_OUTPUTS = {"function_call_output", "custom_tool_call_output", "local_shell_call_output"}
_SEALED = {"compaction", "compaction_summary"}
# Keys that Codex changes when it writes an item again.
_VOLATILE = {"id", "status", "internal_chat_message_metadata_passthrough", "phase", "metadata"}
_NOTICE = re.compile(r"\s*(?:<(?:environment_context|user_instructions|turn_aborted|permissions|skill)|# AGENTS\.md)")
_CWD = re.compile(r"<cwd>([^<]+)</cwd>")
# A forked session starts with a copy of the other session's records, written at once.
_COPY_TIME = timedelta(seconds=2)
# Codex keeps the latest user messages up to this size if a record does not list the new prompt.
_KEPT_USER_CHARS = 80_000
_MIN_PREFIX_CHARS = 40


def is_log_line(line: Mapping[str, Any]) -> bool:
    """Return True if a line is a record of a Codex log."""
    return line.get("type") in RECORDS and isinstance(line.get("payload"), dict)


def is_bare_header(line: Mapping[str, Any]) -> bool:
    """Return True for the first line of a log from before September 2025."""
    return "instructions" in line and "id" in line and "timestamp" in line and "type" not in line


class CodexParser:
    """Reads one log file."""

    def __init__(self, path: Path | None = None, *, keep_items: bool = False) -> None:
        self.log = SessionLog(NAME, "responses", keep_items=keep_items)
        self._thread_id: str | None = None
        self._copied_until: datetime | None = None
        self._is_forked = False
        self._last_total: Mapping[str, Any] | None = None
        self._context_tokens: int | None = None
        self._unsized: LogSpan | None = None
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
                self._add_item(line, record, self.log.first_at)
            return
        payload, at = line["payload"], as_text(line.get("timestamp"))
        match line["type"]:
            case "session_meta":
                self._read_meta(payload, as_text(payload.get("timestamp")) or at)
            case "turn_context":
                self.log.model = as_text(payload.get("model")) or self.log.model
                self.log.cwd = self.log.cwd or as_text(payload.get("cwd"))
            case "response_item":
                self._add_item(payload, record, at)
            case "event_msg":
                self._read_event(payload, at)
            case "compacted":
                self._add_compaction(payload, record, at)

    def finish(self) -> None:
        """Do nothing: each record is complete."""

    @property
    def _thread(self) -> Thread:
        return self.log.thread(self.log.agent_id or "")

    def _read_meta(self, meta: Mapping[str, Any], at: str | None) -> None:
        thread_id = as_text(meta.get("id")) or as_text(meta.get("session_id"))
        if self._thread_id is not None:
            # The header of the session that this one was forked from.
            self._is_forked = self._is_forked or thread_id != self._thread_id
            return
        self._thread_id = thread_id
        log = self.log
        log.cwd, log.version = as_text(meta.get("cwd")), as_text(meta.get("cli_version"))
        log.note_time(at)
        spawn = as_mapping(as_mapping(as_mapping(meta.get("source")).get("subagent")).get("thread_spawn"))
        parent = as_text(spawn.get("parent_thread_id")) or as_text(meta.get("parent_thread_id"))
        origin = as_text(meta.get("forked_from_id"))
        if (parent or origin) and (started := _parse_time(at)):
            self._copied_until = started + _COPY_TIME
        if parent:
            log.session_id, log.agent_id = parent, thread_id
            name = as_text(spawn.get("agent_role")) or as_text(meta.get("agent_nickname")) or "sub-agent"
            log.add_span(LogSpan("agent", name, at, key=f"agent:{thread_id}", parent=None))
            return
        log.session_id = thread_id
        if origin:
            log.link = SessionLink("forked", origin)

    def _is_copied(self, at: str | None) -> bool:
        if not self._is_forked or self._copied_until is None:
            return False
        moment = _parse_time(at)
        return moment is not None and moment <= self._copied_until

    # Items.

    def _add_item(self, item: Mapping[str, Any], record: LogRecord, at: str | None) -> None:
        is_copied = self._is_copied(at)
        if not is_copied:
            self.log.note_time(at)
        message = LogMessage(_item_id(item, record.digest), dict(item), at, record.line)
        self.log.add_message(self._thread, message)
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
            call = LogSpan(
                "tool", str(item.get("name") or kind), at, payload={"input": arguments}, key=f"tool:{call_id}"
            )
            self._thread.open_calls[call_id] = self.log.add_span(call, self._thread)
        elif kind in _OUTPUTS:
            self._has_new_result = True
            self._close_call(item, at)

    def _close_call(self, item: Mapping[str, Any], at: str | None) -> None:
        call = self._thread.open_calls.pop(str(item.get("call_id")), None)
        if call is None:
            return
        call.ended_at = at
        output = item.get("output")
        call.payload = {**call.payload, "output": without_images(output)}
        call.is_error = _has_failed(output)
        self.log.add_span(call, self._thread)
        if "spawn" in call.name and isinstance(output, str):
            self._connect_agent(output, call)

    def _connect_agent(self, output: str, call: LogSpan) -> None:
        """Connect a sub-agent, which has its own log, to the call that started it."""
        try:
            result = as_mapping(json.loads(output))
        except ValueError:
            return
        for name in ("agent_id", "thread_id", "id"):
            if agent_id := as_text(result.get(name)):
                self.log.add_span(LogSpan("agent", "sub-agent", key=f"agent:{agent_id}", parent=call.key))
                return

    def _add_message(self, role: str, text: str, message: LogMessage, at: str | None) -> None:
        if role == "assistant":
            generation = self._open_generation(message, at)
            output = [*as_list(generation.payload.get("output")), {"role": "assistant", "content": text}]
            generation.payload = {"output": output}
        elif role == "user":
            if not self.log.cwd and (match := _CWD.search(text)):
                self.log.cwd = match[1]
            message.is_program = _NOTICE.match(text) is not None
            name = "notice" if message.is_program else "user"
            span = LogSpan("user", name, at, at, payload={"text": text}, key=f"user:{message.id}")
            self.log.add_span(span, self._thread)

    def _open_generation(self, message: LogMessage, at: str | None) -> LogSpan:
        """Return the model call that an item belongs to. A call ends when the log reports its usage."""
        thread, log = self._thread, self.log
        span = thread.generation
        if span is None or span.usage or self._has_new_result:
            log.generations += 1
            name, data = log.model or "model", {"turn": log.generations}
            span = LogSpan("generation", name, at, at, log.model, data=data, key=f"generation:{message.id}")
            thread.generation = span
        self._has_new_result = False
        span.ended_at = at
        return log.add_span(span, thread)

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
        self.log.window_tokens = as_count(info.get("model_context_window")) or self.log.window_tokens
        usage = as_mapping(info.get("last_token_usage"))
        counts = {
            "input_tokens": as_count(usage.get("input_tokens")),
            "cached_tokens": as_count(usage.get("cached_input_tokens")),
            "output_tokens": as_count(usage.get("output_tokens")),
        }
        self._context_tokens = as_count(usage.get("total_tokens")) or sum(counts.values()) - counts["cached_tokens"]
        if counts["input_tokens"]:
            self._size_compaction(counts["input_tokens"])
        generation = self._thread.generation
        if generation is not None and counts["input_tokens"] and not generation.usage:
            generation.usage = counts
            self.log.add_span(generation, self._thread)

    def _size_compaction(self, tokens_after: int) -> None:
        """Give the last compaction the size of the next prompt. The log does not say how long its summary is."""
        span, self._unsized = self._unsized, None
        if span is None or span.compaction is None:
            return
        turn = span.compaction.turn
        span.compaction.tokens_after = tokens_after
        self.log.add_span(span, self._thread)
        span.compaction.turn = turn

    def _roll_back(self, turns: int) -> None:
        """Remove the last user turns from the prompt, as the user did."""
        messages = list(self._thread.context.values())
        while turns and messages:
            removed = messages.pop()
            is_request = removed.item.get("role") == "user" and not _NOTICE.match(
                text_blocks(removed.item.get("content"))
            )
            turns -= is_request
        self._thread.replace_context(messages)

    # Compactions.

    def _add_compaction(self, payload: Mapping[str, Any], record: LogRecord, at: str | None) -> None:
        thread = self._thread
        thread.compactions += 1
        compaction = Compaction(
            as_text(payload.get("window_id")) or record.digest,
            thread.compactions,
            NAME,
            at,
            tuple(thread.context.values()),
            "responses",
            trigger=as_text(payload.get("trigger")) or "auto",
            tokens_before=as_count(payload.get("tokens_before")) or self._context_tokens,
            thread=thread.key,
            line=record.line,
        )
        compaction.summary = as_text(payload.get("message"))
        history = payload.get("replacement_history")
        if isinstance(history, list):
            _apply_history(compaction, [item for item in history if isinstance(item, Mapping)])
        else:
            _keep_user_messages(compaction)
        thread.replace_context(compaction.after)
        thread.generation = None
        self._context_tokens = None
        if self._is_copied(at):
            return
        self.log.note_time(at)
        self._unsized = self.log.add_span(compaction_span(compaction, "Codex compacted"), thread)


def _apply_history(compaction: Compaction, history: Iterable[Mapping[str, Any]]) -> None:
    """Find the messages of the old prompt in the new one, and the summary among the others."""
    unmatched: dict[str, list[LogMessage]] = {}
    for message in compaction.before:
        unmatched.setdefault(_fingerprint(message.item), []).append(message)
    fates: dict[str, tuple[LogFate, str]] = {}
    after: list[LogMessage] = []
    added: list[LogMessage] = []
    for index, item in enumerate(history):
        same = unmatched.get(_fingerprint(item))
        if same:
            message = same.pop(0)
            fates[message.id] = ("kept", "in the replacement history")
        else:
            name = as_text(item.get("id")) or f"{compaction.id}-{index}"
            message = LogMessage(name, dict(item), compaction.at, compaction.line)
            added.append(message)
        after.append(message)
    compaction.fates, compaction.after = fates, tuple(after)
    rest = [message for messages in unmatched.values() for message in messages]
    _read_additions(compaction, added, rest)


def _read_additions(compaction: Compaction, added: list[LogMessage], rest: list[LogMessage]) -> None:
    """Find shortened messages and the summary among the items that the old prompt did not have."""
    fates, after = dict(compaction.fates), list(compaction.after)
    sealed = [message for message in added if message.item.get("type") in _SEALED]
    for message in added:
        original = _truncated_original(message, rest)
        if original is not None:
            fates[original.id] = ("truncated", "in the replacement history, shortened")
            after[after.index(message)] = LogMessage(original.id, message.item, original.at, original.line)
            rest.remove(original)
        elif message.item.get("role") in ("user", "assistant") and not sealed:
            compaction.summary = compaction.summary or text_blocks(message.item.get("content"))
            compaction.summary_id = message.id
            message.is_program = True
    if sealed:
        compaction.summary_id = sealed[-1].id
        compaction.is_opaque = not compaction.summary and not text_blocks(sealed[-1].item.get("summary"))
    compaction.fates, compaction.after = fates, tuple(after)


def _truncated_original(message: LogMessage, candidates: Iterable[LogMessage]) -> LogMessage | None:
    """Return the message that a shortened one was made from. Codex keeps its beginning and its end."""
    text = text_blocks(message.item.get("content"))
    if len(text) < _MIN_PREFIX_CHARS or message.item.get("type") != "message":
        return None
    start = text[:_MIN_PREFIX_CHARS]
    for candidate in candidates:
        if candidate.item.get("role") == message.item.get("role"):
            whole = text_blocks(candidate.item.get("content"))
            if len(whole) > len(text) and whole.startswith(start):
                return candidate
    return None


def _keep_user_messages(compaction: Compaction) -> None:
    """Assume the new prompt of versions that do not log it: the latest user messages and the summary."""
    fates: dict[str, tuple[LogFate, str]] = {}
    chars = 0
    for message in reversed(compaction.before):
        item = message.item
        if item.get("type") == "message" and item.get("role") == "user":
            chars += len(text_blocks(item.get("content")))
            if chars <= _KEPT_USER_CHARS:
                fates[message.id] = ("kept", "Codex keeps the latest user messages")
        elif item.get("type") == "message" and item.get("role") in ("system", "developer"):
            fates[message.id] = ("kept", "instructions")
    kept = [message for message in compaction.before if message.id in fates]
    name = f"{compaction.id}-summary"
    content = [{"type": "input_text", "text": compaction.summary or ""}]
    summary = LogMessage(name, {"type": "message", "role": "user", "content": content}, compaction.at, compaction.line)
    summary.is_program = True
    compaction.summary_id = name if compaction.summary else None
    compaction.fates = fates
    compaction.after = (*kept, summary) if compaction.summary else tuple(kept)


def without_images(output: Any) -> Any:
    """Return an output with a note in place of each image."""
    if not isinstance(output, list):
        return output
    return [
        {"type": "text", "text": "[image]"} if as_mapping(part).get("type") == "input_image" else part
        for part in output
    ]


def _fingerprint(item: Mapping[str, Any]) -> str:
    if item.get("type", "message") == "message" and item.get("role"):
        return content_hash({"role": item["role"], "text": text_blocks(item.get("content"))})
    return content_hash({key: value for key, value in item.items() if key not in _VOLATILE})


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
