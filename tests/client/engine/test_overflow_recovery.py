"""Context overflow errors of all providers, and the recovery from them."""

from __future__ import annotations

import pytest
from builders import Recorder, chat_turns, tool_pair
from compact import CompactConfig, CompactError, CompactManager, CompactPolicy
from compact.engine.overflow.errors import is_context_length_error, read_overflow
from compact.planning.tool_results.durability import ToolDurability, ToolDurabilityPolicy

OVERFLOW_ERRORS = {
    "openai": "Error code: 400 - {'error': {'message': \"This model's maximum context length is 128000 tokens. "
    "However, your messages resulted in 130512 tokens. Please reduce the length of the messages.\", 'code': "
    "'context_length_exceeded'}}",
    "openai responses": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "anthropic": "prompt is too long: 213462 tokens > 200000 maximum",
    "anthropic sum": "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
    "google": "The input token count (1200001) exceeds the maximum number of tokens allowed (1048576).",
    "bedrock": "ValidationException: Input is too long for requested model.",
    "mistral": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
    "vllm": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
    "llama.cpp": "the request exceeds the available context size (4096 tokens), try increasing it",
    "groq": "Please reduce the length of the messages or completion.",
    "together": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000",
    "cohere": "too many tokens: total number of tokens in the prompt cannot exceed 4081",
    "copilot": "prompt token count of 70000 exceeds the limit of 64000",
    "xai": "This model's maximum prompt length is 131072 but the request contains 150000 tokens.",
    "kimi": "Your request exceeded model token limit: 262144 (requested: 265000)",
    "minimax": "invalid params, context window exceeds limit (2013)",
    "lm studio": "The model is loaded with context length of only 4096 tokens, which is not enough.",
    "z.ai": "model_context_window_exceeded",
}


class ContextWindowExceededError(Exception):
    """The error class of LiteLLM."""


@pytest.mark.req("R-OVER-1")
@pytest.mark.parametrize("provider", OVERFLOW_ERRORS)
def test_overflow_errors_of_every_provider_are_recognized(provider):
    """The text of each provider is recognized, also as the cause of another error."""
    assert is_context_length_error(RuntimeError(OVERFLOW_ERRORS[provider]))
    try:
        raise RuntimeError("call failed") from ValueError(OVERFLOW_ERRORS[provider])
    except RuntimeError as error:
        assert is_context_length_error(error)


@pytest.mark.req("R-OVER-1")
@pytest.mark.parametrize(
    "text",
    [
        "Rate limit reached for gpt-5 on tokens per min (TPM): Limit 30000, Used 29000, Requested 5000",
        "Request too large for gpt-5 in organization org on tokens per min (TPM): Limit 30000, Requested 70000",
        "insufficient_quota",
        "Connection reset by peer",
        "invalid api key",
        "temperature must be <= 2",
        "max_tokens must be <= 8192",
        "image exceeds the limit of 5 MB",
        "a tool's name must have less than 64 characters",
    ],
)
def test_other_errors_are_not_overflows(text):
    """Rate limits and other errors must reach the caller unchanged."""
    assert not is_context_length_error(RuntimeError(text))


def test_the_numbers_of_an_overflow_error_are_parsed():
    """The limit and the requested tokens are found in either order."""
    assert (
        read_overflow(OVERFLOW_ERRORS["openai"]).limit_tokens,
        read_overflow(OVERFLOW_ERRORS["openai"]).requested_tokens,
    ) == (
        128000,
        130512,
    )
    assert read_overflow(OVERFLOW_ERRORS["anthropic"]).requested_tokens == 213462
    assert read_overflow(OVERFLOW_ERRORS["google"]).limit_tokens == 1048576
    assert read_overflow(OVERFLOW_ERRORS["anthropic sum"]).requested_tokens == 188240
    assert read_overflow(OVERFLOW_ERRORS["anthropic sum"]).limit_tokens == 200000 - 21333
    assert read_overflow(OVERFLOW_ERRORS["mistral"]).limit_tokens == 32768
    assert read_overflow(OVERFLOW_ERRORS["xai"]).requested_tokens == 150000
    assert read_overflow("no numbers here").limit_tokens is None


def manager_with(recorder, window=20_000):
    return CompactManager(CompactConfig("gpt-5", window, policy=CompactPolicy(hard_cap_buffer=100), exporter=recorder))


def long_history():
    messages = [{"role": "system", "content": "be careful"}]
    for number in range(30):
        messages += [*(m.to_dict() for m in chat_turns(1, start=number)), *tool_pair(number, "line " * 20)]
    return messages


