"""OpenAI Responses: the rules of a request, stored responses and conversations, and the model's response."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

from compact.messages.block_kinds import BLOCK_KINDS
from openai.types.responses.response_create_params import ResponseCreateParams
from openai.types.responses.response_input_param import ResponseInputParam
from providers.conversation import Entry, Model, Prompt, Turn
from providers.ids import new_id
from providers.rejection import Rejection, openai_rejection, openai_shape_rejection
from providers.reply import Event, Reply, text_of, words
from providers.shapes import ShapeError, check
from providers.tokens import count_tokens

Item = dict[str, Any]

# The output item of each kind of call, and the name of the call in error messages. An approval may stay open.
_CALLS = {
    kind.name: (kind.answered_by, kind.name.replace("_", " "))
    for kind in BLOCK_KINDS.values()
    if kind.is_item and kind.answered_by and kind.name != "mcp_approval_request"
}
_OUTPUTS = {output: call for call, (output, _) in _CALLS.items()}
_ID_PREFIXES = {"message": "msg", "function_call": "fc", "reasoning": "rs", "custom_tool_call": "ctc"}
_ASSISTANT_PARTS = ("output_text", "refusal")


class Store:
    """Responses, conversations and items that the server has issued."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.responses: dict[str, list[Item]] = {}
        """The whole history of each stored response, including its output."""
        self.conversations: dict[str, list[Item]] = {}
        self.required_reasoning: dict[str, str] = {}
        """The reasoning item without which an issued item is invalid, by item id."""
        self.followers: dict[str, Item] = {}
        """The item that must follow a reasoning item, by the id of the reasoning item."""
        self.persisted_ids: set[str] = set()
        self.sealed: set[str] = set()
        """Every encrypted content that the server has issued."""

    def history(self, body: dict[str, Any]) -> list[Item]:
        """Return the items that the server adds before the input. Raise `Rejection` for an unknown id."""
        previous, conversation = body.get("previous_response_id"), body.get("conversation")
        if previous and conversation:
            text = (
                "Mutually exclusive parameters: 'previous_response_id'. Ensure you are only providing one of: "
                "'previous_response_id' or 'conversation'."
            )
            raise openai_rejection(text, param="previous_response_id", code="mutually_exclusive_parameters")
        if previous:
            if previous not in self.responses:
                text = f"Previous response with id '{previous}' not found."
                raise openai_rejection(text, param="previous_response_id", code="previous_response_not_found")
            return self.responses[previous]
        if conversation:
            return self.conversation(conversation if isinstance(conversation, str) else conversation["id"])
        return []

    def conversation(self, conversation_id: str) -> list[Item]:
        if conversation_id not in self.conversations:
            text = f"Conversation with id '{conversation_id}' not found."
            raise openai_rejection(text, status=404)
        return self.conversations[conversation_id]

    def save(self, body: dict[str, Any], response_id: str, new_items: list[Item]) -> None:
        with self.lock:
            history = self.history(body)
            conversation = body.get("conversation")
            if conversation:
                history.extend(new_items)
            if body.get("store") is not False:
                self.responses[response_id] = list(history) if conversation else [*history, *new_items]
                self.persisted_ids.update(item["id"] for item in new_items if item.get("id"))


def validate(body: dict[str, Any], store: Store) -> None:
    """Raise `Rejection` for a request that the real API rejects."""
    # The SDK's types require these keys of a function, but the API has defaults for them.
    tools = [
        {"strict": None, "parameters": None, **tool} if tool.get("type") == "function" else tool
        for tool in body.get("tools") or ()
    ]
    given = body.get("input")
    shaped = {**body, "tools": tools}
    if isinstance(given, list):
        shaped["input"] = [_with_defaults(item) for item in given]
    try:
        check(shaped, ResponseCreateParams)
    except ShapeError as error:
        raise openai_shape_rejection(error) from error
    items, history = input_items(body), store.history(body)
    if not items and not history and not body.get("prompt"):
        text = 'One of "input" or "previous_response_id" or "prompt" or "conversation" must be provided.'
        raise openai_rejection(text, code="missing_required_parameter")
    for index, item in enumerate(items):
        _validate_item(index, item)
    _validate_ids(items, history, store)
    _validate_pairs([*history, *items])
    _validate_reasoning([*history, *items], store)


def validate_items(items: list[Item]) -> None:
    """Raise `Rejection` if a list of items has a wrong shape."""
    try:
        check({"input": items}["input"], ResponseInputParam, ("input",))
    except ShapeError as error:
        raise openai_shape_rejection(error) from error


