"""Session logs of Claude Code: `~/.claude/projects/*/*.jsonl`, one event a line, Anthropic messages inside.

Side chains (sub-agents) are left out; an assistant message that was written block by block is put together again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compact.importers.conversation import Conversation, Moment, text_blocks


def recognises(line: Mapping[str, Any]) -> bool:
    return line.get("type") in ("user", "assistant") and isinstance(line.get("message"), dict) and "sessionId" in line


def read(lines: Sequence[Mapping[str, Any]]) -> Conversation:
    made = Conversation([], source="claude-code", format="anthropic")
    open_calls: dict[str, Moment] = {}
    last_id: str | None = None
    for line in lines:
        if line.get("isSidechain"):
            continue
        made.session_id = made.session_id or line.get("sessionId")
        at = line.get("timestamp")
        if line.get("type") == "system" and line.get("subtype") == "compact_boundary":
            facts = line.get("compactMetadata") or {}
            data = {"trigger": facts.get("trigger"), "tokens_before": facts.get("preTokens")}
            made.moments.append(Moment("compaction", "Claude Code compacted", at, at, data=data))
            continue
        if not recognises(line):
            continue
        message = line["message"]
        content = message.get("content")
        if line.get("isCompactSummary") and made.moments and made.moments[-1].kind == "compaction":
            made.moments[-1].payload = {"summary": text_blocks(content)}
        if line["type"] == "assistant":
            is_same = message.get("id") is not None and message.get("id") == last_id
            last_id = message.get("id")
            _assistant(made, message, at, is_same=is_same, open_calls=open_calls)
        else:
            last_id = None
            _user(made, message, at, open_calls)
    return made


def _assistant(
    made: Conversation, message: Mapping[str, Any], at: str | None, *, is_same: bool, open_calls: dict[str, Moment]
) -> None:
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": str(content or "")}]
    if is_same and made.items and made.items[-1]["role"] == "assistant":
        made.items[-1]["content"] = [*made.items[-1]["content"], *blocks]
        made.moments[-1].ended_at = at
    else:
        made.items.append({"role": "assistant", "content": list(blocks)})
        made.model = message.get("model") or made.model
        usage = message.get("usage") or {}
        sent = sum(
            int(usage.get(name) or 0)
            for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        )
        counts = {
            "input_tokens": sent,
            "cached_tokens": int(usage.get("cache_read_input_tokens") or 0),
            "output_tokens": int(usage.get("output_tokens") or 0),
        }
        made.moments.append(
            Moment(
                "generation", str(message.get("model") or "model"), at, at, message.get("model"), counts if sent else {}
            )
        )
    generation = next(moment for moment in reversed(made.moments) if moment.kind == "generation")
    generation.payload = {"output": made.items[-1]["content"]}
    for block in blocks:
        if block.get("type") == "tool_use":
            call = Moment("tool", str(block.get("name")), at, payload={"input": block.get("input")})
            open_calls[str(block.get("id"))] = call
            made.moments.append(call)


def _user(made: Conversation, message: Mapping[str, Any], at: str | None, open_calls: dict[str, Moment]) -> None:
    content = message.get("content")
    made.items.append({"role": "user", "content": content})
    results = [b for b in content if b.get("type") == "tool_result"] if isinstance(content, list) else []
    for block in results:
        call = open_calls.pop(str(block.get("tool_use_id")), None)
        if call is not None:
            call.ended_at = at
            call.payload = {**call.payload, "output": block.get("content")}
            call.is_error = bool(block.get("is_error"))
    if not results:
        made.moments.append(Moment("user", "user", at, at, payload={"text": text_blocks(content)}))
