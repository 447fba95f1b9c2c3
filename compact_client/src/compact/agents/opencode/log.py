"""Sessions of opencode, from its storage (`storage`) or from a document of `opencode export`.

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

from compact.agents.log_records import LogRecord
from compact.agents.tool_results import clear_prompt, clear_results
from compact.ledgers.foreign_compaction import Compaction, LogMessage
from compact.messages.json_values import as_count, as_list, as_mapping, as_text, text_blocks
from compact.messages.usage import Usage
from compact.recording import SessionRecorder

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
        self.recorder = SessionRecorder(NAME, "anthropic", keep_items=keep_items)
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

    def _read_session(self, info: Mapping[str, Any]) -> None:
        recorder = self.recorder
        name, parent = as_text(info.get("id")), as_text(info.get("parentID"))
        is_first = recorder.session_id is None
        recorder.session_id = name
        recorder.cwd = as_text(info.get("directory")) or recorder.cwd
        recorder.version = as_text(info.get("version"))
        at = _iso(as_mapping(info.get("time")).get("created"))
        if parent:
            recorder.session_id, recorder.agent_id = as_text(info.get("rootID")) or parent, name
            if is_first:
                recorder.agent(str(name), name=as_text(info.get("title")), at=at)
        recorder.note_time(at)

    def _remove_deleted(self, names: Iterable[str]) -> None:
        """Remove messages from the prompt that the user took back."""
        known = set(names)
        prompt = self.recorder.own_thread.prompt
        if any(name.removesuffix(_RESULTS) not in known for name in prompt):
            self.recorder.set_prompt(
                message for name, message in prompt.items() if name.removesuffix(_RESULTS) in known
            )

    def _add_message(self, source: Mapping[str, Any], record: LogRecord) -> None:
        info, parts = as_mapping(source.get("info")), [as_mapping(part) for part in as_list(source.get("parts"))]
        name = as_text(info.get("id")) or record.digest
        if not parts or (info.get("summary") is True and not _is_finished(info)):
            return  # A message is written before its parts.
        is_known = self.recorder.has_version(name)
        if not self.recorder.is_new_version(name, source):
            return
        times = as_mapping(info.get("time"))
        if not is_known:
            self._clear_outputs(as_count(times.get("created")))
        at = _iso(times.get("created"))
        self.recorder.note_time(at)
        if info.get("role") == "user":
            self._add_user(name, parts, at, record)
        elif info.get("role") == "assistant":
            self._add_assistant(name, info, parts, record, is_known=is_known)

    def _add_user(self, name: str, parts: list[Mapping[str, Any]], at: str | None, record: LogRecord) -> None:
        text = "\n".join(filter(None, map(_user_text, parts)))
        is_program = all(part.get("synthetic") or part.get("type") in ("compaction", "subtask") for part in parts)
        request = next((part for part in parts if part.get("type") == "compaction"), None)
        if request is not None:
            self._requests[name] = request
        message = LogMessage(name, {"role": "user", "content": text}, at, record.line, is_program=is_program)
        self.recorder.put(message)
        if request is not None and self._last is not None and self._last.id == name:
            self._keep_tail(self._last, request)
        self.recorder.user(message, text)

    def _add_assistant(
        self,
        name: str,
        info: Mapping[str, Any],
        parts: list[Mapping[str, Any]],
        record: LogRecord,
        *,
        is_known: bool,
    ) -> None:
        times = as_mapping(info.get("time"))
        at, ended_at = _iso(times.get("created")), _iso(times.get("completed"))
        self.recorder.cwd = self.recorder.cwd or as_text(as_mapping(info.get("path")).get("cwd"))
        self.recorder.note_time(ended_at)
        message = LogMessage(name, {"role": "assistant", "content": _blocks(parts)}, at, record.line)
        tokens = as_mapping(info.get("tokens"))
        self._add_generation(info, message, tokens)
        for part in parts:
            if part.get("type") == "tool":
                self._add_call(part, at)
        if info.get("summary") is True and not info.get("error") and not is_known:
            self._add_compaction(message, info, record)
        elif message.item["content"] and _is_in_prompt(info):
            self.recorder.put(message)
            if results := _results(parts, self._cleared):
                item = {"role": "user", "content": results}
                self.recorder.put(LogMessage(f"{name}{_RESULTS}", item, ended_at, record.line))
        if info.get("summary") is not True:
            self._prompt_tokens = _usage(tokens).total_tokens

    def _add_generation(self, info: Mapping[str, Any], message: LogMessage, tokens: Mapping[str, Any]) -> None:
        span = self.recorder.generation(message.id, at=message.at, model=as_text(info.get("modelID")))
        span.ended_at = _iso(as_mapping(info.get("time")).get("completed")) or message.at
        self.recorder.count(span, _usage(tokens))
        span.payload = {"output": [message.item]}
        span.is_error = bool(info.get("error"))

    def _add_call(self, part: Mapping[str, Any], at: str | None) -> None:
        state = as_mapping(part.get("state"))
        times, call_id, status = as_mapping(state.get("time")), _call_id(part), state.get("status")
        self.recorder.call(call_id, str(part.get("tool")), state.get("input"), at=_iso(times.get("start")) or at)
        if status in ("completed", "error"):
            output = state.get("output") if status == "completed" else state.get("error")
            self.recorder.result(call_id, output, at=_iso(times.get("end")) or at, is_error=status == "error")
        if (compacted := as_count(times.get("compacted"))) and call_id not in self._cleared:
            self._pending[call_id] = compacted

    def _add_compaction(self, summary: LogMessage, info: Mapping[str, Any], record: LogRecord) -> None:
        recorder, request_id = self.recorder, str(info.get("parentID"))
        request = self._requests.get(request_id, {})
        prompt = recorder.own_thread.prompt
        asked = prompt.get(request_id) if request else None
        if asked is not None:
            recorder.set_prompt(message for message in prompt.values() if message is not asked)
        times = as_mapping(info.get("time"))
        created, completed = as_count(times.get("created")), as_count(times.get("completed"))
        compaction = recorder.begin_compaction(summary.id, at=_iso(completed) or summary.at, line=record.line)
        compaction.trigger = "manual" if request.get("auto") is False else "auto"
        compaction.tokens_before = self._prompt_tokens or None
        compaction.duration_ms = max(0, completed - created) or None
        compaction.summary = text_blocks(summary.item["content"])
        compaction.summary_id = summary.id
        recorder.add(summary)
        self._last = _Request(request_id, compaction, (asked, summary) if asked else (summary,))
        self._keep_tail(self._last, request)

    def _keep_tail(self, made: _Request, request: Mapping[str, Any]) -> None:
        """Set the prompt after a compaction. opencode writes where the tail starts after the summary."""
        compaction = made.compaction
        name = as_text(request.get("tail_start_id"))
        ids = [message.id for message in compaction.before]
        tail = compaction.before[ids.index(name) :] if name in ids else ()
        old = {*ids, *(message.id for message in made.head)}
        newer = [message for message in self.recorder.own_thread.prompt.values() if message.id not in old]
        compaction.fates = {message.id: ("kept", "in the kept tail") for message in tail}
        compaction.after = (*made.head, *tail)
        self.recorder.compaction(compaction, "opencode compacted", newer=newer)

    def _clear_outputs(self, until: int | None) -> None:
        """Clear the outputs that left the prompt up to a time, in milliseconds."""
        reached = {call: at for call, at in self._pending.items() if until is None or at <= until}
        if not reached:
            return
        self._pending = {call: at for call, at in self._pending.items() if call not in reached}
        self._cleared |= set(reached)
        after, fates = clear_prompt(self.recorder.own_thread.prompt.values(), set(reached))
        if all(fate == "kept" for fate, _ in fates.values()):
            return  # A summary had already replaced them.
        compaction = self.recorder.begin_compaction(f"{min(reached)}-cleared", at=_iso(max(reached.values())))
        compaction.tokens_before = self._prompt_tokens or None
        compaction.fates, compaction.after = fates, after
        self.recorder.compaction(compaction, "opencode cleared old tool results")


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


def _usage(tokens: Mapping[str, Any]) -> Usage:
    cache = as_mapping(tokens.get("cache"))
    return Usage.with_cache(
        as_count(tokens.get("input")),
        cached=as_count(cache.get("read")),
        cache_write=as_count(cache.get("write")),
        output=as_count(tokens.get("output")) + as_count(tokens.get("reasoning")),
    )


def _iso(milliseconds: Any) -> str | None:
    count = as_count(milliseconds)
    return datetime.fromtimestamp(count / 1000, UTC).isoformat(timespec="milliseconds") if count else None