def reply(body: dict[str, Any], model: Model, store: Store, *, has_reasoning: bool) -> Reply:
    """Return the model's response to a valid request, and store it."""
    history, items = store.history(body), input_items(body)
    tokens = input_tokens(body, store)
    turn = model(_prompt(body, [*history, *items]))
    output = [*_server_compaction(body, tokens, store), *_output(turn, has_reasoning, store)]
    response_id = new_id("resp_")
    store.save(body, response_id, [*items, *output])
    response = _response(body, response_id, output, tokens)
    return Reply(body=response, events=_events(response))


def input_tokens(body: dict[str, Any], store: Store) -> int:
    parts = (store.history(body), body.get("input") or "", body.get("instructions") or "", body.get("tools") or [])
    return sum(count_tokens(part) for part in parts)


def overflow(tokens: int, window: int) -> Rejection:
    text = "Your input exceeds the context window of this model. Please adjust your input and try again."
    return openai_rejection(text, param="input", code="context_length_exceeded", is_overflow=True)


def failed_stream(body: dict[str, Any], rejection: Rejection, *, kind: str) -> Iterator[Event]:
    """Yield a stream that starts and then fails with `response.failed` or with `error`."""
    response = _response(body, new_id("resp_"), [], 0)
    started = {**response, "status": "in_progress", "usage": None}
    error = rejection.body["error"]
    events = [
        {"type": "response.created", "response": started},
        {"type": "response.in_progress", "response": started},
    ]
    if kind == "error":
        events.append({"type": "error", "error": error, **error})
        events[-1]["type"] = "error"
    else:
        failure = {"code": error["code"], "message": error["message"]}
        failed = {**started, "status": "failed", "error": failure}
        events.append({"type": "response.failed", "response": failed})
    return _number_events(events)


def compact(body: dict[str, Any], store: Store) -> dict[str, Any]:
    """Return the result of `/responses/compact`: the user's messages and one encrypted item."""
    items = [*store.history(body), *input_items(body)]
    users = [item for item in items if item.get("role") == "user"]
    return {
        "id": new_id("resp_"),
        "object": "response.compaction",
        "created_at": 1_700_000_000,
        "output": [*({"type": "message", **item, "id": new_id("msg_")} for item in users), _compaction_item(store)],
        "usage": _usage(count_tokens(items), 10),
    }


def input_items(body: dict[str, Any]) -> list[Item]:
    given = body.get("input") or []
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def _with_defaults(item: Item) -> Item:
    """Return a message with the keys that the SDK's types require and the API does not, and without those it ignores.

    Required are the id and the status of an assistant message, and the detail of an image. LangChain leaves them out.
    Other messages have an id in lists of the API, and Codex sends ids of its own.
    """
    if not isinstance(item, dict):
        return item
    content = item.get("content")
    if item.get("type") == "reasoning":
        # Codex sends `content: null` with reasoning that it cannot read.
        return {key: value for key, value in item.items() if value is not None}
    if not isinstance(content, list):
        return item
    parts = [{"detail": "auto", **part} if part.get("type") == "input_image" else part for part in content]
    is_output = item.get("role") == "assistant" and any(part.get("type") in _ASSISTANT_PARTS for part in parts)
    defaults = {"type": "message", "id": "msg_", "status": "completed"} if is_output else {}
    if item.get("role") != "assistant":
        item = {key: value for key, value in item.items() if key != "id"}
    return {**defaults, **item, "content": parts}


def _validate_item(index: int, item: Item) -> None:
    kind = item.get("type", "message")
    prefix = _ID_PREFIXES.get(kind)
    if prefix and item.get("id") and not item["id"].startswith(prefix):
        text = f"Invalid 'input[{index}].id': '{item['id']}'. Expected an ID that begins with '{prefix}'."
        raise openai_rejection(text, param=f"input[{index}].id", code="invalid_value")
    content = item.get("content")
    if kind == "message" and isinstance(content, list):
        for position, part in enumerate(content):
            is_own = part["type"] in _ASSISTANT_PARTS
            if is_own != (item["role"] == "assistant"):
                supported = "'output_text' and 'refusal'" if not is_own else "'input_text', 'input_image', 'input_file'"
                text = f"Invalid value: '{part['type']}'. Supported values are: {supported}."
                raise openai_rejection(text, param=f"input[{index}].content[{position}]", code="invalid_value")


