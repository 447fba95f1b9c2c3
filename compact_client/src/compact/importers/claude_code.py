"""Session logs of Claude Code (`~/.claude/projects/*/*.jsonl`): one event per line, with Anthropic messages inside.

Side chains, which are the conversations of sub-agents, are left out. Claude Code writes an assistant message block by
block, so the blocks are joined again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compact.importers.conversation import Conversation, LogSpan, text_blocks

_INPUT_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def is_log_line(line: Mapping[str, Any]) -> bool:
    """Return True if a line is a message in a Claude Code log."""
    return line.get("type") in ("user", "assistant") and isinstance(line.get("message"), dict) and "sessionId" in line


def read_log(lines: Sequence[Mapping[str, Any]]) -> Conversation:
    """Return the main conversation of a log."""
    reader = _Reader()
    for line in lines:
        if not line.get("isSidechain"):
            reader.read_line(line)
    return reader.conversation


class _Reader:
    def __init__(self) -> None:
        self.conversation = Conversation([], source="claude-code", format="anthropic")
        self._open_calls: dict[str, LogSpan] = {}
        self._last_message_id: str | None = None

    def read_line(self, line: Mapping[str, Any]) -> None:
        conversation, at = self.conversation, line.get("timestamp")
        conversation.session_id = conversation.session_id or line.get("sessionId")
        if line.get("type") == "system" and line.get("subtype") == "compact_boundary":
            metadata = line.get("compactMetadata") or {}
            data = {"trigger": metadata.get("trigger"), "tokens_before": metadata.get("preTokens")}
            conversation.spans.append(LogSpan("compaction", "Claude Code compacted", at, at, data=data))
        elif is_log_line(line):
            if line.get("isCompactSummary"):
                self._add_summary(line["message"])
            if line["type"] == "assistant":
                self._add_assistant(line["message"], at)
            else:
                self._add_user(line["message"], at)

    def _add_summary(self, message: Mapping[str, Any]) -> None:
        spans = self.conversation.spans
        if spans and spans[-1].kind == "compaction":
            spans[-1].payload = {"summary": text_blocks(message.get("content"))}

    def _add_assistant(self, message: Mapping[str, Any], at: str | None) -> None:
        conversation = self.conversation
        content = message.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": str(content or "")}]
        message_id = message.get("id")
        is_continued = message_id is not None and message_id == self._last_message_id
        self._last_message_id = message_id
        if is_continued and conversation.items and conversation.items[-1]["role"] == "assistant":
            conversation.items[-1]["content"] = [*conversation.items[-1]["content"], *blocks]
            conversation.spans[-1].ended_at = at
        else:
            conversation.items.append({"role": "assistant", "content": list(blocks)})
            conversation.model = message.get("model") or conversation.model
            conversation.spans.append(_generation(message, at))
        generation = conversation.last_span("generation")
        assert generation is not None
        generation.payload = {"output": conversation.items[-1]["content"]}
        self._open_tool_calls(blocks, at)

    def _open_tool_calls(self, blocks: Sequence[Mapping[str, Any]], at: str | None) -> None:
        for block in blocks:
            if block.get("type") == "tool_use":
                call = LogSpan("tool", str(block.get("name")), at, payload={"input": block.get("input")})
                self._open_calls[str(block.get("id"))] = call
                self.conversation.spans.append(call)

    def _add_user(self, message: Mapping[str, Any], at: str | None) -> None:
        self._last_message_id = None
        content = message.get("content")
        self.conversation.items.append({"role": "user", "content": content})
        results = [b for b in content if b.get("type") == "tool_result"] if isinstance(content, list) else []
        for block in results:
            call = self._open_calls.pop(str(block.get("tool_use_id")), None)
            if call is not None:
                call.ended_at = at
                call.payload = {**call.payload, "output": block.get("content")}
                call.is_error = bool(block.get("is_error"))
        if not results:
            payload = {"text": text_blocks(content)}
            self.conversation.spans.append(LogSpan("user", "user", at, at, payload=payload))


def _generation(message: Mapping[str, Any], at: str | None) -> LogSpan:
    model = message.get("model")
    return LogSpan("generation", str(model or "model"), at, at, model, _usage(message.get("usage") or {}))


def _usage(usage: Mapping[str, Any]) -> dict[str, int]:
    # Anthropic's input_tokens excludes cached tokens, which also fill the context window.
    input_tokens = sum(int(usage.get(name) or 0) for name in _INPUT_COUNTS)
    if not input_tokens:
        return {}
    return {
        "input_tokens": input_tokens,
        "cached_tokens": int(usage.get("cache_read_input_tokens") or 0),
        "output_tokens": int(usage.get("output_tokens") or 0),
    }
