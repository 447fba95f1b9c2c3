"""Sessions of opencode, from its storage (`opencode_store`) or from a document of `opencode export`.

A message of the user with a `compaction` part asks for a summary, and the assistant's message with `summary` answers.
From then on the prompt is both of them, and the messages from `tail_start_id` on. Old tool outputs that left the
prompt without a summary have a time in `compacted`, and stay in the storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from compact.importers.agents.claude_code import clear_results, compaction_span
from compact.importers.conversation import (
    LogSpan,
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

NAME = "opencode"
CONTENT = ("info", "parts", "messages")
_RESULTS = "/results"
_REQUEST = "What did we do so far?"
_SUBTASK = "The following tool was executed by the user"
_STOPPED = "MessageAbortedError"
_TEXT_FILES = ("text/plain", "application/x-directory")


def is_log_line(line: Mapping[str, Any]) -> bool:
    """Return True for the first record of a session, or for an exported document."""
    info = as_mapping(line.get("info"))
    return str(info.get("id")).startswith("ses") and "time" in info and "role" not in info


@dataclass(frozen=True, slots=True)
class _Request:
    """A compaction, the id of the message that asked for it, and the messages that come before its tail."""

    id: str
    compaction: Compaction
    head: tuple[LogMessage, ...]


class OpencodeParser:
    """Reads one session. Records that come again, as they are or changed, replace the earlier ones."""

    def __init__(self, path: Path | None = None, *, keep_items: bool = False) -> None:
        self.log = SessionLog(NAME, "anthropic", keep_items=keep_items)
        self._versions: dict[str, int] = {}
        """A hash of the last version of each message, to skip those that did not change."""
        self._turns: dict[str, int] = {}
        self._added: set[str] = set()
        """Every message that was in the prompt. One that changes after a compaction removed it does not return."""
        self._requests: dict[str, Mapping[str, Any]] = {}
        """The compaction part of each message that has one."""
        self._last: _Request | None = None
        self._prompt_tokens = 0
        self._pending: dict[str, int] = {}
        """The calls whose outputs were cleared at a time that is not reached yet."""
        self._cleared: set[str] = set()

    def feed(self, record: LogRecord) -> None:
        """Read one record."""
        line = record.value
        messages = as_list(line.get("messages"))
        if is_log_line(line):
            ids = as_list(line.get("messageIDs")) or [as_mapping(m.get("info")).get("id") for m in messages]
            self._read_session(as_mapping(line["info"]))
            self._remove_deleted(map(str, ids))
        elif "parts" in line:
            messages = [line]
        for message in messages:
            self._add_message(as_mapping(message), record)

    def finish(self) -> None:
        """Clear the outputs that left the prompt after the last message."""
        self._clear_outputs(None)

    @property
    def _thread(self) -> Thread:
        return self.log.thread(self.log.agent_id or "")

    def _read_session(self, info: Mapping[str, Any]) -> None:
        log = self.log
        name, parent = as_text(info.get("id")), as_text(info.get("parentID"))
        is_first = log.session_id is None
        log.session_id = name
        log.cwd = as_text(info.get("directory")) or log.cwd
        log.version = as_text(info.get("version"))
        at = _iso(as_mapping(info.get("time")).get("created"))
        if parent:
            log.session_id, log.agent_id = as_text(info.get("rootID")) or parent, name
            if is_first:
                title = as_text(info.get("title")) or "sub-agent"
                log.add_span(LogSpan("agent", title, at, key=f"agent:{name}", parent=None))
        log.note_time(at)

    def _remove_deleted(self, names: Iterable[str]) -> None:
        """Remove messages from the prompt that the user took back."""
        known = set(names)
        context = self._thread.context
        if any(name.removesuffix(_RESULTS) not in known for name in context):
            kept = [message for name, message in context.items() if name.removesuffix(_RESULTS) in known]
            self._thread.replace_context(kept)

    def _add_message(self, source: Mapping[str, Any], record: LogRecord) -> None:
        info, parts = as_mapping(source.get("info")), [as_mapping(part) for part in as_list(source.get("parts"))]
        name, version = as_text(info.get("id")) or record.digest, hash(str(source))
        if self._versions.get(name) == version or not parts:
            return  # A message is written before its parts.
        if info.get("summary") is True and not _is_finished(info):
            return
        times = as_mapping(info.get("time"))
        if name not in self._versions:
            self._clear_outputs(as_count(times.get("created")))
        self._versions[name] = version
        at = _iso(times.get("created"))
        self.log.note_time(at)
        if info.get("role") == "user":
            self._add_user(name, parts, at, record)
        elif info.get("role") == "assistant":
            self._add_assistant(name, info, parts, record)

    def _add_user(self, name: str, parts: list[Mapping[str, Any]], at: str | None, record: LogRecord) -> None:
        text = "\n".join(filter(None, map(_user_text, parts)))
        is_program = all(part.get("synthetic") or part.get("type") in ("compaction", "subtask") for part in parts)
        request = next((part for part in parts if part.get("type") == "compaction"), None)
        if request is not None:
            self._requests[name] = request
        self._put(LogMessage(name, {"role": "user", "content": text}, at, record.line, is_program=is_program))
        if request is not None and self._last is not None and self._last.id == name:
            self._keep_tail(self._last, request)
        label = "notice" if is_program else "user"
        self.log.add_span(LogSpan("user", label, at, at, payload={"text": text}, key=f"user:{name}"), self._thread)

    def _add_assistant(
        self, name: str, info: Mapping[str, Any], parts: list[Mapping[str, Any]], record: LogRecord
    ) -> None:
        times = as_mapping(info.get("time"))
        at, ended_at = _iso(times.get("created")), _iso(times.get("completed"))
        self.log.cwd = self.log.cwd or as_text(as_mapping(info.get("path")).get("cwd"))
        self.log.note_time(ended_at)
        message = LogMessage(name, {"role": "assistant", "content": _blocks(parts)}, at, record.line)
        is_new_compaction = info.get("summary") is True and not info.get("error") and name not in self._turns
        tokens = as_mapping(info.get("tokens"))
        self._add_generation(name, info, message, tokens)
        for part in parts:
            if part.get("type") == "tool":
                self._add_call(part, at)
        if is_new_compaction:
            self._add_compaction(message, info, record)
        elif message.item["content"] and _is_in_prompt(info):
            self._put(message)
            if results := _results(parts, self._cleared):
                self._put(LogMessage(f"{name}{_RESULTS}", {"role": "user", "content": results}, ended_at, record.line))
        if info.get("summary") is not True:
            self._prompt_tokens = sum(_usage(tokens)[key] for key in ("input_tokens", "output_tokens"))

    def _put(self, message: LogMessage) -> None:
        """Add a message to the prompt, or replace its earlier version."""
        known = self._thread.context.get(message.id)
        if known is not None:
            known.item.clear()
            known.item.update(message.item)
            known.masked, known.is_program = None, message.is_program
        elif message.id not in self._added:
            self._added.add(message.id)
            self.log.add_message(self._thread, message)

    def _add_generation(
        self, name: str, info: Mapping[str, Any], message: LogMessage, tokens: Mapping[str, Any]
    ) -> None:
        model, times = as_text(info.get("modelID")), as_mapping(info.get("time"))
        self.log.model = model or self.log.model
        if name not in self._turns:
            self.log.generations += 1
            self._turns[name] = self.log.generations
        usage = _usage(tokens)
        span = LogSpan(
            "generation", model or "model", message.at, _iso(times.get("completed")) or message.at, model,
            usage if usage["input_tokens"] else {}, data={"turn": self._turns[name]},
            payload={"output": [message.item]}, is_error=bool(info.get("error")), key=f"generation:{name}",
        )  # fmt: skip
        self.log.add_span(span, self._thread)

    def _add_call(self, part: Mapping[str, Any], at: str | None) -> None:
        state = as_mapping(part.get("state"))
        times, call_id = as_mapping(state.get("time")), _call_id(part)
        is_done = state.get("status") in ("completed", "error")
        payload = {"input": state.get("input")}
        if is_done:
            payload["output"] = state.get("output") if state.get("status") == "completed" else state.get("error")
        span = LogSpan(
            "tool", str(part.get("tool")), _iso(times.get("start")) or at,
            (_iso(times.get("end")) or at) if is_done else None, payload=payload,
            is_error=state.get("status") == "error", key=f"tool:{call_id}",
        )  # fmt: skip
        self.log.add_span(span, self._thread)
        if is_done:
            self._thread.open_calls.pop(call_id, None)
        else:
            self._thread.open_calls[call_id] = span
        if (compacted := as_count(times.get("compacted"))) and call_id not in self._cleared:
            self._pending[call_id] = compacted

    def _add_compaction(self, summary: LogMessage, info: Mapping[str, Any], record: LogRecord) -> None:
        thread, request_id = self._thread, str(info.get("parentID"))
        request = self._requests.get(request_id, {})
        asked = thread.context.pop(request_id, None) if request else None
        times = as_mapping(info.get("time"))
        created, completed = as_count(times.get("created")), as_count(times.get("completed"))
        before = tuple(thread.context.values())
        compaction = self._new_compaction(summary.id, _iso(completed) or summary.at, before, record)
        compaction.trigger = "manual" if request.get("auto") is False else "auto"
        compaction.tokens_before = self._prompt_tokens or None
        compaction.duration_ms = max(0, completed - created) or None
        compaction.summary = text_blocks(summary.item["content"])
        compaction.summary_id = summary.id
        self._added.add(summary.id)
        if self.log.items is not None and not thread.key:
            self.log.items.append(summary.item)
        self._last = _Request(request_id, compaction, (asked, summary) if asked else (summary,))
        self._keep_tail(self._last, request)

    def _keep_tail(self, made: _Request, request: Mapping[str, Any]) -> None:
        """Set the prompt after a compaction. opencode writes where the tail starts after the summary."""
        compaction, thread = made.compaction, self._thread
        name = as_text(request.get("tail_start_id"))
        ids = [message.id for message in compaction.before]
        tail = compaction.before[ids.index(name) :] if name in ids else ()
        old = {*ids, *(message.id for message in made.head)}
        newer = [message for message in thread.context.values() if message.id not in old]
        compaction.fates = {message.id: ("kept", "in the kept tail") for message in tail}
        compaction.after = (*made.head, *tail)
        thread.replace_context([*compaction.after, *newer])
        self.log.add_span(compaction_span(compaction, "opencode compacted"), thread)

    def _clear_outputs(self, until: int | None) -> None:
        """Clear the outputs that left the prompt up to a time, in milliseconds."""
        reached = {call: at for call, at in self._pending.items() if until is None or at <= until}
        if not reached:
            return
        self._pending = {call: at for call, at in self._pending.items() if call not in reached}
        self._cleared |= set(reached)
        thread = self._thread
        before = tuple(thread.context.values())
        after: list[LogMessage] = []
        fates: dict[str, tuple[LogFate, str]] = {}
        for message in before:
            item = clear_results(message.item, set(reached))
            is_cleared = item is not message.item
            fates[message.id] = ("cleared", "old tool result") if is_cleared else ("kept", "not a cleared tool result")
            after.append(LogMessage(message.id, item, message.at, message.line) if is_cleared else message)
        if all(fate == "kept" for fate, _ in fates.values()):
            return  # A summary had already replaced them.
        name = f"{min(reached)}-cleared"
        compaction = self._new_compaction(name, _iso(max(reached.values())), before, None)
        compaction.tokens_before = self._prompt_tokens or None
        compaction.fates, compaction.after = fates, tuple(after)
        thread.replace_context(after)
        self.log.add_span(compaction_span(compaction, "opencode cleared old tool results"), thread)

    def _new_compaction(
        self, name: str, at: str | None, before: tuple[LogMessage, ...], record: LogRecord | None
    ) -> Compaction:
        thread = self._thread
        thread.compactions += 1
        line = record.line if record else 0
        compaction = Compaction(name, thread.compactions, NAME, at, before, "anthropic", line=line)
        compaction.thread = thread.key
        return compaction


def _is_finished(info: Mapping[str, Any]) -> bool:
    return bool(info.get("finish") or info.get("error") or as_mapping(info.get("time")).get("completed"))


def _is_in_prompt(info: Mapping[str, Any]) -> bool:
    """Return False for an answer that failed. One that the user stopped is kept."""
    error = as_mapping(info.get("error"))
    return not error or (error.get("name") == _STOPPED and info.get("summary") is not True)


def _user_text(part: Mapping[str, Any]) -> str:
    """Return what a part of the user's message says in the prompt."""
    match part.get("type"):
        case "text":
            return "" if part.get("ignored") else str(part.get("text") or "")
        case "file" if part.get("mime") not in _TEXT_FILES:
            return f"[Attached {part.get('mime')}: {part.get('filename') or 'file'}]"
        case "compaction":
            return _REQUEST
        case "subtask":
            return "\n".join(filter(None, (_SUBTASK, as_text(part.get("prompt")))))
    return ""


