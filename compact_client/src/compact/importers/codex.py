"""Session logs of Codex: `~/.codex/sessions/**/rollout-*.jsonl`, one record a line, Responses items inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compact.importers.conversation import Conversation, Moment, text_blocks

_RECORDS = {"session_meta", "response_item", "event_msg", "turn_context", "compacted"}
_CALLS = {"function_call", "custom_tool_call", "local_shell_call"}
_OUTPUTS = {"function_call_output", "custom_tool_call_output", "local_shell_call_output"}


def recognises(line: Mapping[str, Any]) -> bool:
    return line.get("type") in _RECORDS and isinstance(line.get("payload"), dict)


def read(lines: Sequence[Mapping[str, Any]]) -> Conversation:
    made = Conversation([], source="codex", format="responses")
    open_calls: dict[str, Moment] = {}
    for line in lines:
        if not recognises(line):
            continue
        payload, at = line["payload"], line.get("timestamp")
        match line["type"]:
            case "session_meta":
                made.session_id = payload.get("id") or made.session_id
            case "turn_context":
                made.model = payload.get("model") or made.model
            case "response_item":
                made.items.append(dict(payload))
                _item(made, payload, at, open_calls)
            case "event_msg":
                _event(made, payload)
            case "compacted":
                summary = {"summary": payload.get("message")}
                made.moments.append(Moment("compaction", "Codex compacted", at, at, payload=summary))
    return made


def _item(made: Conversation, item: Mapping[str, Any], at: str | None, open_calls: dict[str, Moment]) -> None:
    kind = item.get("type")
    if kind == "message":
        text = text_blocks(item.get("content"))
        if item.get("role") == "assistant":
            _generation(made, at).payload = {"output": text}
        elif item.get("role") == "user":
            made.moments.append(Moment("user", "user", at, at, payload={"text": text}))
    elif kind in _CALLS:
        _generation(made, at)
        given = item.get("arguments") or item.get("input") or item.get("action")
        call = Moment("tool", str(item.get("name") or kind), at, payload={"input": given})
        open_calls[str(item.get("call_id"))] = call
        made.moments.append(call)
    elif kind in _OUTPUTS:
        done = open_calls.pop(str(item.get("call_id")), None)
        if done is not None:
            done.ended_at = at
            done.payload = {**done.payload, "output": item.get("output")}


def _generation(made: Conversation, at: str | None) -> Moment:
    """The model's turn that an item belongs to: one ends where its usage is told."""
    for moment in reversed(made.moments):
        if moment.kind == "generation" and not moment.usage:
            moment.ended_at = at
            return moment
        if moment.kind != "tool" or moment.ended_at is not None:
            break
    moment = Moment("generation", made.model or "model", at, at, made.model)
    made.moments.append(moment)
    return moment


def _event(made: Conversation, payload: Mapping[str, Any]) -> None:
    info = payload.get("info") if payload.get("type") == "token_count" else None
    if not isinstance(info, Mapping):
        return
    made.window_tokens = info.get("model_context_window") or made.window_tokens
    last = info.get("last_token_usage") or {}
    for moment in reversed(made.moments):
        if moment.kind == "generation":
            moment.usage = {
                "input_tokens": int(last.get("input_tokens") or 0),
                "cached_tokens": int(last.get("cached_input_tokens") or 0),
                "output_tokens": int(last.get("output_tokens") or 0),
            }
            return