def _validate_ids(items: list[Item], history: list[Item], store: Store) -> None:
    seen = {item["id"] for item in history if item.get("id")}
    for item in items:
        item_id, kind = item.get("id"), item.get("type", "message")
        if item_id and kind != "item_reference":
            if item_id in seen:
                text = f"Duplicate item found with id {item_id}. Remove duplicate items from your input and try again."
                raise openai_rejection(text, param="input")
            seen.add(item_id)
        sealed = item.get("encrypted_content")
        if sealed and sealed not in store.sealed:
            text = (
                f"The encrypted content {sealed[:4]}...{sealed[-4:]} could not be verified. "
                "Reason: Encrypted content could not be decrypted or parsed."
            )
            raise openai_rejection(text, code="invalid_encrypted_content")
        is_stored = kind == "item_reference" or (kind == "reasoning" and not sealed)
        if is_stored and item_id not in store.persisted_ids:
            text = (
                f"Item with id '{item_id}' not found. Items are not persisted when `store` is set to false. Try "
                "again with `store` set to true, or remove this item from your input."
            )
            raise openai_rejection(text, param="input", status=404)


def _validate_pairs(items: list[Item]) -> None:
    pending: dict[tuple[str, str], None] = {}
    programs: set[str] = set()
    for item in items:
        kind = item.get("type", "message")
        call_id = item.get("call_id") or item.get("id") or ""
        program = (item.get("caller") or {}).get("caller_id")
        if program is not None and program not in programs:
            raise openai_rejection(f"No program found for {kind} with caller_id {program}.", param="input")
        if kind == "tool_search_call" and item.get("execution") == "server":
            continue
        if kind == "program":
            programs.add(call_id)
        elif item.get("role") == "user":
            _require_program_outputs(pending)
        if kind in _CALLS:
            pending[_CALLS[kind][0], call_id] = None
        elif kind == "tool_search_output" and item.get("execution") == "server":
            continue
        elif kind in _OUTPUTS:
            if (kind, call_id) not in pending:
                name = _CALLS[_OUTPUTS[kind]][1]
                text = f"No tool call found for {name} output with call_id {call_id}."
                raise openai_rejection(text, param="input")
            del pending[kind, call_id]
    for output, call_id in pending:
        if output == "program_output":
            continue  # The program is still running.
        text = f"No tool output found for {_CALLS[_OUTPUTS[output]][1]} {call_id}."
        raise openai_rejection(text, param="input")


def _require_program_outputs(pending: dict[tuple[str, str], None]) -> None:
    """Raise `Rejection` if the user speaks before a program has ended."""
    for output, call_id in pending:
        if output == "program_output":
            raise openai_rejection(f"No program output found for program {call_id}.", param="input")


def _validate_reasoning(items: list[Item], store: Store) -> None:
    present = {item.get("id") for item in items if item.get("type") == "reasoning"}
    for item, following in itertools.zip_longest(items, items[1:]):
        kind, item_id = item.get("type", "message"), item.get("id")
        if kind == "reasoning" and not _is_follower(following, store.followers.get(item_id)):
            text = f"Item '{item_id}' of type 'reasoning' was provided without its required following item."
            raise openai_rejection(text, param="input")
        reasoning_id = store.required_reasoning.get(item_id or "")
        if reasoning_id and reasoning_id not in present:
            text = (
                f"Item '{item_id}' of type '{kind}' was provided without its required 'reasoning' item: "
                f"'{reasoning_id}'."
            )
            raise openai_rejection(text, param="input")


def _is_follower(item: Item | None, expected: Item | None) -> bool:
    if item is None:
        return False
    if expected is None or (item.get("id") and item["id"] == expected.get("id")):
        return True
    if expected["type"] == "message":
        return item.get("role") == "assistant" and text_of(item.get("content")) == text_of(expected["content"])
    return bool(item.get("call_id")) and item["call_id"] == expected.get("call_id")


def _prompt(body: dict[str, Any], items: list[Item]) -> Prompt:
    entries = [Entry("system", body.get("instructions") or "")]
    entries += [_entry(item) for item in items if item.get("type") not in ("reasoning", "compaction")]
    functions = [tool for tool in body.get("tools") or () if tool["type"] == "function"]
    return Prompt(
        entries,
        {tool["name"]: tool.get("parameters") or {} for tool in functions},
        ((body.get("text") or {}).get("format") or {}).get("schema"),
        must_call=body.get("tool_choice") == "required",
    )


