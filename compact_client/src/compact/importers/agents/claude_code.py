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
from compact.importers.records import LogRecord, parse_line
from compact.ledgers.foreign_compaction import Compaction, LogFate, LogMessage

NAME = "claude-code"
CONTENT = ("message.content",)
_INPUT_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_SYNTHETIC_MODEL = "<synthetic>"
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_AGENT_FILE = re.compile(r"agent-(.+)")
_SUBAGENT_TOOLS = ("Task", "Agent")
# Texts that Claude Code itself puts into user messages.
_NOTICE = re.compile(r"<(?:task-notification|command-|local-command-|system-reminder|bash-|user-prompt-submit-hook)")
_CLEARED = "[Old tool result content cleared]"


def is_log_line(line: Mapping[str, Any]) -> bool:
    """Return True if a line is a message in a Claude Code log."""
    return line.get("type") in ("user", "assistant") and isinstance(line.get("message"), dict) and "sessionId" in line


def project_of(record: Mapping[str, Any]) -> str | None:
    """Return the project folder that a record names."""
    return as_text(record.get("cwd"))


class ClaudeCodeParser:
    """Reads one log file."""

    def __init__(self, path: Path | None = None, *, keep_items: bool = False) -> None:
        self.log = SessionLog(NAME, "anthropic", keep_items=keep_items)
        self._agent_threads: dict[str, str] = {}
        """The thread of each side-chain record of version 1, by uuid."""
        self._prompts: dict[str, str] = {}
        """The call of each sub-agent that is about to start, by its prompt."""
        self._pending: tuple[Thread, Compaction, str] | None = None
        self._messages: dict[str, tuple[str, LogMessage]] = {}
        """The growing assistant message of each thread, with its `message.id`."""
        self._generations: dict[str, LogSpan] = {}
        if path is not None:
            self._read_name(path)

    def feed(self, record: LogRecord) -> None:
        """Read one record."""
        line = record.value
        if self.log.session_id is None:
            self.log.session_id = as_text(line.get("sessionId"))
        self.log.cwd = self.log.cwd or project_of(line)
        self.log.version = self.log.version or as_text(line.get("version"))
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
            self.log.agent_id = match[1]
            if path.parent.name == "subagents":
                self.log.session_id = path.parent.parent.name
            self._read_agent_meta(path.with_suffix(".meta.json"))
        elif _UUID.fullmatch(path.stem):
            self.log.session_id = path.stem

    def _read_agent_meta(self, path: Path) -> None:
        try:
            meta = as_mapping(parse_line(path.read_bytes()))
        except (OSError, ValueError):
            meta = {}
        call = as_text(meta.get("toolUseId")) or as_text(meta.get("toolUseID"))
        agent_type = as_text(meta.get("agentType"))
        self._add_agent(self.log.agent_id or "", f"tool:{call}" if call else None, agent_type, None)

    # Threads.

    def _thread_of(self, record: LogRecord) -> Thread:
        line = record.value
        if not line.get("isSidechain") and not self.log.agent_id:
            return self.log.thread()
        key = as_text(line.get("agentId")) or self.log.agent_id or self._side_chain(record)
        thread = self.log.thread(key)
        if thread.key != self.log.agent_id and not thread.context and thread.generation is None:
            prompt = text_blocks(as_mapping(line.get("message")).get("content"))
            call = self._prompts.pop(prompt, None)
            self._add_agent(key, f"tool:{call}" if call else None, None, as_text(line.get("timestamp")))
        return thread

    def _side_chain(self, record: LogRecord) -> str:
        """Return the key of a side chain without an agent id: the uuid of its first record."""
        uuid = as_text(record.value.get("uuid")) or record.digest
        key = self._agent_threads.get(str(record.value.get("parentUuid")), uuid)
        self._agent_threads[uuid] = key
        return key

    def _add_agent(self, agent_id: str, parent: str | None, name: str | None, at: str | None) -> None:
        self.log.add_span(LogSpan("agent", name or "sub-agent", at, key=f"agent:{agent_id}", parent=parent))

    def _read_progress(self, line: Mapping[str, Any]) -> None:
        """Connect a running sub-agent to its call."""
        data = as_mapping(line.get("data"))
        call = as_text(line.get("parentToolUseID")) or as_text(line.get("toolUseID"))
        agent_id = as_text(data.get("agentId"))
        if data.get("type") == "agent_progress" and agent_id and call and f"agent:{agent_id}" not in self._prompts:
            self._prompts[f"agent:{agent_id}"] = call
            self._add_agent(agent_id, f"tool:{call}", None, None)

    # Messages.

    def _is_copied(self, line: Mapping[str, Any]) -> bool:
        """Return True for a record of the session that this one continues."""
        origin = as_text(as_mapping(line.get("forkedFrom")).get("sessionId"))
        session_id = as_text(line.get("sessionId"))
        if origin:
            self.log.link = self.log.link or SessionLink("forked", origin)
            return True
        if session_id and self.log.session_id and session_id != self.log.session_id and not self.log.agent_id:
            self.log.link = self.log.link or SessionLink("resumed", session_id)
            return True
        return False

    def _read_message(self, record: LogRecord) -> None:
        line = record.value
        thread = self._thread_of(record)
        uuid = as_text(line.get("uuid")) or record.digest
        if uuid in thread.context or uuid in thread.aliases:
            return  # written twice, for example by a session that was resumed
        is_copied = self._is_copied(line)
        at = as_text(line.get("timestamp"))
        if not is_copied:
            self.log.note_time(at)
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
        last_name, known = self._messages.get(thread.key, ("", None))
        if known is not None and last_name == name and known.id in thread.context:
            known.item["content"].extend(blocks)
            known.masked = None
            thread.aliases[message.id] = known.id
            message = known
        else:
            message.item = {"role": "assistant", "content": list(blocks)}
            self._messages[thread.key] = name, message
            self.log.add_message(thread, message)
        if is_copied:
            return
        self._add_generation(thread, name, message, source, line)
        self._open_tool_calls(thread, blocks, as_text(line.get("timestamp")))

    def _add_generation(
        self, thread: Thread, name: str, message: LogMessage, source: Mapping[str, Any], line: Mapping[str, Any]
    ) -> None:
        at, model = as_text(line.get("timestamp")), as_text(source.get("model"))
        span = self._generations.get(thread.key)
        if span is None or span.key != f"generation:{name}":
            model = None if model == _SYNTHETIC_MODEL else model
            self.log.generations += not thread.key
            data = {"turn": self.log.generations}
            span = LogSpan("generation", model or "model", at, at, model, data=data, key=f"generation:{name}")
            self._generations[thread.key] = thread.generation = span
            if not thread.key:
                self.log.model = model or self.log.model
        # The counts of a message are repeated with each block, and the last block has the final ones.
        span.usage = _usage(as_mapping(source.get("usage"))) or span.usage
        span.ended_at = _later(span.ended_at, at)
        span.is_error = bool(line.get("isApiErrorMessage"))
        span.payload = {"output": [{"role": "assistant", "content": message.item["content"]}]}
        self.log.add_span(span, thread)

    def _open_tool_calls(self, thread: Thread, blocks: Sequence[Mapping[str, Any]], at: str | None) -> None:
        for block in blocks:
            if block.get("type") != "tool_use":
                continue
            call_id = str(block.get("id"))
            arguments = block.get("input")
            span = LogSpan("tool", str(block.get("name")), at, payload={"input": arguments}, key=f"tool:{call_id}")
            thread.open_calls[call_id] = self.log.add_span(span, thread)
            if span.name in _SUBAGENT_TOOLS and isinstance(arguments, Mapping):
                self._prompts[str(arguments.get("prompt"))] = call_id

    def _add_user(self, thread: Thread, message: LogMessage, line: Mapping[str, Any], *, is_copied: bool) -> None:
        content = message.item.get("content")
        text = text_blocks(content)
        message.is_program = bool(line.get("isMeta")) or _NOTICE.match(text.lstrip()) is not None
        self.log.add_message(thread, message)
        if is_copied:
            return
        results = [block for block in as_list(content) if as_mapping(block).get("type") == "tool_result"]
        for block in results:
            self._close_call(thread, block, line)
        if results:
            return
        name = "notice" if message.is_program else "user"
        span = LogSpan("user", name, message.at, message.at, payload={"text": text}, key=f"user:{message.id}")
        self.log.add_span(span, thread)

    def _close_call(self, thread: Thread, block: Mapping[str, Any], line: Mapping[str, Any]) -> None:
        call_id = str(block.get("tool_use_id"))
        span = thread.open_calls.pop(call_id, None)
        if span is None:
            return
        span.ended_at = as_text(line.get("timestamp"))
        span.payload = {**span.payload, "output": without_images(block.get("content"))}
        span.is_error = bool(block.get("is_error"))
        self.log.add_span(span, thread)
        if agent_id := as_text(as_mapping(line.get("toolUseResult")).get("agentId")):
            self._add_agent(
                agent_id, span.key, as_text(as_mapping(span.payload.get("input")).get("subagent_type")), None
            )

    # Compactions.

    def _read_system(self, record: LogRecord) -> None:
        subtype = record.value.get("subtype")
        if subtype == "compact_boundary":
            self._read_boundary(record)
        elif subtype == "microcompact_boundary":
            self._read_clearing(record)

    def _new_compaction(self, record: LogRecord, metadata: Mapping[str, Any]) -> tuple[Thread, Compaction]:
        line = record.value
        thread = self._thread_of(record)
        self._complete_compaction(thread)
        at = as_text(line.get("timestamp"))
        self.log.note_time(at)
        thread.compactions += 1
        return thread, Compaction(
            as_text(line.get("uuid")) or record.digest,
            thread.compactions,
            NAME,
            at,
            tuple(thread.context.values()),
            "anthropic",
            trigger=as_text(metadata.get("trigger")) or "auto",
            tokens_before=as_count(metadata.get("preTokens")) or None,
            tokens_after=as_count(metadata.get("postTokens")) or None,
            duration_ms=as_count(metadata.get("durationMs")) or None,
            thread=thread.key,
            line=record.line,
        )

    def _read_boundary(self, record: LogRecord) -> None:
        is_copied = self._is_copied(record.value)
        metadata = as_mapping(record.value.get("compactMetadata"))
        thread, compaction = self._new_compaction(record, metadata)
        preserved = _preserved_ids(compaction, thread, metadata)
        compaction.fates = dict.fromkeys(preserved, ("kept", "preserved by Claude Code"))
        thread.replace_context(message for message in compaction.before if message.id in compaction.fates)
        self._messages.pop(thread.key, None)
        self._pending = (thread, compaction, "copied" if is_copied else "")

    def _read_summary(self, thread: Thread, message: LogMessage, *, is_copied: bool) -> None:
        if self._pending is None or self._pending[0] is not thread:
            self._begin_without_boundary(thread, message, is_copied=is_copied)
        assert self._pending is not None
        compaction = self._pending[1]
        compaction.summary = text_blocks(message.item.get("content"))
        compaction.summary_id = message.id
        # The summary comes first, then the messages that were preserved.
        thread.replace_context([message, *thread.context.values()])
        if self.log.items is not None and not thread.key:
            self.log.items.append(message.item)
        self._complete_compaction(thread)

    def _begin_without_boundary(self, thread: Thread, message: LogMessage, *, is_copied: bool) -> None:
        """Start a compaction of an early version, which wrote only the summary."""
        self._complete_compaction(thread)
        before = tuple(thread.context.values())
        if before:
            thread.compactions += 1
        number = max(thread.compactions, 1)
        compaction = Compaction(message.id, number, NAME, message.at, before, "anthropic", thread=thread.key)
        compaction.line = message.line
        thread.replace_context(())
        # A session that starts with a summary continues another one. Its own prompt was never longer.
        self._pending = (thread, compaction, "copied" if is_copied or not before else "")

    def _read_clearing(self, record: LogRecord) -> None:
        """Read a boundary where old tool results were cleared and nothing was summarized."""
        metadata = as_mapping(record.value.get("microcompactMetadata"))
        thread, compaction = self._new_compaction(record, metadata)
        cleared = {str(name) for name in as_list(metadata.get("compactedToolIds"))}
        fates: dict[str, tuple[LogFate, str]] = {}
        after = []
        for message in compaction.before:
            item = clear_results(message.item, cleared)
            is_cleared = item is not message.item
            fates[message.id] = ("cleared", "old tool result") if is_cleared else ("kept", "not a cleared tool result")
            after.append(LogMessage(message.id, item, message.at, message.line) if is_cleared else message)
        compaction.fates = fates
        saved = as_count(metadata.get("tokensSaved"))
        if compaction.tokens_before and saved:
            compaction.tokens_after = max(0, compaction.tokens_before - saved)
        thread.replace_context(after)
        self._pending = (thread, compaction, "")
        self._complete_compaction(thread)

    def _complete_compaction(self, thread: Thread | None) -> None:
        """Add the span of a compaction whose new prompt is known."""
        if self._pending is None or (thread is not None and self._pending[0] is not thread):
            return
        (owner, compaction, state), self._pending = self._pending, None
        compaction.after = tuple(owner.context.values())
        if state == "copied":
            return
        self.log.add_span(compaction_span(compaction, "Claude Code compacted"), owner)


