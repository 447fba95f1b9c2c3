"""Anthropic Messages: the rules of a request, and the response of the scripted model."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from typing import Any

from anthropic.types.beta.message_create_params import MessageCreateParams as BetaMessageCreateParams
from anthropic.types.message_count_tokens_params import MessageCountTokensParams
from anthropic.types.message_create_params import MessageCreateParams
from compact.messages.block_kinds import BLOCK_KINDS, Content
from providers.conversation import Entry, Model, Prompt, Turn
from providers.ids import new_id
from providers.rejection import Rejection, anthropic_rejection, anthropic_shape_rejection
from providers.reply import Event, Reply, text_of, words
from providers.shapes import ShapeError, check
from providers.tokens import count_tokens

Block = dict[str, Any]

_MAX_CACHE_MARKS = 4
_TOOL_ID = re.compile(r"^[a-zA-Z0-9_-]+$")
_THINKING = ("thinking", "redacted_thinking")


class Signatures:
    """The thinking that the server has signed, by signature."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._lock = threading.Lock()

    def sign(self, thinking: str) -> str:
        signature = new_id("EqQBCgIYAhIM")
        self.add({"thinking": thinking, "signature": signature})
        return signature

    def add(self, block: Block) -> None:
        """Add thinking that was signed before."""
        with self._lock:
            self._texts[block["signature"]] = block["thinking"]

    def verify(self, block: Block) -> bool:
        return self._texts.get(block["signature"]) == block["thinking"]


def validate(body: dict[str, Any], signatures: Signatures, *, is_beta: bool = False, is_count: bool = False) -> None:
    """Raise `Rejection` for a request that the real API rejects."""
    _validate_shape(body, MessageCountTokensParams if is_count else _params(is_beta))
    if not body["messages"]:
        raise anthropic_rejection("messages: at least one message is required")
    for index, message in enumerate(body["messages"]):
        _validate_content(index, message, is_last=index == len(body["messages"]) - 1)
    _validate_system(body.get("system"))
    turns = _turns(body["messages"])
    if turns[0][0] != "user":
        raise anthropic_rejection('messages: first message must use the "user" role')
    _validate_instructions(body["messages"])
    _validate_pairs(turns)
    is_paused = _validate_server_tools(turns)
    if turns[-1][0] == "assistant" and not is_paused:
        text = "This model does not support assistant message prefill. The conversation must end with a user message."
        raise anthropic_rejection(text)
    _validate_thinking(body, turns, signatures)
    _validate_cache_marks(body)


def reply(body: dict[str, Any], model: Model, signatures: Signatures) -> Reply:
    """Return the model's response to a valid request."""
    turn = model(_prompt(body))
    compactions, edits = _context_management(body)
    content = [*compactions, *_content(turn, signatures if _thinks(body) else None)]
    output_tokens = count_tokens(content)
    usage = {
        "input_tokens": input_tokens(body),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": output_tokens,
    }
    message = {
        "id": new_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": "tool_use" if turn.calls else "end_turn",
        "stop_sequence": None,
        "usage": usage,
        **({"context_management": {"applied_edits": edits}} if edits else {}),
    }
    return Reply(body=message, events=_events(message))


def input_tokens(body: dict[str, Any]) -> int:
    return sum(count_tokens(body.get(name) or []) for name in ("system", "messages", "tools"))


def overflow(tokens: int, window: int) -> Rejection:
    return anthropic_rejection(f"prompt is too long: {tokens} tokens > {window} maximum", is_overflow=True)


def failed_stream(body: dict[str, Any], rejection: Rejection) -> Iterator[Event]:
    """Yield a stream that starts and then reports an error."""
    message = {"id": new_id("msg_"), "type": "message", "role": "assistant", "model": body["model"], "content": []}
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield "message_start", {"type": "message_start", "message": message}
    yield "error", rejection.body


def _params(is_beta: bool) -> Any:
    return BetaMessageCreateParams if is_beta else MessageCreateParams