def _entry(item: Item) -> Entry:
    kind = item.get("type", "message")
    if kind in _OUTPUTS:
        return Entry("tool", text_of(item.get("output")))
    if kind != "message":
        return Entry("assistant", str(item.get("arguments", "")), (str(item.get("name", kind)),))
    role = {"developer": "system"}.get(item["role"], item["role"])
    return Entry(role, text_of(item.get("content")))


def _output(turn: Turn, has_reasoning: bool, store: Store) -> list[Item]:
    items: list[Item] = []
    if turn.text:
        part = {"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}
        message = {"type": "message", "id": new_id("msg_"), "role": "assistant", "status": "completed"}
        items.append({**message, "content": [part]})
    for call in turn.calls:
        head = {"type": "function_call", "id": new_id("fc_"), "call_id": new_id("call_"), "status": "completed"}
        items.append({**head, "name": call.name, "arguments": call.arguments_json})
    if not has_reasoning:
        return items
    reasoning = {"type": "reasoning", "id": new_id("rs_"), "encrypted_content": new_id("gAAAA"), "summary": []}
    with store.lock:
        store.sealed.add(reasoning["encrypted_content"])
        store.followers[reasoning["id"]] = items[0]
        store.required_reasoning.update((item["id"], reasoning["id"]) for item in items)
    return [reasoning, *items]


def _server_compaction(body: dict[str, Any], tokens: int, store: Store) -> list[Item]:
    """Return a compaction item if the request asks the server to compact at this size."""
    settings = body.get("context_management") or ()
    thresholds = [entry["compact_threshold"] for entry in settings if entry.get("compact_threshold")]
    return [_compaction_item(store)] if any(tokens > threshold for threshold in thresholds) else []


def _compaction_item(store: Store) -> Item:
    item = {"type": "compaction", "id": new_id("cmp_"), "encrypted_content": new_id("gAAAC")}
    with store.lock:
        store.sealed.add(item["encrypted_content"])
    return item


def _response(body: dict[str, Any], response_id: str, output: list[Item], tokens: int) -> dict[str, Any]:
    include = body.get("include") or ()
    shown = [
        {**item, "encrypted_content": None}
        if item["type"] == "reasoning" and "reasoning.encrypted_content" not in include
        else item
        for item in output
    ]
    return {
        "id": response_id,
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "model": body.get("model"),
        "output": shown,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "top_p": 1.0,
        "previous_response_id": body.get("previous_response_id"),
        "usage": _usage(tokens, count_tokens(output)),
    }


def _usage(tokens: int, output_tokens: int) -> dict[str, Any]:
    return {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens + output_tokens,
    }


def _events(response: dict[str, Any]) -> Iterator[Event]:
    started = {**response, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": started},
        {"type": "response.in_progress", "response": started},
    ]
    for index, item in enumerate(response["output"]):
        where = {"output_index": index, "item_id": item["id"]}
        events.append({"type": "response.output_item.added", "output_index": index, "item": _empty(item)})
        if item["type"] == "message":
            events += _text_events(item["content"][0], where)
        elif item["type"] == "function_call":
            events += [
                {"type": "response.function_call_arguments.delta", **where, "delta": word}
                for word in words(item["arguments"])
            ]
            done = {"type": "response.function_call_arguments.done", **where}
            events.append({**done, "name": item["name"], "arguments": item["arguments"]})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": response})
    return _number_events(events)


def _empty(item: Item) -> Item:
    """Return an item as it is when its streaming starts."""
    changes = {"message": {"content": [], "status": "in_progress"}, "function_call": {"arguments": ""}}
    return {**item, **changes.get(item["type"], {})}


def _text_events(part: dict[str, Any], where: dict[str, Any]) -> list[dict[str, Any]]:
    where = {**where, "content_index": 0}
    text = "response.output_text"
    return [
        {"type": "response.content_part.added", **where, "part": {**part, "text": ""}},
        *({"type": f"{text}.delta", **where, "delta": word, "logprobs": []} for word in words(part["text"])),
        {"type": f"{text}.done", **where, "text": part["text"], "logprobs": []},
        {"type": "response.content_part.done", **where, "part": part},
    ]


def _number_events(events: list[dict[str, Any]]) -> Iterator[Event]:
    for number, event in enumerate(events):
        yield event["type"], {**event, "sequence_number": number}
