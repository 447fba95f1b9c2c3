"""OpenAI Chat Completions: the rules of a request, and the response of the scripted model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from openai.types.chat.completion_create_params import CompletionCreateParams
from providers.conversation import Entry, Model, Prompt, Turn
from providers.ids import new_id
from providers.rejection import Rejection, openai_rejection, openai_shape_rejection
from providers.reply import Reply, text_of, words
from providers.shapes import ShapeError, check
from providers.tokens import count_tokens

_MAX_CALL_ID = 40
_TOOL_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
_ROLES = {"developer": "system", "function": "tool"}


def validate(body: dict[str, Any]) -> None:
    """Raise `Rejection` for a request that the real API rejects."""
    try:
        check(body, CompletionCreateParams)
    except ShapeError as error:
        if error.kind == "unknown" and len(error.path) == 1:
            raise openai_rejection(f"Unrecognized request argument supplied: {error.path[0]}") from error
        raise openai_shape_rejection(error) from error
    messages = body["messages"]
    if not messages:
        raise _empty_array("messages")
    for index, message in enumerate(messages):
        _validate_content(index, message)
    _validate_pairs(messages)
    _validate_tools(body)


def reply(body: dict[str, Any], model: Model) -> Reply:
    """Return the model's response to a valid request."""
    turn = model(_prompt(body))
    usage_tokens = input_tokens(body)
    output_tokens = count_tokens(turn.text) + sum(count_tokens(call.arguments_json) for call in turn.calls)
    usage = {
        "prompt_tokens": usage_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": usage_tokens + output_tokens,
    }
    head = {"id": new_id("chatcmpl-"), "created": 1_700_000_000, "model": body["model"]}
    calls = [
        {"id": new_id("call_"), "type": "function", "function": {"name": call.name, "arguments": call.arguments_json}}
        for call in turn.calls
    ]
    message = {"role": "assistant", "content": turn.text or None, "refusal": None}
    if calls:
        message["tool_calls"] = calls
    finish_reason = "tool_calls" if calls else "stop"
    choice = {"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": None}
    wants_usage = (body.get("stream_options") or {}).get("include_usage")
    return Reply(
        body={**head, "object": "chat.completion", "choices": [choice], "usage": usage},
        events=_chunks(head, turn, calls, finish_reason, usage if wants_usage else None),
    )


def input_tokens(body: dict[str, Any]) -> int:
    return count_tokens(body["messages"]) + count_tokens(body.get("tools") or [])


def overflow(tokens: int, window: int) -> Rejection:
    message = (
        f"This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens. "
        "Please reduce the length of the messages."
    )
    return openai_rejection(message, param="messages", code="context_length_exceeded", is_overflow=True)


def failed_stream(body: dict[str, Any], rejection: Rejection) -> Iterator[tuple[str | None, dict[str, Any] | str]]:
    """Yield a stream that starts and then reports an error, as compatible servers do."""
    head = {"id": new_id("chatcmpl-"), "created": 1_700_000_000, "model": body["model"]}
    yield None, _chunk(head, {"role": "assistant", "content": ""})
    yield None, rejection.body


def _validate_content(index: int, message: dict[str, Any]) -> None:
    content = message.get("content")
    if isinstance(content, list) and not content:
        raise _empty_array(f"messages[{index}].content")
    if message["role"] == "assistant":
        calls = message.get("tool_calls")
        if calls is not None and not calls:
            raise _empty_array(f"messages[{index}].tool_calls")
        if content is None and not calls and not message.get("function_call"):
            text = "Invalid value for 'content': expected a string, got null."
            raise openai_rejection(text, param=f"messages.[{index}].content")


def _validate_pairs(messages: list[dict[str, Any]]) -> None:
    pending: list[str] = []
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in pending:
                text = (
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
                    "with 'tool_calls'."
                )
                raise openai_rejection(text, param=f"messages.[{index}].role")
            pending.remove(message["tool_call_id"])
            continue
        _require_answers(pending, index)
        pending = [call["id"] for call in message.get("tool_calls") or ()]
        for position, call_id in enumerate(pending):
            _validate_call_id(call_id, f"messages[{index}].tool_calls[{position}].id")
    _require_answers(pending, len(messages))


def _require_answers(pending: list[str], index: int) -> None:
    if pending:
        text = (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(pending)}"
        )
        raise openai_rejection(text, param=f"messages.[{index}].role")


def _validate_call_id(call_id: str, path: str) -> None:
    if len(call_id) > _MAX_CALL_ID:
        text = (
            f"Invalid '{path}': string too long. Expected a string with maximum length {_MAX_CALL_ID}, but got a "
            f"string with length {len(call_id)} instead."
        )
        raise openai_rejection(text, param=path, code="string_above_max_length")


def _validate_tools(body: dict[str, Any]) -> None:
    for index, tool in enumerate(body.get("tools") or ()):
        name = (tool.get("function") or tool.get("custom") or {}).get("name", "")
        if not _TOOL_NAME.match(name):
            path = f"tools[{index}].function.name"
            text = f"Invalid '{path}': string does not match pattern. Expected a string that matches the pattern "
            raise openai_rejection(f"{text}'^[a-zA-Z0-9_-]+$'.", param=path, code="invalid_value")
    for name in ("tool_choice", "parallel_tool_calls"):
        if body.get(name) is not None and not body.get("tools") and body[name] != "none":
            text = f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified."
            raise openai_rejection(text, param=name)


def _empty_array(path: str) -> Rejection:
    text = f"Invalid '{path}': empty array. Expected an array with minimum length 1, but got an empty array instead."
    return openai_rejection(text, param=path, code="empty_array")


def _prompt(body: dict[str, Any]) -> Prompt:
    entries = [
        Entry(
            _ROLES.get(message["role"], message["role"]),
            text_of(message.get("content")),
            tuple(call["function"]["name"] for call in message.get("tool_calls") or () if "function" in call),
        )
        for message in body["messages"]
    ]
    functions = [tool["function"] for tool in body.get("tools") or () if tool["type"] == "function"]
    response_format = body.get("response_format") or {}
    return Prompt(
        entries,
        {function["name"]: function.get("parameters") or {} for function in functions},
        (response_format.get("json_schema") or {}).get("schema"),
        must_call=body.get("tool_choice") == "required",
    )


def _chunks(
    head: dict[str, Any], turn: Turn, calls: list[dict[str, Any]], finish_reason: str, usage: dict[str, int] | None
) -> Iterator[tuple[str | None, dict[str, Any] | str]]:
    yield None, _chunk(head, {"role": "assistant", "content": "", "refusal": None})
    for word in words(turn.text):
        yield None, _chunk(head, {"content": word})
    for index, call in enumerate(calls):
        start = {**call, "index": index, "function": {"name": call["function"]["name"], "arguments": ""}}
        yield None, _chunk(head, {"tool_calls": [start]})
        arguments = call["function"]["arguments"]
        for part in (arguments[:5], arguments[5:]):
            yield None, _chunk(head, {"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    yield None, _chunk(head, {}, finish_reason)
    if usage is not None:
        yield None, {**head, "object": "chat.completion.chunk", "choices": [], "usage": usage}
    yield None, "[DONE]"


def _chunk(head: dict[str, Any], delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
    return {**head, "object": "chat.completion.chunk", "choices": [choice], "usage": None}