def compaction_span(compaction: Compaction, name: str) -> LogSpan:
    """Return the span of a compaction."""
    data = {"trigger": compaction.trigger, "tokens_before": compaction.tokens_before}
    payload = {"summary": compaction.summary} if compaction.summary is not None else {}
    return LogSpan(
        "compaction", name, compaction.at, compaction.at, data=data, payload=payload,
        key=f"compaction:{compaction.id}", compaction=compaction,
    )  # fmt: skip


def without_images(content: Any) -> Any:
    """Return content with a note in place of each image."""
    if not isinstance(content, list):
        return content
    return [_image_note(block) if as_mapping(block).get("type") == "image" else block for block in content]


def _image_note(block: Mapping[str, Any]) -> dict[str, Any]:
    data = as_mapping(block.get("source")).get("data") or block.get("data")
    return {"type": "text", "text": f"[image, {len(data) if isinstance(data, str) else 0:,} base64 characters]"}


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


def clear_results(item: dict[str, Any], cleared: set[str]) -> dict[str, Any]:
    """Return a message with a note in place of the results of some calls, or the message itself if it has none."""
    blocks = as_list(item.get("content"))
    if not any(as_mapping(block).get("tool_use_id") in cleared for block in blocks):
        return item
    content = [
        {**block, "content": _CLEARED} if as_mapping(block).get("tool_use_id") in cleared else block for block in blocks
    ]
    return {**item, "content": content}


def _usage(usage: Mapping[str, Any]) -> dict[str, int]:
    # Anthropic's input_tokens excludes cached tokens, which also fill the context window.
    input_tokens = sum(as_count(usage.get(name)) for name in _INPUT_COUNTS)
    if not input_tokens:
        return {}
    return {
        "input_tokens": input_tokens,
        "cached_tokens": as_count(usage.get("cache_read_input_tokens")),
        "output_tokens": as_count(usage.get("output_tokens")),
    }


def _later(one: str | None, other: str | None) -> str | None:
    return max(filter(None, (one, other)), default=None)