def _validate_shape(body: dict[str, Any], params: Any) -> None:
    # The client sends `betas` as a header.
    try:
        check(body, params)
    except ShapeError as error:
        raise anthropic_shape_rejection(error) from error


def _validate_content(index: int, message: dict[str, Any], *, is_last: bool) -> None:
    content = message["content"]
    if not content and not (is_last and message["role"] == "assistant"):
        text = "all messages must have non-empty content except for the optional final assistant message"
        raise anthropic_rejection(f"messages.{index}: {text}")
    texts = [content] if isinstance(content, str) else _texts(content)
    _validate_texts("messages", texts)
    for block in content if isinstance(content, list) else ():
        if block["type"] == "tool_result" and isinstance(block.get("content"), list):
            _validate_texts("messages", _texts(block["content"]))


def _validate_system(system: Any) -> None:
    _validate_texts("system", _texts(system) if isinstance(system, list) else [])


def _texts(blocks: list[Block]) -> list[str]:
    return [block["text"] for block in blocks if block["type"] == "text"]


def _validate_texts(place: str, texts: list[str]) -> None:
    if any(not text for text in texts):
        raise anthropic_rejection(f"{place}: text content blocks must be non-empty")
    if any(not text.strip() for text in texts):
        raise anthropic_rejection(f"{place}: text content blocks must contain non-whitespace text")


def _turns(messages: list[dict[str, Any]]) -> list[tuple[str, list[tuple[str, Block]]]]:
    """Return the roles with their blocks and the blocks' paths. Consecutive messages of a role are one turn."""
    turns: list[tuple[str, list[tuple[str, Block]]]] = []
    for index, message in enumerate(messages):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        paths = [(f"messages.{index}.content.{position}", block) for position, block in enumerate(blocks)]
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(paths)
        else:
            turns.append((message["role"], paths))
    return turns


def _validate_instructions(messages: list[dict[str, Any]]) -> None:
    """Check the place of instructions among the messages, as the page about mid-conversation system messages says."""
    for index, message in enumerate(messages):
        if message["role"] != "system":
            continue
        before, after = messages[index - 1], messages[index + 1 : index + 2]
        follows_server_tool = (
            before["role"] == "assistant"
            and _blocks(before["content"])[-1:]
            and (_blocks(before["content"])[-1]["type"] in ("server_tool_use", "mcp_tool_use"))
        )
        if before["role"] != "user" and not follows_server_tool:
            raise anthropic_rejection(f"messages.{index}: a `system` message must follow a `user` message")
        if after and after[0]["role"] != "assistant":
            text = "a `system` message must be the last one or be followed by an `assistant` message"
            raise anthropic_rejection(f"messages.{index}: {text}")


def _validate_pairs(turns: list[tuple[str, list[tuple[str, Block]]]]) -> None:
    pending: list[str] = []
    used: set[str] = set()
    for role, blocks in turns:
        path = blocks[0][0].rsplit(".content.", 1)[0] if blocks else "messages"
        leading = [block for _, block in blocks]
        results = _leading_results(leading)
        missing = [call_id for call_id in pending if call_id not in results]
        if missing:
            text = (
                f"{path}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
                "next message."
            )
            raise anthropic_rejection(text)
        _validate_results(blocks, pending)
        pending = [block["id"] for block in leading if block["type"] == "tool_use"] if role == "assistant" else []
        _validate_tool_ids(blocks, used)
    # A conversation that ends with unanswered calls is rejected as a prefill, or here.
    if pending:
        text = f"messages.{len(turns) - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        rest = "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
        raise anthropic_rejection(f"{text}{', '.join(pending)}. {rest}")