def _blocks(parts: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the parts of an assistant's message in Anthropic's format."""
    blocks: list[dict[str, Any]] = []
    for part in parts:
        match part.get("type"):
            case "text" if part.get("text"):
                blocks.append({"type": "text", "text": str(part["text"])})
            case "reasoning" if part.get("text"):
                blocks.append({"type": "thinking", "thinking": str(part["text"])})
            case "tool":
                arguments = dict(as_mapping(as_mapping(part.get("state")).get("input")))
                call = {"type": "tool_use", "id": _call_id(part), "name": str(part.get("tool")), "input": arguments}
                blocks.append(call)
    return blocks


def _results(parts: list[Mapping[str, Any]], cleared: set[str]) -> list[dict[str, Any]]:
    """Return the results of the calls in a message."""
    results: list[dict[str, Any]] = []
    for part in parts:
        state = as_mapping(part.get("state"))
        if part.get("type") != "tool" or state.get("status") not in ("completed", "error"):
            continue
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": _call_id(part)}
        if state.get("status") == "error":
            block |= {"content": str(state.get("error") or ""), "is_error": True}
        else:
            block["content"] = str(state.get("output") or "")
        results.append(block)
    item = clear_results({"content": results}, cleared)
    return list(item["content"])


def _call_id(part: Mapping[str, Any]) -> str:
    return as_text(part.get("callID")) or str(part.get("id"))


def _usage(tokens: Mapping[str, Any]) -> dict[str, int]:
    cache = as_mapping(tokens.get("cache"))
    read = as_count(cache.get("read"))
    return {
        "input_tokens": as_count(tokens.get("input")) + read + as_count(cache.get("write")),
        "cached_tokens": read,
        "output_tokens": as_count(tokens.get("output")) + as_count(tokens.get("reasoning")),
    }


def _iso(milliseconds: Any) -> str | None:
    count = as_count(milliseconds)
    return datetime.fromtimestamp(count / 1000, UTC).isoformat(timespec="milliseconds") if count else None
