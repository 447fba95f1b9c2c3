"""Session logs of Claude Code, versions 1 and 2 (`~/.claude/projects/<folder>/<session>.jsonl`).

Claude Code writes an assistant message block by block, with tool results in between, so records with one `message.id`
form one model call. Sub-agents are side chains in the same file (version 1) or files of their own (version 2). Records
that were copied from another session when it was resumed or forked are part of the prompt, but not of the timeline.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compact.agents.claude_code import NAME
from compact.agents.claude_code.notices import is_notice
from compact.agents.log_records import LogRecord, parse_line
from compact.agents.tool_results import clear_prompt, without_images
from compact.ledgers.foreign_compaction import Compaction, LogMessage
from compact.messages.json_values import as_count, as_list, as_mapping, as_text, text_blocks
from compact.messages.usage import Usage
from compact.recording import SessionLink, SessionRecorder, Thread

CONTENT = ("message.content",)
_TITLE = "Claude Code compacted"
_SYNTHETIC_MODEL = "<synthetic>"
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_AGENT_FILE = re.compile(r"agent-(.+)")
_SUBAGENT_TOOLS = ("Task", "Agent")


def is_log_line(line: Mapping[str, Any]) -> bool:
    """Return True if a line is a message in a Claude Code log."""
    return line.get("type") in ("user", "assistant") and isinstance(line.get("message"), dict) and "sessionId" in line


def is_of_subagent(path: Path) -> bool:
    """Return True for the log of a sub-agent."""
    return "subagents" in path.parts or path.name.startswith("agent-")


class ClaudeCodeParser:
    """Reads one log file."""

    def __init__(self, path: Path | None = None, *, keep_items: bool = False) -> None:
        self.recorder = SessionRecorder(NAME, "anthropic", keep_items=keep_items)
        self._agent_threads: dict[str, str] = {}
        """The thread of each side-chain record of version 1, by uuid."""
        self._prompts: dict[str, str] = {}
        """The call of each sub-agent that is about to start, by its prompt."""
        self._connected: set[str] = set()
        """The sub-agents whose call is known from a progress record."""
        self._pending: tuple[Thread, Compaction, bool] | None = None
        """A compaction whose new prompt is not known yet, and True if it was copied from another session."""
        self._messages: dict[str, tuple[str, str]] = {}
        """The `message.id` and the id of the growing assistant message of each thread."""
        if path is not None:
            self._read_name(path)

    def feed(self, record: LogRecord) -> None:
        """Read one record."""
        line, recorder = record.value, self.recorder
        if recorder.session_id is None:
            recorder.session_id = as_text(line.get("sessionId"))
        recorder.cwd = recorder.cwd or as_text(line.get("cwd"))
        recorder.version = recorder.version or as_text(line.get("version"))
        match line.get("type"):
            case "system":
                self._read_system(record)
            case "progress":
                self._read_progress(line)
            case "user" | "assistant" if isinstance(line.get("message"), dict):
                self._read_message(record)

    def finish(self) -> None:
        """Complete a compaction whose summary is missing from the log."""
        self._complete_compaction(None)

    def _read_name(self, path: Path) -> None:
        if match := _AGENT_FILE.fullmatch(path.stem):
            self.recorder.agent_id = match[1]
            if path.parent.name == "subagents":
                self.recorder.session_id = path.parent.parent.name
            self._read_agent_meta(match[1], path.with_suffix(".meta.json"))
        elif _UUID.fullmatch(path.stem):
            self.recorder.session_id = path.stem

    def _read_agent_meta(self, agent_id: str, path: Path) -> None:
        try:
            meta = as_mapping(parse_line(path.read_bytes()))
        except (OSError, ValueError):
            meta = {}
        call = as_text(meta.get("toolUseId")) or as_text(meta.get("toolUseID"))
        self.recorder.agent(agent_id, name=as_text(meta.get("agentType")), parent=f"tool:{call}" if call else None)

    # Threads.

    def _thread_of(self, record: LogRecord) -> Thread:
        line, recorder = record.value, self.recorder
        if not line.get("isSidechain") and not recorder.agent_id:
            return recorder.thread()
        key = as_text(line.get("agentId")) or recorder.agent_id or self._side_chain(record)
        thread = recorder.thread(key)
        if thread.key != recorder.agent_id and not thread.prompt and thread.generation is None:
            prompt = text_blocks(as_mapping(line.get("message")).get("content"))
            call = self._prompts.pop(prompt, None)
            recorder.agent(key, at=as_text(line.get("timestamp")), parent=f"tool:{call}" if call else None)
        return thread

    def _side_chain(self, record: LogRecord) -> str:
        """Return the key of a side chain without an agent id: the uuid of its first record."""
        uuid = as_text(record.value.get("uuid")) or record.digest
        key = self._agent_threads.get(str(record.value.get("parentUuid")), uuid)
        self._agent_threads[uuid] = key
        return key

    def _read_progress(self, line: Mapping[str, Any]) -> None:
        """Connect a running sub-agent to its call."""
        data = as_mapping(line.get("data"))
        call = as_text(line.get("parentToolUseID")) or as_text(line.get("toolUseID"))
        agent_id = as_text(data.get("agentId"))
        if data.get("type") == "agent_progress" and agent_id and call and agent_id not in self._connected:
            self._connected.add(agent_id)
            self.recorder.agent(agent_id, parent=f"tool:{call}")

    # Messages.

    def _is_copied(self, line: Mapping[str, Any]) -> bool:
        """Return True for a record of the session that this one continues."""
        recorder = self.recorder
        origin = as_text(as_mapping(line.get("forkedFrom")).get("sessionId"))
        session_id = as_text(line.get("sessionId"))
        if origin:
            recorder.link = recorder.link or SessionLink("forked", origin)
            return True
        if session_id and recorder.session_id and session_id != recorder.session_id and not recorder.agent_id:
            recorder.link = recorder.link or SessionLink("resumed", session_id)
            return True
        return False

    def _read_message(self, record: LogRecord) -> None:
        line = record.value
        thread = self._thread_of(record)
        uuid = as_text(line.get("uuid")) or record.digest
        if uuid in thread.prompt or uuid in thread.aliases:
            return  # written twice, for example by a session that was resumed
        is_copied = self._is_copied(line)
        at = as_text(line.get("timestamp"))
        if not is_copied:
            self.recorder.note_time(at)
        message = LogMessage(uuid, dict(line["message"]), at, record.line)
        if line.get("isCompactSummary"):
            message.is_program = True
            self._read_summary(thread, message, is_copied=is_copied)
            return
        self._complete_compaction(thread)
        if line["type"] == "assistant":
            self._add_assistant(thread, message, line, is_copied=is_copied)
        else:
            self._add_user(thread, message, line, is_copied=is_copied)

    def _add_assistant(self, thread: Thread, message: LogMessage, line: Mapping[str, Any], *, is_copied: bool) -> None:
        source = as_mapping(line["message"])
        content = source.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": str(content or "")}]
        blocks = [block for block in blocks if isinstance(block, dict)]
        name = as_text(source.get("id")) or message.id
        last_name, known = self._messages.get(thread.key, ("", ""))
        if last_name == name and known in thread.prompt:
            message = self.recorder.extend(known, message, blocks, thread)
        else:
            message.item = {"role": "assistant", "content": list(blocks)}
            self._messages[thread.key] = name, message.id
            self.recorder.add(message, thread)
        if is_copied:
            return
        self._add_generation(thread, name, message, source, line)
        self._open_tool_calls(thread, blocks, as_text(line.get("timestamp")))

    def _add_generation(
        self, thread: Thread, name: str, message: LogMessage, source: Mapping[str, Any], line: Mapping[str, Any]
    ) -> None:
        at, model = as_text(line.get("timestamp")), as_text(source.get("model"))
        if model == _SYNTHETIC_MODEL:
            self._add_error(thread, name, message, line)
            return
        span = self.recorder.generation(name, at=at, model=model, thread=thread)
        # The counts of a message are repeated with each block, and the last block has the final ones.
        self.recorder.count(span, Usage.from_provider(as_mapping(source.get("usage"))))
        span.ended_at = max(filter(None, (span.ended_at, at)), default=None)
        span.payload = {"output": [{"role": "assistant", "content": message.item["content"]}]}

    def _add_error(self, thread: Thread, name: str, message: LogMessage, line: Mapping[str, Any]) -> None:
        """Record a call that failed. Claude Code also writes messages for which it asked no model."""
        if not line.get("isApiErrorMessage"):
            return
        span = self.recorder.aside(name, "model", at=message.at, thread=thread)
        span.payload = {"output": [{"role": "assistant", "content": message.item["content"]}]}
        span.is_error = True

    def _open_tool_calls(self, thread: Thread, blocks: Sequence[Mapping[str, Any]], at: str | None) -> None:
        for block in blocks:
            if block.get("type") != "tool_use":
                continue
            call_id, arguments = str(block.get("id")), block.get("input")
            span = self.recorder.call(call_id, str(block.get("name")), arguments, at=at, thread=thread)
            if span.name in _SUBAGENT_TOOLS and isinstance(arguments, Mapping):
                self._prompts[str(arguments.get("prompt"))] = call_id

    def _add_user(self, thread: Thread, message: LogMessage, line: Mapping[str, Any], *, is_copied: bool) -> None:
        content = message.item.get("content")
        text = text_blocks(content)
        message.is_program = bool(line.get("isMeta")) or is_notice(text)
        self.recorder.add(message, thread)
        if is_copied:
            return
        results = [block for block in as_list(content) if as_mapping(block).get("type") == "tool_result"]
        for block in results:
            self._add_result(thread, block, line)
        if not results:
            self.recorder.user_after_call(message, text, thread)

    def _add_result(self, thread: Thread, block: Mapping[str, Any], line: Mapping[str, Any]) -> None:
        span = self.recorder.result(
            str(block.get("tool_use_id")),
            without_images(block.get("content")),
            at=as_text(line.get("timestamp")),
            is_error=bool(block.get("is_error")),
            thread=thread,
        )
        agent_id = as_text(as_mapping(line.get("toolUseResult")).get("agentId"))
        if span is not None and agent_id:
            name = as_text(as_mapping(span.payload.get("input")).get("subagent_type"))
            self.recorder.agent(agent_id, name=name, parent=span.key)

    # Compactions.

    def _read_system(self, record: LogRecord) -> None:
        subtype = record.value.get("subtype")
        if subtype == "compact_boundary":
            self._read_boundary(record)
        elif subtype == "microcompact_boundary":
            self._read_clearing(record)

    def _begin_compaction(self, record: LogRecord, metadata: Mapping[str, Any]) -> tuple[Thread, Compaction]:
        line = record.value
        thread = self._thread_of(record)
        self._complete_compaction(thread)
        at = as_text(line.get("timestamp"))
        self.recorder.note_time(at)
        name = self.recorder.next_compaction_id(thread)
        compaction = self.recorder.begin_compaction(name, at=at, line=record.line, thread=thread)
        compaction.trigger = as_text(metadata.get("trigger")) or "auto"
        compaction.tokens_before = as_count(metadata.get("preTokens")) or None
        compaction.tokens_after = as_count(metadata.get("postTokens")) or None
        compaction.duration_ms = as_count(metadata.get("durationMs")) or None
        return thread, compaction

    def _read_boundary(self, record: LogRecord) -> None:
        is_copied = self._is_copied(record.value)
        metadata = as_mapping(record.value.get("compactMetadata"))
        thread, compaction = self._begin_compaction(record, metadata)
        preserved = _preserved_ids(compaction, thread, metadata)
        compaction.fates = dict.fromkeys(preserved, ("kept", "preserved by Claude Code"))
        self.recorder.set_prompt((message for message in compaction.before if message.id in compaction.fates), thread)
        self._messages.pop(thread.key, None)
        self._pending = thread, compaction, is_copied

    def _read_summary(self, thread: Thread, message: LogMessage, *, is_copied: bool) -> None:
        if self._pending is None or self._pending[0] is not thread:
            self._begin_without_boundary(thread, message, is_copied=is_copied)
        # The summary comes first, then the messages that were preserved.
        preserved = tuple(thread.prompt.values())
        self.recorder.add(message, thread)
        self.recorder.set_prompt((message, *preserved), thread)
        if self._pending is not None:
            compaction = self._pending[1]
            compaction.summary = text_blocks(message.item.get("content"))
            compaction.summary_id = message.id
        self._complete_compaction(thread)

    def _begin_without_boundary(self, thread: Thread, message: LogMessage, *, is_copied: bool) -> None:
        """Start a compaction of an early version, which wrote only the summary."""
        self._complete_compaction(thread)
        if not thread.prompt:
            return  # A session that starts with a summary continues another one. Its own prompt was never longer.
        name = self.recorder.next_compaction_id(thread)
        compaction = self.recorder.begin_compaction(name, at=message.at, line=message.line, thread=thread)
        self.recorder.set_prompt((), thread)
        self._pending = thread, compaction, is_copied

    def _read_clearing(self, record: LogRecord) -> None:
        """Read a boundary where old tool results were cleared and nothing was summarized."""
        metadata = as_mapping(record.value.get("microcompactMetadata"))
        thread, compaction = self._begin_compaction(record, metadata)
        cleared = {str(name) for name in as_list(metadata.get("compactedToolIds"))}
        after, compaction.fates = clear_prompt(compaction.before, cleared)
        saved = as_count(metadata.get("tokensSaved"))
        if compaction.tokens_before and saved:
            compaction.tokens_after = max(0, compaction.tokens_before - saved)
        self.recorder.set_prompt(after, thread)
        self._pending = thread, compaction, False
        self._complete_compaction(thread)

    def _complete_compaction(self, thread: Thread | None) -> None:
        """Record a compaction whose new prompt is known."""
        if self._pending is None or (thread is not None and self._pending[0] is not thread):
            return
        (owner, compaction, is_copied), self._pending = self._pending, None
        compaction.after = tuple(owner.prompt.values())
        if not is_copied:
            self.recorder.compaction(compaction, _TITLE)


def _preserved_ids(compaction: Compaction, thread: Thread, metadata: Mapping[str, Any]) -> set[str]:
    """Return the messages that the boundary says are still in the prompt: a list, or a segment of the prompt."""
    listed = as_list(as_mapping(metadata.get("preservedMessages")).get("uuids"))
    if listed:
        return {thread.aliases.get(str(uuid), str(uuid)) for uuid in listed}
    segment = as_mapping(metadata.get("preservedSegment"))
    head, tail = (str(segment.get(name)) for name in ("headUuid", "tailUuid"))
    ids = [message.id for message in compaction.before]
    try:
        first = ids.index(thread.aliases.get(head, head))
        last = ids.index(thread.aliases.get(tail, tail))
    except ValueError:
        return set()
    return set(ids[first : last + 1])