def _validate_server_tools(turns: list[tuple[str, list[tuple[str, Block]]]]) -> bool:
    """Check the tools that the API runs. Their result may come after a pause, or after the tools of a program.

    Return True if one of them is still running.
    """
    open_calls: dict[str, str] = {}
    known: set[str] = set()
    for role, blocks in turns:
        if role == "user" and open_calls and any(block["type"] != "tool_result" for _, block in blocks):
            call_id, name = next(iter(open_calls.items()))
            text = f"`{name}` tool use with id `{call_id}` was found without a corresponding `{name}_tool_result` block"
            raise anthropic_rejection(f"{blocks[0][0]}: {text}")
        for path, block in blocks:
            kind = BLOCK_KINDS.get(block["type"])
            called_by = (block.get("caller") or {}).get("tool_id")
            if called_by is not None and called_by not in known:
                raise anthropic_rejection(f"{path}: `caller` names an unknown `server_tool_use` id: {called_by}")
            if kind is None or not kind.is_hosted:
                continue
            if kind.content is Content.CALL:
                known.add(block["id"])
                open_calls[block["id"]] = block["name"]
            elif block["tool_use_id"] not in known:
                text = (
                    f"{path}: unexpected `tool_use_id` found in `{kind.name}` blocks: {block['tool_use_id']}. Each "
                    f"`{kind.name}` block must have a corresponding `server_tool_use` block before it."
                )
                raise anthropic_rejection(text)
            else:
                open_calls.pop(block["tool_use_id"], None)
    return bool(open_calls)


def _leading_results(blocks: list[Block]) -> list[str]:
    """Return the ids of the results that come before any other block."""
    ids = []
    for block in blocks:
        if block["type"] != "tool_result":
            break
        ids.append(block["tool_use_id"])
    return ids


def _validate_results(blocks: list[tuple[str, Block]], pending: list[str]) -> None:
    answered: set[str] = set()
    for path, block in blocks:
        if block["type"] != "tool_result":
            continue
        call_id = block["tool_use_id"]
        if call_id not in pending:
            text = (
                f"{path}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. Each `tool_result` block "
                "must have a corresponding `tool_use` block in the previous message."
            )
            raise anthropic_rejection(text)
        if call_id in answered:
            text = f"{path}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: "
            raise anthropic_rejection(f"{text}{call_id}")
        answered.add(call_id)