@pytest.mark.req("R-OVER-1", "R-PAIR-1")
def test_recovery_removes_the_oldest_messages_until_the_call_succeeds():
    """Tool pairs stay intact, each removal is an event, and removed messages stay removed."""
    recorder = Recorder()
    manager = manager_with(recorder)
    messages = long_history()
    sizes = []

    def call(sending):
        sizes.append(len(sending))
        if len(sizes) < 3:
            raise RuntimeError("This model's maximum context length is 1800 tokens, you requested 2400 tokens")
        return sending

    out = manager.call_with_recovery("s", messages, call)
    assert sizes[0] > sizes[1] > sizes[2]
    assert out[0] == messages[0]
    assert out[-1] == messages[-1]
    ids = [item["tool_call_id"] for item in out if item["role"] == "tool"]
    assert ids == [call["id"] for item in out for call in item.get("tool_calls", ())]
    recovered = recorder.of("compact.overflow_recovered")
    assert [event["properties"]["attempt"] for event in recovered] == [1, 2]
    assert len(recovered[0]["payload"]["removed"]) == recovered[0]["properties"]["removed_count"]
    again = manager.preflight("s", messages)
    assert again == out


@pytest.mark.req("R-OVER-1")
def test_recovery_stops_after_three_attempts():
    """The fourth overflow reaches the caller. Any other error is raised immediately."""
    manager = manager_with(Recorder())
    calls = []

    def always(sending):
        calls.append(len(sending))
        raise RuntimeError("context_length_exceeded")

    with pytest.raises(RuntimeError, match="context_length_exceeded"):
        manager.call_with_recovery("s", long_history(), always)
    assert len(calls) == 4
    with pytest.raises(CompactError, match="after 3 recovery attempts"):
        manager.recover("s", long_history(), RuntimeError("context_length_exceeded"), attempt=4)
    with pytest.raises(KeyError):
        manager.call_with_recovery("s", long_history(), lambda sending: {}["x"])


async def test_async_recovery_accepts_the_list_that_was_sent():
    """`arecover` shortens the list that `apreflight` returned."""
    manager = manager_with(Recorder())
    sent = await manager.apreflight("s", long_history())
    shorter = await manager.arecover("s", sent, RuntimeError("context_length_exceeded"))
    assert len(shorter) < len(sent)
    assert shorter[-1] == sent[-1]


@pytest.mark.req("R-OVER-1", "D-ENV-1")
def test_recovery_removes_non_replayable_results_last_with_a_warning():
    """Other messages are removed first. Then the oldest of these results are removed, with a warning."""
    recorder = Recorder()
    quote = ToolDurabilityPolicy(ToolDurability.NON_REPLAYABLE)
    manager = CompactManager(CompactConfig("gpt-5", 20_000, exporter=recorder, tool_durability={"run": quote}))
    messages = long_history()
    outputs = [item for item in messages if item["role"] == "tool"]
    manager.preflight("s", messages)
    for attempt in (1, 2):
        sent = manager.recover("s", messages, RuntimeError("context_length_exceeded"), attempt=attempt)
    assert [item for item in sent if item["role"] == "tool"] == outputs
    assert not recorder.of("compact.warning")
    sent = manager.recover("s", messages, RuntimeError("context_length_exceeded"), attempt=3)
    kept = [item for item in sent if item["role"] == "tool"]
    assert kept == outputs[-len(kept) :]
    warning = recorder.last("compact.warning")
    assert warning["code"] == "irreplaceable_compacted"
    assert len(warning["details"]["message_ids"]) == len(outputs) - len(kept) > 0


@pytest.mark.req("R-OVER-1")
async def test_an_async_call_is_retried_with_fewer_messages():
    """Each overflow shortens the request, and the reply of the model is returned."""
    manager = manager_with(Recorder())
    lengths = []

    async def call(sending):
        lengths.append(len(sending))
        if len(lengths) < 3:
            raise RuntimeError("context_length_exceeded")
        return "done"

    assert await manager.acall_with_recovery("s", long_history(), call) == "done"
    assert lengths == sorted(lengths, reverse=True)
    assert len(set(lengths)) == 3


@pytest.mark.req("R-OVER-1")
def test_recovery_works_without_an_earlier_preflight():
    """A host may call `recover` only after an overflow, without any preflight."""
    recorder = Recorder()
    history = long_history()
    out = manager_with(recorder).recover("s", history, RuntimeError("prompt is too long: 2100 tokens > 2000 maximum"))
    assert out[0] == history[0]
    assert out[-1] == history[-1]
    assert len(out) < len(history)
    assert recorder.last("compact.overflow_recovered")["removed_count"] == len(history) - len(out)


@pytest.mark.req("R-OVER-1")
def test_a_recovered_request_can_be_rendered_again():
    """The request after an overflow is recorded like any other."""
    manager = manager_with(Recorder())
    first = manager.preflight("s", long_history())
    second = manager.recover("s", first, RuntimeError("context_length_exceeded"))
    assert manager.rerender("s", 1) == first
    assert manager.rerender("s", 2) == second


@pytest.mark.req("R-OVER-1")
def test_recovery_raises_if_nothing_can_be_removed():
    """The error is an event before it is raised."""
    recorder = Recorder()
    with pytest.raises(CompactError, match="only pinned messages"):
        manager_with(recorder).recover("s", [{"role": "user", "content": "hi"}], RuntimeError("prompt is too long"))
    assert recorder.last("compact.error")["error_type"] == "CompactError"
