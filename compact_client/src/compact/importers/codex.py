"""Session logs of Codex (`~/.codex/sessions/**/rollout-*.jsonl`): one record per line, with Responses items inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compact.importers.conversation import Conversation, LogSpan, text_blocks

_RECORDS = {"session_meta", "response_item", "event_msg", "turn_context", "compacted"}
_CALLS = {"function_call", "custom_tool_call", "local_shell_call"}
_OUTPUTS = {"function_call_output", "custom_tool_call_output", "local_shell_call_output"}


def is_log_line(line: Mapping[str, Any]) -> bool:
    """Return True if a line is a record of a Codex log."""
    return line.get("type") in _RECORDS and isinstance(line.get("payload"), dict)


def read_log(lines: Sequence[Mapping[str, Any]]) -> Conversation:
    """Return the conversation of a log."""
    reader = _Reader()
    for line in lines:
        if is_log_line(line):
            reader.read_record(line["type"], line["payload"], line.get("timestamp"))
    return reader.conversation


class _Reader:
    def __init__(self) -> None:
        self.conversation = Conversation([], source="codex", format="responses")
        self._open_calls: dict[str, LogSpan] = {}

    def read_record(self, kind: str, payload: Mapping[str, Any], at: str | None) -> None:
        conversation = self.conversation
        match kind:
            case "session_meta":
                conversation.session_id = payload.get("id") or conversation.session_id
            case "turn_context":
                conversation.model = payload.get("model") or conversation.model
            case "response_item":
                conversation.items.append(dict(payload))
                self._read_item(payload, at)
            case "event_msg":
                self._read_token_count(payload)
            case "compacted":
                summary = {"summary": payload.get("message")}
                conversation.spans.append(LogSpan("compaction", "Codex compacted", at, at, payload=summary))

    def _read_item(self, item: Mapping[str, Any], at: str | None) -> None:
        kind = item.get("type")
        if kind == "message":
            self._add_message(str(item.get("role")), text_blocks(item.get("content")), at)
        elif kind in _CALLS:
            self._open_generation(at)
            arguments = item.get("arguments") or item.get("input") or item.get("action")
            call = LogSpan("tool", str(item.get("name") or kind), at, payload={"input": arguments})
            self._open_calls[str(item.get("call_id"))] = call
            self.conversation.spans.append(call)
        elif kind in _OUTPUTS:
            finished = self._open_calls.pop(str(item.get("call_id")), None)
            if finished is not None:
                finished.ended_at = at
                finished.payload = {**finished.payload, "output": item.get("output")}

    def _add_message(self, role: str, text: str, at: str | None) -> None:
        if role == "assistant":
            self._open_generation(at).payload = {"output": text}
        elif role == "user":
            self.conversation.spans.append(LogSpan("user", "user", at, at, payload={"text": text}))

    def _open_generation(self, at: str | None) -> LogSpan:
        """Return the model call that an item belongs to. A call ends when the log reports its usage."""
        conversation = self.conversation
        for span in reversed(conversation.spans):
            if span.kind == "generation" and not span.usage:
                span.ended_at = at
                return span
            if span.kind != "tool" or span.ended_at is not None:
                break
        generation = LogSpan("generation", conversation.model or "model", at, at, conversation.model)
        conversation.spans.append(generation)
        return generation

    def _read_token_count(self, payload: Mapping[str, Any]) -> None:
        info = payload.get("info") if payload.get("type") == "token_count" else None
        if not isinstance(info, Mapping):
            return
        conversation = self.conversation
        conversation.window_tokens = info.get("model_context_window") or conversation.window_tokens
        usage = info.get("last_token_usage") or {}
        generation = conversation.last_span("generation")
        if generation is not None:
            generation.usage = {
                "input_tokens": int(usage.get("input_tokens") or 0),
                "cached_tokens": int(usage.get("cached_input_tokens") or 0),
                "output_tokens": int(usage.get("output_tokens") or 0),
            }
