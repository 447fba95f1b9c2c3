"""Calls of the wrappers and of `preflight` with the types of the providers' packages, for mypy.

`make lint` checks this file. It is not executed.
"""

from __future__ import annotations

from typing import assert_type

import anthropic
import openai
from anthropic.types import Message, MessageParam, RawMessageStreamEvent
from compact import CompactManager
from compact.integrations.anthropic import AnthropicMessages
from compact.integrations.openai import ChatCompletions, Responses
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessageParam
from openai.types.responses import Response, ResponseInputParam
from pydantic import BaseModel


class Answer(BaseModel):
    text: str


def sync_calls(manager: CompactManager, client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    history: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello"}]
    items: ResponseInputParam = [{"role": "user", "content": "hello"}]
    messages: list[MessageParam] = [{"role": "user", "content": "hello"}]
    assert_type(manager.preflight("s", history), list[ChatCompletionMessageParam])
    assert_type(manager.preflight("s", messages), list[MessageParam])
    chat = ChatCompletions(client, manager, session_id="s")
    assert_type(chat.create(model="m", messages=history, temperature=0, protected=[0]), ChatCompletion)
    assert_type(chat.create(model="m", messages=history, stream=True), openai.Stream[ChatCompletionChunk])
    parsed = chat.parse(model="m", messages=history, response_format=Answer)
    assert_type(parsed.choices[0].message.parsed, Answer | None)
    with chat.stream(model="m", messages=history, protected=[0]) as stream:
        stream.get_final_completion()
    responses = Responses(client, manager, session_id="s")
    assert_type(responses.create(model="m", input=items), Response)
    assert_type(responses.parse(model="m", input="hello", text_format=Answer).output_parsed, Answer | None)
    claude_messages = AnthropicMessages(claude, manager, session_id="s")
    assert_type(claude_messages.create(model="m", max_tokens=1, messages=messages, system="x"), Message)
    assert_type(
        claude_messages.create(model="m", max_tokens=1, messages=messages, stream=True),
        anthropic.Stream[RawMessageStreamEvent],
    )
    with claude_messages.stream(model="m", max_tokens=1, messages=messages) as message_stream:
        message_stream.get_final_text()


async def async_calls(manager: CompactManager, client: openai.AsyncOpenAI, claude: anthropic.AsyncAnthropic) -> None:
    history: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello"}]
    messages: list[MessageParam] = [{"role": "user", "content": "hello"}]
    assert_type(await manager.apreflight("s", history), list[ChatCompletionMessageParam])
    chat = ChatCompletions(client, manager, session_id="s")
    assert_type(await chat.create(model="m", messages=history), ChatCompletion)
    assert_type(await Responses(client, manager, session_id="s").create(model="m", input="hello"), Response)
    claude_messages = AnthropicMessages(claude, manager, session_id="s")
    assert_type(await claude_messages.create(model="m", max_tokens=1, messages=messages), Message)
    async with claude_messages.stream(model="m", max_tokens=1, messages=messages) as stream:
        await stream.get_final_message()
