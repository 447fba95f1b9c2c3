"""Session logs of Gemini CLI (`~/.gemini/tmp/<project>/chats/session-*.json` and, since 0.45, `*.jsonl`).

The older form is one JSON document that is rewritten after each message. The newer one is a journal: a message that
appears again replaces the earlier version, `$set` replaces all messages, and `$rewindTo` removes the latest ones. A
`$set` whose messages begin with a state snapshot is a compaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compact.agents.gemini.notices import SNAPSHOT, is_notice
from compact.agents.log_records import LogRecord
from compact.ledgers.foreign_compaction import LogMessage
from compact.messages.json_values import as_count, as_list, as_mapping, as_text, text_blocks
from compact.messages.usage import Usage
from compact.recording import SessionRecorder

NAME = "gemini-cli"
CONTENT = ("messages", "$set", "content", "toolCalls")
_RESULTS = "/results"
_FINISHED = ("success", "error", "cancelled")  # codespell:ignore cancelled


def is_log_line(line: Mapping[str, Any]) -> bool:
    """Return True for the first line of a journal, or for a whole document."""
    return "sessionId" in line and "projectHash" in line


class GeminiParser:
    """Reads one log file."""

    def __init__(self, path: Path | None = None, *, keep_items: bool = False) -> None:
        self.recorder = SessionRecorder(NAME, "anthropic", keep_items=keep_items)
        self._parent_session: str | None = None
        if path is not None:
            self._read_place(path)

    def feed(self, record: LogRecord) -> None:
        """Read one record."""
        line = record.value
        if is_log_line(line):
            self._read_header(line)
            for message in as_list(line.get("messages")):
                self._add_message(as_mapping(message), record)
        elif "$rewindTo" in line:
            self._rewind(str(line["$rewindTo"]))
        elif "$set" in line:
            changes = as_mapping(line["$set"])
            if isinstance(changes.get("messages"), list):
                self._set_messages([as_mapping(message) for message in changes["messages"]], record)
        elif as_text(line.get("id")):
            self._add_message(line, record)

    def finish(self) -> None:
        """Do nothing: each record is complete."""

    def _read_place(self, path: Path) -> None:
        """Read the project folder and the parent session of a sub-agent from the path."""
        chats = path.parent
        if chats.name != "chats" and chats.parent.name == "chats":
            self._parent_session, chats = chats.name, chats.parent
        try:
            self.recorder.cwd = (chats.parent / ".project_root").read_text().strip() or None
        except (OSError, UnicodeDecodeError):
            self.recorder.cwd = None

    def _read_header(self, line: Mapping[str, Any]) -> None:
        recorder = self.recorder
        session_id, started_at = as_text(line.get("sessionId")), as_text(line.get("startTime"))
        directories = as_list(line.get("directories"))
        recorder.cwd = recorder.cwd or (as_text(directories[0]) if directories else None)
        if line.get("kind") == "subagent" and self._parent_session:
            recorder.session_id, recorder.agent_id = self._parent_session, session_id
            recorder.agent(str(session_id), at=started_at)
        else:
            recorder.session_id = session_id
        recorder.note_time(started_at)

    def _add_message(self, source: Mapping[str, Any], record: LogRecord) -> None:
        name, kind = as_text(source.get("id")) or record.digest, source.get("type")
        if kind not in ("user", "gemini") or not self.recorder.is_new_version(name, source):
            return
        at = as_text(source.get("timestamp"))
        self.recorder.note_time(at)
        messages = _messages(source, name, at, record.line)
        for message in messages:
            self.recorder.put(message)
        if kind == "user":
            self.recorder.user(messages[0], text_blocks(source.get("content")))
        else:
            self._add_generation(source, name, at)

    def _add_generation(self, source: Mapping[str, Any], name: str, at: str | None) -> None:
        tokens = as_mapping(source.get("tokens"))
        input_tokens, cached, output, thoughts = (
            as_count(tokens.get(name)) for name in ("input", "cached", "output", "thoughts")
        )
        span = self.recorder.generation(name, at=at, model=as_text(source.get("model")))
        span.started_at = span.ended_at = at
        self.recorder.count(span, Usage(input_tokens, output + thoughts, cached))
        span.payload = {"output": [{"role": "assistant", "content": text_blocks(source.get("content"))}]}
        for index, call in enumerate(as_list(source.get("toolCalls"))):
            self._add_call(as_mapping(call), f"{name}-{index}", at)

    def _add_call(self, call: Mapping[str, Any], name: str, at: str | None) -> None:
        call_id, status = as_text(call.get("id")) or name, call.get("status")
        self.recorder.call(call_id, str(call.get("name")), call.get("args"), at=at)
        if status in _FINISHED:
            output = call.get("resultDisplay") or call.get("result")
            ended_at = as_text(call.get("timestamp")) or at
            self.recorder.result(call_id, output, at=ended_at, is_error=status == "error")

    def _rewind(self, name: str) -> None:
        """Remove a message and everything after it from the prompt."""
        messages = list(self.recorder.own_thread.prompt.values())
        ids = [message.id for message in messages]
        self.recorder.set_prompt(messages[: ids.index(name)] if name in ids else ())

    def _set_messages(self, sources: list[Mapping[str, Any]], record: LogRecord) -> None:
        before = tuple(self.recorder.own_thread.prompt.values())
        names = [as_text(source.get("id")) or f"{record.digest}-{index}" for index, source in enumerate(sources)]
        is_compaction = any(SNAPSHOT in text_blocks(source.get("content")) for source in sources[:2])
        if before and is_compaction and not any(SNAPSHOT in str(message.item) for message in before[:2]):
            self._add_compaction(sources, names, record)
            return
        for source, name in zip(sources, names, strict=True):
            self._add_message({**source, "id": name}, record)
        prompt = set(names) | {f"{name}{_RESULTS}" for name in names}
        messages = self.recorder.own_thread.prompt.values()
        self.recorder.set_prompt(message for message in messages if message.id in prompt)

    def _add_compaction(self, sources: list[Mapping[str, Any]], names: list[str], record: LogRecord) -> None:
        times = [at for source in sources if (at := as_text(source.get("timestamp")))]
        at = max([*times, *filter(None, (self.recorder.last_at,))], default=None)
        compaction = self.recorder.begin_compaction(record.digest, at=at, line=record.line)
        known = {message.id: message for message in compaction.before}
        after: list[LogMessage] = []
        for source, name in zip(sources, names, strict=True):
            text = text_blocks(source.get("content"))
            if SNAPSHOT in text and compaction.summary is None:
                compaction.summary, compaction.summary_id = text, name
            own = _messages(source, name, as_text(source.get("timestamp")), record.line)
            after.extend(known.get(message.id, message) for message in own)
            self.recorder.is_new_version(name, {**source, "id": name})
        compaction.fates = {m.id: ("kept", "in the new history") for m in after if m.id in known}
        compaction.after = tuple(after)
        self.recorder.compaction(compaction, "Gemini CLI compacted")


def _messages(source: Mapping[str, Any], name: str, at: str | None, line: int) -> list[LogMessage]:
    """Return a message in Anthropic's format, followed by the results of its calls."""
    text = text_blocks(source.get("content"))
    if source.get("type") != "gemini":
        return [LogMessage(name, {"role": "user", "content": text}, at, line, is_program=is_notice(text))]
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    results: list[dict[str, Any]] = []
    for index, value in enumerate(as_list(source.get("toolCalls"))):
        call = as_mapping(value)
        call_id = as_text(call.get("id")) or f"{name}-{index}"
        arguments = as_mapping(call.get("args"))
        blocks.append({"type": "tool_use", "id": call_id, "name": str(call.get("name")), "input": dict(arguments)})
        if "result" in call or "resultDisplay" in call:
            results.append({"type": "tool_result", "tool_use_id": call_id, "content": _result_text(call)})
    messages = [LogMessage(name, {"role": "assistant", "content": blocks}, at, line)]
    if results:
        messages.append(LogMessage(f"{name}{_RESULTS}", {"role": "user", "content": results}, at, line))
    return messages


def _result_text(call: Mapping[str, Any]) -> str:
    """Return the output of a call. The API's form nests it in function responses."""
    outputs = []
    for part in as_list(call.get("result")):
        response = as_mapping(as_mapping(as_mapping(part).get("functionResponse")).get("response"))
        outputs.append(str(response.get("output") or response.get("error") or as_mapping(part).get("text") or ""))
    return "\n".join(filter(None, outputs)) or str(call.get("resultDisplay") or call.get("result") or "")
