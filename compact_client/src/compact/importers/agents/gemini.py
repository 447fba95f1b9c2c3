"""Session logs of Gemini CLI (`~/.gemini/tmp/<project>/chats/session-*.json` and, since 0.45, `*.jsonl`).

The older form is one JSON document that is rewritten after each message. The newer one is a journal: a message that
appears again replaces the earlier version, `$set` replaces all messages, and `$rewindTo` removes the latest ones. A
`$set` whose messages begin with a state snapshot is a compaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compact.importers.agents.claude_code import compaction_span
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
from compact.ledgers.foreign_compaction import Compaction, LogMessage

NAME = "gemini-cli"
CONTENT = ("messages", "$set", "content", "toolCalls")
_SNAPSHOT = "<state_snapshot>"
_RESULTS = "/results"
_PROGRAM_TEXTS = ("<session_context>", _SNAPSHOT)


def is_log_line(line: Mapping[str, Any]) -> bool:
    """Return True for the first line of a journal, or for a whole document."""
    return "sessionId" in line and "projectHash" in line


class GeminiParser:
    """Reads one log file."""

    def __init__(self, path: Path | None = None, *, keep_items: bool = False) -> None:
        self.log = SessionLog(NAME, "anthropic", keep_items=keep_items)
        self._versions: dict[str, int] = {}
        """A hash of the last version of each message, to skip those that did not change."""
        self._turns: dict[str, int] = {}
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

    @property
    def _thread(self) -> Thread:
        return self.log.thread(self.log.agent_id or "")

    def _read_place(self, path: Path) -> None:
        """Read the project folder and the parent session of a sub-agent from the path."""
        chats = path.parent
        if chats.name != "chats" and chats.parent.name == "chats":
            self._parent_session, chats = chats.name, chats.parent
        try:
            self.log.cwd = (chats.parent / ".project_root").read_text().strip() or None
        except (OSError, UnicodeDecodeError):
            self.log.cwd = None

    def _read_header(self, line: Mapping[str, Any]) -> None:
        log = self.log
        session_id = as_text(line.get("sessionId"))
        directories = as_list(line.get("directories"))
        log.cwd = log.cwd or (as_text(directories[0]) if directories else None)
        if line.get("kind") == "subagent" and self._parent_session:
            log.session_id, log.agent_id = self._parent_session, session_id
            started_at = as_text(line.get("startTime"))
            log.add_span(LogSpan("agent", "sub-agent", started_at, key=f"agent:{session_id}", parent=None))
        else:
            log.session_id = session_id
        log.note_time(as_text(line.get("startTime")))

    def _add_message(self, source: Mapping[str, Any], record: LogRecord) -> None:
        name, kind = as_text(source.get("id")) or record.digest, source.get("type")
        version = hash(str(source))
        if self._versions.get(name) == version or kind not in ("user", "gemini"):
            return
        self._versions[name] = version
        at = as_text(source.get("timestamp"))
        self.log.note_time(at)
        for message in _messages(source, name, at, record.line):
            known = self._thread.context.get(message.id)
            if known is not None:
                known.item.clear()
                known.item.update(message.item)
                known.masked = None
            else:
                self.log.add_message(self._thread, message)
        if kind == "user":
            text = text_blocks(source.get("content"))
            label = "notice" if text.lstrip().startswith(_PROGRAM_TEXTS) else "user"
            span = LogSpan("user", label, at, at, payload={"text": text}, key=f"user:{name}")
            self.log.add_span(span, self._thread)
        else:
            self._add_generation(source, name, at)

    def _add_generation(self, source: Mapping[str, Any], name: str, at: str | None) -> None:
        model = as_text(source.get("model"))
        self.log.model = model or self.log.model
        tokens = as_mapping(source.get("tokens"))
        usage = {
            "input_tokens": as_count(tokens.get("input")),
            "cached_tokens": as_count(tokens.get("cached")),
            "output_tokens": as_count(tokens.get("output")) + as_count(tokens.get("thoughts")),
        }
        output = [{"role": "assistant", "content": text_blocks(source.get("content"))}]
        if f"generation:{name}" not in self._turns:
            self.log.generations += 1
            self._turns[f"generation:{name}"] = self.log.generations
        span = LogSpan(
            "generation", model or "model", at, at, model, usage if usage["input_tokens"] else {},
            data={"turn": self._turns[f"generation:{name}"]}, payload={"output": output}, key=f"generation:{name}",
        )  # fmt: skip
        self.log.add_span(span, self._thread)
        for index, call in enumerate(as_list(source.get("toolCalls"))):
            self._add_call(as_mapping(call), f"{name}-{index}", at)

    def _add_call(self, call: Mapping[str, Any], name: str, at: str | None) -> None:
        status = call.get("status")
        is_done = status in ("success", "error", "cancelled")  # codespell:ignore cancelled
        payload = {"input": call.get("args"), "output": call.get("resultDisplay") or call.get("result")}
        span = LogSpan(
            "tool", str(call.get("name")), at, (as_text(call.get("timestamp")) or at) if is_done else None,
            payload=payload, is_error=status == "error", key=f"tool:{as_text(call.get('id')) or name}",
        )  # fmt: skip
        self.log.add_span(span, self._thread)

    def _rewind(self, name: str) -> None:
        """Remove a message and everything after it from the prompt."""
        messages = list(self._thread.context.values())
        ids = [message.id for message in messages]
        self._thread.replace_context(messages[: ids.index(name)] if name in ids else ())

    def _set_messages(self, sources: list[Mapping[str, Any]], record: LogRecord) -> None:
        thread = self._thread
        before = tuple(thread.context.values())
        names = [as_text(source.get("id")) or f"{record.digest}-{index}" for index, source in enumerate(sources)]
        is_compaction = any(_SNAPSHOT in text_blocks(source.get("content")) for source in sources[:2])
        if not before or not is_compaction or any(_SNAPSHOT in str(message.item) for message in before[:2]):
            for source, name in zip(sources, names, strict=True):
                self._add_message({**source, "id": name}, record)
            prompt = set(names) | {f"{name}{_RESULTS}" for name in names}
            thread.replace_context(message for message in thread.context.values() if message.id in prompt)
            return
        self._add_compaction(sources, names, before, record)

    def _add_compaction(
        self, sources: list[Mapping[str, Any]], names: list[str], before: tuple[LogMessage, ...], record: LogRecord
    ) -> None:
        thread = self._thread
        thread.compactions += 1
        times = [at for source in sources if (at := as_text(source.get("timestamp")))]
        at = max([*times, *filter(None, (self.log.last_at,))], default=None)
        compaction = Compaction(record.digest, thread.compactions, NAME, at, before, "anthropic", line=record.line)
        compaction.thread = thread.key
        known = {message.id: message for message in before}
        after: list[LogMessage] = []
        for source, name in zip(sources, names, strict=True):
            text = text_blocks(source.get("content"))
            if _SNAPSHOT in text and compaction.summary is None:
                compaction.summary, compaction.summary_id = text, name
            own = _messages(source, name, as_text(source.get("timestamp")), record.line)
            after.extend(known.get(message.id, message) for message in own)
            self._versions[name] = hash(str({**source, "id": name}))
        compaction.fates = {m.id: ("kept", "in the new history") for m in after if m.id in known}
        compaction.after = tuple(after)
        thread.replace_context(after)
        self.log.add_span(compaction_span(compaction, "Gemini CLI compacted"), thread)


def _messages(source: Mapping[str, Any], name: str, at: str | None, line: int) -> list[LogMessage]:
    """Return a message in Anthropic's format, followed by the results of its calls."""
    text = text_blocks(source.get("content"))
    if source.get("type") != "gemini":
        is_program = text.lstrip().startswith(_PROGRAM_TEXTS)
        return [LogMessage(name, {"role": "user", "content": text}, at, line, is_program=is_program)]
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
