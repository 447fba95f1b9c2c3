"""The strict provider itself: it accepts what the real APIs accept, and rejects what they reject."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from providers.server import StrictProvider

TOOL = {"type": "object", "properties": {"step": {"type": "integer"}, "total": {"type": "integer"}}}
CHAT_TOOL = {"type": "function", "function": {"name": "read", "parameters": TOOL}}
RESPONSES_TOOL = {"type": "function", "name": "read", "parameters": TOOL, "strict": False}
ANTHROPIC_TOOL = {"name": "read", "input_schema": TOOL}


@pytest.fixture
def provider() -> Iterator[StrictProvider]:
    with StrictProvider() as running:
        yield running


@pytest.fixture
def client(provider: StrictProvider) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key="k", base_url=provider.openai_url, max_retries=0) as running:
        yield running


@pytest.fixture
def claude(provider: StrictProvider) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(api_key="k", base_url=provider.url, max_retries=0) as running:
        yield running


def user(text: str = "hello") -> dict[str, Any]:
    return {"role": "user", "content": text}


def chat_call(call_id: str = "c1") -> dict[str, Any]:
    function = {"name": "read", "arguments": "{}"}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def chat_result(call_id: str = "c1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "text"}


def item_call(call_id: str = "c1", **keys: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "read", "arguments": "{}", **keys}


def item_result(call_id: str = "c1") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "text"}


def use(call_id: str = "c1") -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": call_id, "name": "read", "input": {}}]}


def result(call_id: str = "c1", *more: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": "text"}, *more]}


CHAT_RULES = {
    "unknown key": ([{**user(), "meta": {"protected": True}}], "Unknown parameter: 'messages[0].meta'."),
    "no messages": ([], "Invalid 'messages': empty array"),
    "unknown role": ([{"role": "bot", "content": "x"}], "Invalid value: 'bot'"),
    "null content": ([user(), {"role": "assistant", "content": None}], "Invalid value for 'content'"),
    "orphan result": ([user(), chat_result()], "must be a response to a preceeding message with 'tool_calls'"),
    "missing result": ([user(), chat_call(), user()], "did not have response messages: c1"),
    "result missing at the end": ([user(), chat_call()], "did not have response messages: c1"),
    "result twice": ([user(), chat_call(), chat_result(), chat_result()], "must be a response to a preceeding message"),
    "result without id": ([user(), {"role": "tool", "content": "x"}], "Missing required parameter"),
    "long call id": ([user(), chat_call("x" * 41), chat_result("x" * 41)], "string too long"),
}
RESPONSES_RULES = {
    "unknown key": ([{**user(), "meta": {"protected": True}}], "Unknown parameter: 'input[0].meta'."),
    "no input": ([], "must be provided"),
    "orphan result": ([user(), item_result()], "No tool call found for function call output with call_id c1."),
    "missing result": ([user(), item_call(), user()], "No tool output found for function call c1."),
    "result before its call": ([user(), item_result(), item_call()], "No tool call found for function call output"),
    "wrong id": ([user(), item_call(id="x1"), item_result()], "Expected an ID that begins with 'fc'"),
    "unknown reasoning": ([user(), {"type": "reasoning", "id": "rs_1", "summary": []}, user()], "not found. Items are"),
    "foreign encryption": (
        [user(), {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "forged"}, item_call()],
        "could not be verified",
    ),
    "input text of an assistant": (
        [{"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}],
        "Supported values are: 'output_text' and 'refusal'",
    ),
    "same id twice": ([item_call(id="fc_1"), item_call("c2", id="fc_1")], "Duplicate item found with id fc_1"),
}
ANTHROPIC_RULES = {
    "unknown key": ([{**user(), "meta": {"protected": True}}], "messages.0.meta: Extra inputs are not permitted"),
    "no messages": ([], "at least one message is required"),
    "system role": ([{"role": "tool", "content": "x"}], "Unexpected role"),
    "assistant first": ([{"role": "assistant", "content": "x"}, user()], 'first message must use the "user" role'),
    "assistant last": ([user(), {"role": "assistant", "content": "x"}], "does not support assistant message prefill"),
    "empty content": ([user(""), user()], "all messages must have non-empty content"),
    "empty block": (
        [{"role": "user", "content": [{"type": "text", "text": ""}]}],
        "text content blocks must be non-empty",
    ),
    "white space": ([user(" \n")], "must contain non-whitespace text"),
    "orphan result": ([user(), result()], "unexpected `tool_use_id` found in `tool_result` blocks: c1"),
    "missing result": ([user(), use(), user()], "ids were found without `tool_result` blocks immediately after: c1"),
    "text before the result": (
        [user(), use(), {"role": "user", "content": [{"type": "text", "text": "x"}, *result()["content"]]}],
        "ids were found without `tool_result` blocks immediately after: c1",
    ),
    "result twice": ([user(), use(), result("c1", *result()["content"])], "each tool_use must have a single result"),
    "same call id twice": ([user(), use(), result(), use(), result()], "ids must be unique"),
    "forged thinking": (
        [user(), {"role": "assistant", "content": [{"type": "thinking", "thinking": "x", "signature": "y"}]}, user()],
        "Invalid `signature` in `thinking` block",
    ),
    "five cache marks": (
        [{"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}] * 5}],
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
}


@pytest.mark.parametrize("rule", CHAT_RULES)
def test_chat_completions_rejects(rule: str, provider: StrictProvider, client: openai.OpenAI) -> None:
    """The error body is that of the real API, so the client raises its own exception."""
    messages, message = CHAT_RULES[rule]
    with pytest.raises(openai.BadRequestError) as raised:
        client.chat.completions.create(model="m", messages=messages)
    assert message in str(raised.value)
    assert message in provider.rejections[0]


@pytest.mark.parametrize("rule", RESPONSES_RULES)
def test_responses_rejects(rule: str, provider: StrictProvider, client: openai.OpenAI) -> None:
    """The error body is that of the real API, so the client raises its own exception."""
    items, message = RESPONSES_RULES[rule]
    with pytest.raises(openai.APIStatusError) as raised:
        client.responses.create(model="m", input=items)
    assert message in str(raised.value)
    assert message in provider.rejections[0]


@pytest.mark.parametrize("rule", ANTHROPIC_RULES)
def test_anthropic_rejects(rule: str, provider: StrictProvider, claude: anthropic.Anthropic) -> None:
    """The error body is that of the real API, so the client raises its own exception."""
    messages, message = ANTHROPIC_RULES[rule]
    with pytest.raises(anthropic.BadRequestError) as raised:
        claude.messages.create(model="m", max_tokens=10, messages=messages)
    assert message in str(raised.value)
    assert message in provider.rejections[0]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_chat_completions_works_through_a_tool_loop(
    is_streamed: bool, provider: StrictProvider, client: openai.OpenAI
) -> None:
    """Three steps with two parallel calls are two calls, one call, and an answer."""
    messages: list[Any] = [user("work 3 by 2. SECRET-a")]
    arguments: dict[str, Any] = {"model": "m", "messages": messages, "tools": [CHAT_TOOL]}
    widths = []
    while True:
        if is_streamed:
            options = {"include_usage": True}
            with client.chat.completions.stream(**arguments, stream_options=options) as stream:
                completion: Any = stream.get_final_completion()
        else:
            completion = client.chat.completions.create(**arguments)
        assert completion.usage.prompt_tokens > 0
        message = completion.choices[0].message
        if not message.tool_calls:
            break
        widths.append(len(message.tool_calls))
        calls = [
            {"id": call.id, "type": "function", "function": {"name": "read", "arguments": call.function.arguments}}
            for call in message.tool_calls
        ]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": step(call.function.arguments)}
            for call in message.tool_calls
        ]
    assert widths == [2, 1]
    assert message.content == "Done. SECRET-a"
    assert provider.rejections == []


@pytest.mark.parametrize("way", ["create", "stream", "previous_response_id", "conversation"])
def test_responses_works_through_a_tool_loop(way: str, provider: StrictProvider, client: openai.OpenAI) -> None:
    """The history is sent in full, or kept by the server. Reasoning items go back with their function calls."""
    provider.has_reasoning = True
    items: list[Any] = [user("work 3 by 2. SECRET-a")]
    arguments: dict[str, Any] = {"model": "m", "input": items, "tools": [RESPONSES_TOOL]}
    if way == "conversation":
        arguments["conversation"] = client.conversations.create().id
    while True:
        if way == "stream":
            with client.responses.stream(**arguments) as stream:
                response: Any = stream.get_final_response()
        else:
            response = client.responses.create(**arguments)
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            break
        results = [{**item_result(call.call_id), "output": step(call.arguments)} for call in calls]
        if way in ("create", "stream"):
            items += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in response.output]
            items += results
        else:
            arguments["input"] = results
        if way == "previous_response_id":
            arguments["previous_response_id"] = response.id
    assert response.output_text == "Done. SECRET-a"
    assert response.usage.input_tokens > 0
    assert provider.rejections == []


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        (("reasoning",), "was provided without its required following item"),
        (("function_call", "function_call_output"), "was provided without its required 'reasoning' item"),
    ],
)
def test_a_reasoning_item_and_its_call_belong_together(
    kept: tuple[str, ...], message: str, provider: StrictProvider, client: openai.OpenAI
) -> None:
    """Neither half of a pair is valid alone."""
    provider.has_reasoning = True
    response = client.responses.create(model="m", input="work 1", tools=[RESPONSES_TOOL])
    items = [item.model_dump(exclude_none=True) for item in response.output]
    items.append(item_result(items[-1]["call_id"]))
    client.responses.create(model="m", input=[user(), *items])
    with pytest.raises(openai.BadRequestError, match=message):
        client.responses.create(model="m", input=[user(), *(item for item in items if item["type"] in kept)])


def test_responses_has_defaults_that_the_types_do_not_have(provider: StrictProvider, client: openai.OpenAI) -> None:
    """An assistant message needs no id and no status, and an image needs no detail."""
    answer = {"role": "assistant", "content": [{"type": "output_text", "text": "x", "annotations": []}]}
    image = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
    items: Any = [user(), {"type": "message", **answer}, {"role": "user", "content": [image]}]
    client.responses.create(model="m", input=items)
    assert provider.rejections == []


def test_responses_rejects_unknown_histories(client: openai.OpenAI) -> None:
    """A wrong response or conversation id has its own error."""
    with pytest.raises(openai.BadRequestError, match="Previous response with id 'resp_x' not found"):
        client.responses.create(model="m", input="x", previous_response_id="resp_x")
    with pytest.raises(openai.NotFoundError, match="Conversation with id 'conv_x' not found"):
        client.responses.create(model="m", input="x", conversation="conv_x")


def test_compaction_items_are_issued_and_verified(client: openai.OpenAI) -> None:
    """A compaction item is accepted again, and a changed one is not."""
    item = client.responses.compact(model="m", input=[user()]).output[-1].model_dump(exclude_none=True)
    assert item["type"] == "compaction"
    client.responses.create(model="m", input=[item, user()])
    with pytest.raises(openai.BadRequestError, match="could not be verified"):
        client.responses.create(model="m", input=[{**item, "encrypted_content": "x"}, user()])


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("thinking", [None, {"type": "enabled", "budget_tokens": 1024}])
def test_anthropic_works_through_a_tool_loop(
    thinking: dict[str, Any] | None, is_streamed: bool, provider: StrictProvider, claude: anthropic.Anthropic
) -> None:
    """Thinking blocks go back with their signatures."""
    messages: list[Any] = [user("work 3 by 2. SECRET-a")]
    arguments: dict[str, Any] = {"model": "m", "max_tokens": 2048, "messages": messages, "tools": [ANTHROPIC_TOOL]}
    if thinking:
        arguments["thinking"] = thinking
    while True:
        if is_streamed:
            with claude.messages.stream(**arguments) as stream:
                response: Any = stream.get_final_message()
        else:
            response = claude.messages.create(**arguments)
        uses = [block for block in response.content if block.type == "tool_use"]
        if not uses:
            break
        content = [block.model_dump(exclude_none=True, exclude={"caller"}) for block in response.content]
        assert (content[0]["type"] == "thinking") == bool(thinking)
        messages.append({"role": "assistant", "content": content})
        results = [result(block.id)["content"][0] | {"content": step(json.dumps(block.input))} for block in uses]
        messages.append({"role": "user", "content": results})
    assert response.content[-1].text == "Done. SECRET-a"
    assert claude.messages.count_tokens(model="m", messages=messages).input_tokens > 0
    assert provider.rejections == []
    if thinking:
        del messages[1]["content"][0]["signature"]
        messages[1]["content"][0] = {"type": "thinking", "thinking": "changed", "signature": "EqQ"}
        with pytest.raises(anthropic.BadRequestError, match="Invalid `signature`"):
            claude.messages.create(**arguments)


@pytest.mark.parametrize("report", ["http", "response.failed", "error"])
def test_an_overflow_is_reported_in_each_way(
    report: Any, provider: StrictProvider, client: openai.OpenAI, claude: anthropic.Anthropic
) -> None:
    """An overflow is an HTTP error, or an event after the first events of a stream."""
    provider.window_tokens, provider.overflow_report = 10, report
    messages: Any = [user("word " * 100)]
    with pytest.raises(openai.APIError, match="maximum context length is 10 tokens"):
        list(client.chat.completions.create(model="m", messages=messages, stream=True))
    with pytest.raises(anthropic.APIStatusError, match=r"prompt is too long: .* tokens > 10 maximum"):
        list(claude.messages.create(model="m", max_tokens=10, messages=messages, stream=True))
    if report == "response.failed":
        last = list(client.responses.create(model="m", input=messages, stream=True))[-1]
        assert last.type == "response.failed"
        assert last.response.error is not None
        assert last.response.error.code == "context_length_exceeded"
    else:
        with pytest.raises(openai.APIError, match="exceeds the context window"):
            list(client.responses.create(model="m", input=messages, stream=True))
    assert len(provider.overflows) == 3
    assert provider.rejections == []


def step(arguments: str) -> str:
    """Return the result of the test's tool."""
    values = json.loads(arguments)
    return f"step {values['step']}/{values['total']}"