def _validate_tool_ids(blocks: list[tuple[str, Block]], used: set[str]) -> None:
    for path, block in blocks:
        if block["type"] != "tool_use":
            continue
        if not _TOOL_ID.match(block["id"]):
            raise anthropic_rejection(f"{path}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        if block["id"] in used:
            raise anthropic_rejection("messages: `tool_use` ids must be unique")
        used.add(block["id"])


def _thinks(body: dict[str, Any]) -> bool:
    return (body.get("thinking") or {}).get("type") in ("enabled", "adaptive")


def _validate_thinking(
    body: dict[str, Any], turns: list[tuple[str, list[tuple[str, Block]]]], signatures: Signatures
) -> None:
    for _, blocks in turns:
        for path, block in blocks:
            if block["type"] == "thinking" and not signatures.verify(block):
                raise anthropic_rejection(f"{path}: Invalid `signature` in `thinking` block")
    if not _thinks(body) or len(turns) < 2:
        return
    # Only the turn of an unfinished tool loop must keep its thinking.
    path, first = turns[-2][1][0]
    has_calls = any(block["type"] == "tool_use" for _, block in turns[-2][1])
    if has_calls and first["type"] not in _THINKING:
        text = (
            f"{path}.type: Expected `thinking` or `redacted_thinking`, but found `{first['type']}`. When `thinking` is "
            "enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of "
            "`tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous turns. To "
            "avoid this requirement, disable `thinking`."
        )
        raise anthropic_rejection(text)


def _validate_cache_marks(body: dict[str, Any]) -> None:
    blocks = [*_blocks(body.get("system")), *(body.get("tools") or ())]
    for message in body["messages"]:
        blocks += _blocks(message["content"])
    count = sum(bool(block.get("cache_control")) for block in blocks)
    if count > _MAX_CACHE_MARKS:
        text = f"A maximum of {_MAX_CACHE_MARKS} blocks with cache_control may be provided. Found {count}."
        raise anthropic_rejection(text)


def _blocks(content: Any) -> list[Block]:
    return content if isinstance(content, list) else []


def _prompt(body: dict[str, Any]) -> Prompt:
    entries = [Entry("system", text_of(body.get("system")))]
    for message in body["messages"]:
        blocks = _blocks(message["content"])
        entries += [Entry("tool", text_of(block.get("content"))) for block in blocks if block["type"] == "tool_result"]
        names = tuple(block["name"] for block in blocks if block["type"] == "tool_use")
        others = [block for block in blocks if block["type"] not in ("tool_result", "tool_use")]
        text = message["content"] if isinstance(message["content"], str) else text_of(others)
        if text or names:
            entries.append(Entry(message["role"], text, names))
    tools = {tool["name"]: tool.get("input_schema") or {} for tool in body.get("tools") or ()}
    output_format = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    must_call = (body.get("tool_choice") or {}).get("type") in ("any", "tool")
    return Prompt(entries, tools, output_format.get("schema"), must_call=must_call)


def _content(turn: Turn, signatures: Signatures | None) -> list[Block]:
    content: list[Block] = []
    if signatures is not None:
        thinking = "Continue with the next step."
        content.append({"type": "thinking", "thinking": thinking, "signature": signatures.sign(thinking)})
    if turn.text:
        content.append({"type": "text", "text": turn.text, "citations": None})
    content += [
        {"type": "tool_use", "id": new_id("toolu_"), "name": call.name, "input": call.arguments} for call in turn.calls
    ]
    return content


def _context_management(body: dict[str, Any]) -> tuple[list[Block], list[Block]]:
    """Return a compaction block and the edits, for each that the request asks for at this size.

    The summary is the text of the first message.
    """
    tokens = input_tokens(body)
    compactions: list[Block] = []
    applied: list[Block] = []
    for edit in (body.get("context_management") or {}).get("edits") or ():
        if tokens <= (edit.get("trigger") or {}).get("value", 100_000):
            continue
        if edit["type"] == "compact_20260112":
            summary = text_of(body["messages"][0]["content"])
            compactions.append({"type": "compaction", "content": summary, "encrypted_content": None})
        elif edit["type"] == "clear_tool_uses_20250919":
            blocks = [block for message in body["messages"] for block in _blocks(message["content"])]
            results = [block for block in blocks if block["type"] == "tool_result"]
            cleared = results[: max(0, len(results) - (edit.get("keep") or {}).get("value", 3))]
            counts = {"cleared_tool_uses": len(cleared), "cleared_input_tokens": count_tokens(cleared)}
            applied.append({"type": edit["type"], **counts})
    return compactions, applied


def _events(message: dict[str, Any]) -> Iterator[Event]:
    start = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    start.pop("context_management", None)
    yield "message_start", {"type": "message_start", "message": start}
    for index, block in enumerate(message["content"]):
        empty, deltas = _deltas(block)
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": message["usage"]["output_tokens"]}
    edits = {"context_management": message["context_management"]} if "context_management" in message else {}
    yield "message_delta", {"type": "message_delta", "delta": delta, "usage": usage, **edits}
    yield "message_stop", {"type": "message_stop"}


def _deltas(block: Block) -> tuple[Block, list[Block]]:
    """Return a block as it is when its streaming starts, and the deltas that complete it."""
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": word} for word in words(block["text"])]
    if block["type"] == "thinking":
        thoughts = [{"type": "thinking_delta", "thinking": word} for word in words(block["thinking"])]
        signature = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [*thoughts, signature]
    if block["type"] == "compaction":
        return {**block, "content": None}, [{"type": "compaction_delta", "content": block["content"]}]
    text = json.dumps(block["input"])
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in (text[:5], text[5:])]
