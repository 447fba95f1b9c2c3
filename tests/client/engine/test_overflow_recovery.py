"""Context overflow errors of all providers, and the recovery from them."""

from __future__ import annotations

import pytest
from builders import Recorder, chat_turns, tool_pair
from compact import CompactConfig, CompactError, CompactManager, CompactPolicy, FileStorage, TiktokenEstimator
from compact.adapters.plan_stores import MemoryCompactionStore
from compact.engine.overflow.errors import is_context_length_error, read_overflow
from compact.messages.codecs import get_codec
from compact.planning.tool_results.durability import ToolDurability, ToolDurabilityPolicy
from compact.planning.usage_correction import UsageCorrection

OVERFLOW_ERRORS: dict[str, tuple[str, int | None, int | None]] = {
    # By provider: the text, the limit of the prompt, and the tokens of the prompt.
    "openai": (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in "
        "130512 tokens. Please reduce the length of the messages.",
        128000,
        130512,
    ),
    "openai completion": (
        "This model's maximum context length is 8192 tokens. However, you requested 9200 tokens "
        "(5200 in the messages, 4000 in the completion). Please reduce the length of the messages "
        "or completion.",
        4192,
        5200,
    ),
    "openai functions": (
        "This model's maximum context length is 4097 tokens. However, you requested 4268 tokens "
        "(3800 in the messages, 212 in the functions, 256 in the completion).",
        3841,
        4012,
    ),
    "openai legacy": (
        "This model's maximum context length is 4097 tokens, however you requested 4116 tokens "
        "(3860 in your prompt; 256 for the completion). Please reduce your prompt; or completion "
        "length.",
        3841,
        3860,
    ),
    "openai responses": (
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        None,
        None,
    ),
    "anthropic": (
        "prompt is too long: 213462 tokens > 200000 maximum",
        200000,
        213462,
    ),
    "anthropic sum": (
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease "
        "input length or `max_tokens` and try again",
        178667,
        188240,
    ),
    "google": (
        "The input token count (1200001) exceeds the maximum number of tokens allowed (1048576).",
        1048576,
        1200001,
    ),
    "google no count": (
        "The input token count exceeds the maximum number of tokens allowed (1048576).",
        1048576,
        None,
    ),
    "vertex": (
        "Unable to submit request because the input token count is 33000 but model only supports up"
        " to 32768. Reduce the input token count and try again.",
        32768,
        33000,
    ),
    "bedrock": (
        "An error occurred (ValidationException) when calling the Converse operation: Input is too "
        "long for requested model.",
        None,
        None,
    ),
    "bedrock titan": (
        "ValidationException: 400 Bad Request: Too many input tokens. Max input tokens: 42000, "
        "request input token count: 42585",
        42000,
        42585,
    ),
    "mistral": (
        "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
        32768,
        40000,
    ),
    "mistral draft": (
        "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        32768,
        65673,
    ),
    "vllm": (
        "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens "
        "(112946 in the messages, 10000 in the completion). Please reduce the length of the "
        "messages or completion.",
        6384,
        112946,
    ),
    "vllm input": (
        "This model's maximum context length is 4096 tokens. However, your request has 5000 input "
        "tokens. Please reduce the length of the input messages.",
        4096,
        5000,
    ),
    "vllm max_tokens": (
        "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context "
        "length is 8192 tokens and your request has 7000 input tokens (2000 > 8192 - 7000).",
        6192,
        7000,
    ),
    "vllm new": (
        "This model's maximum context length is 8192 tokens. However, you requested 1000 output "
        "tokens and your prompt contains at least 7500 input tokens, for a total of at least 8500 "
        "tokens. Please reduce the length of the input prompt or the number of requested output "
        "tokens.",
        7192,
        7500,
    ),
    "vllm engine": (
        "The decoder prompt (length 25938) is longer than the maximum model length of 4096. Make "
        "sure that `max_model_len` is no smaller than the number of text tokens.",
        4096,
        25938,
    ),
    "vllm fit": (
        "The prompt (total length 25938) is too long to fit into the model (context length 4096). "
        "Make sure that `max_model_len` is no smaller",
        4096,
        25938,
    ),
    "sglang": (
        "Requested token count exceeds the model's maximum context length of 32768 tokens. You "
        "requested a total of 41000 tokens: 33000 tokens from the input messages and 8000 tokens "
        "for the completion.",
        24768,
        33000,
    ),
    "sglang input": (
        "The input (39000 tokens) is longer than the model's context length (32768 tokens).",
        32768,
        39000,
    ),
    "sglang allowed": (
        "Input length (39000 tokens) exceeds the maximum allowed length (32768 tokens). Use a shorter input or enable "
        "--allow-auto-truncate.",
        32768,
        39000,
    ),
    "nim": ("Input length 9000 exceeds maximum allowed token size 8192", 8192, 9000),
    "lm studio size": ("Context size has been exceeded.", None, None),
    "zhipu": ("Prompt exceeds max length", None, None),
    "vllm negative": ("max_tokens must be at least 1, got -200.", None, None),
    "llama.cpp short": ("request (53192 tokens) exceeds context size (50176 tokens)", 50176, 53192),
    "llama.cpp": (
        "the request exceeds the available context size (4096 tokens), try increasing it",
        4096,
        None,
    ),
    "llama.cpp json": (
        '{"error":{"code":400,"message":"the request exceeds the available context size. try '
        "increasing the context size or enable context "
        'shift","type":"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}',
        8192,
        14429,
    ),
    "llama.cpp new": (
        "request (1407 tokens) exceeds the available context size (256 tokens), try increasing it",
        256,
        1407,
    ),
    "llama-cpp-python": (
        "Requested tokens (516) exceed context window of 512",
        512,
        516,
    ),
    "lm studio": (
        "Trying to keep the first 111490 tokens when context the overflows. However, the model is "
        "loaded with context length of only 32768 tokens, which is not enough. Try to load the "
        "model with a larger context length, or provide a shorter input.",
        32768,
        111490,
    ),
    "lm studio n_keep": (
        "The number of tokens to keep from the initial prompt is greater than the context length "
        "(n_keep: 9000>= n_ctx: 8192). Try to load the model with a larger context length",
        8192,
        9000,
    ),
    "lm studio reached": (
        "Reached context length of 32000 tokens with model (arch: gpt-oss) that does not currently "
        "support mid-generation context overflow. Try reloading with a larger context length or "
        "shortening the prompt/chat.",
        32000,
        None,
    ),
    "ollama": (
        "prompt too long; exceeded max context length by 120 tokens",
        None,
        None,
    ),
    "ollama input": (
        "the input length exceeds the context length",
        None,
        None,
    ),
    "dashscope": (
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 204800]",
        204800,
        None,
    ),
    "groq": (
        "Please reduce the length of the messages or completion.",
        None,
        None,
    ),
    "together": (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 3997 "
        "`inputs` tokens and 512 `max_new_tokens`",
        3585,
        3997,
    ),
    "tgi": (
        "Input validation error: `inputs` must have less than 2048 tokens. Given: 2222",
        2048,
        2222,
    ),
    "openrouter": (
        "This endpoint's maximum context length is 204800 tokens. However, you requested about "
        "205432 tokens (81684 of text input, 3748 of tool input, 120000 in the output). Please "
        'reduce the length of either one, or use the "middle-out" transform to compress your prompt'
        " automatically.",
        84800,
        85432,
    ),
    "openrouter input": (
        "This endpoint's maximum context length is 16384 tokens. However, you requested about 94307"
        " tokens (94307 of text input). Please reduce the length of either one",
        16384,
        94307,
    ),
    "cohere": (
        "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000",
        4081,
        None,
    ),
    "copilot": (
        "prompt token count of 70000 exceeds the limit of 64000",
        64000,
        70000,
    ),
    "xai": (
        "This model's maximum prompt length is 131072 but the request contains 150000 tokens.",
        131072,
        150000,
    ),
    "kimi": (
        "Your request exceeded model token limit: 262144 (requested: 265000)",
        262144,
        265000,
    ),
    "minimax": (
        "invalid params, context window exceeds limit (2013)",
        None,
        None,
    ),
    "z.ai": (
        "model_context_window_exceeded",
        None,
        None,
    ),
    "replicate": (
        "Your input is too long. Max input length is 4096 tokens, but you supplied 5441 tokens.",
        4096,
        5441,
    ),
}


class ContextWindowExceededError(Exception):
    """The error class of LiteLLM."""


@pytest.mark.req("R-OVER-1")
@pytest.mark.parametrize("provider", OVERFLOW_ERRORS)
def test_overflow_errors_of_every_provider_are_recognized(provider):
    """The text of each provider is recognized, also as the cause of another error."""
    text, _, _ = OVERFLOW_ERRORS[provider]
    assert is_context_length_error(RuntimeError(text))
    try:
        raise RuntimeError("call failed") from ValueError(text)
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
        "Request too large for model `llama-3.3-70b` on tokens per minute (TPM): Limit 6000, Requested 7012",
        "The maximum tokens you requested exceeds the model limit of 2048. Try again with a lower value.",
    ],
)
def test_other_errors_are_not_overflows(text):
    """Rate limits and other errors must reach the caller unchanged."""
    assert not is_context_length_error(RuntimeError(text))


@pytest.mark.req("R-OVER-1", "A-OVF-1")
@pytest.mark.parametrize("provider", OVERFLOW_ERRORS)
def test_the_numbers_of_an_overflow_error_are_read(provider):
    """Both numbers are about the prompt. Tokens that the caller reserved for the completion are subtracted."""
    text, limit, requested = OVERFLOW_ERRORS[provider]
    overflow = read_overflow(RuntimeError(text))
    assert (overflow.limit_tokens, overflow.requested_tokens) == (limit, requested)


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
    sent = manager.recover("s", messages, RuntimeError("context_length_exceeded"), attempt=1)
    assert [item for item in sent if item["role"] == "tool"] == outputs
    assert not recorder.of("compact.warning")
    sent = manager.recover("s", messages, RuntimeError("context_length_exceeded"), attempt=2)
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
    assert recorder.last("compact.overflow_recovered")["removed_count"] == len(history) - len(out) + 1


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


class Provider:
    """A provider with its own tokenizer and a window that differs from the configured one."""

    def __init__(self, window: int, *, factor: float = 1.0, has_numbers: bool = True) -> None:
        self.window = window
        self.factor = factor
        self.has_numbers = has_numbers
        self.refusals = 0

    def __call__(self, messages):
        decode = get_codec("chat").decode
        tokens = TiktokenEstimator().estimate([decode(item, 0) for item in messages], "gpt-5")
        tokens = round(tokens * self.factor)
        if tokens <= self.window:
            return messages
        self.refusals += 1
        if not self.has_numbers:
            raise RuntimeError("ValidationException: Input is too long for requested model.")
        raise RuntimeError(f"prompt is too long: {tokens} tokens > {self.window} maximum")


RULE = "Never delete the table invoices_2026."


def long_session(steps):
    """Yield the growing history of an agent that has a rule and calls tools."""
    history = [{"role": "system", "content": "You are careful."}, {"role": "user", "content": f"{RULE} Begin."}]
    for number in range(steps):
        history += [
            *tool_pair(number, f"row {number}: " + "lorem ipsum dolor " * 60),
            {"role": "assistant", "content": f"Read part {number}."},
            {"role": "user", "content": f"Go on with part {number + 1}."},
        ]
        yield list(history)


@pytest.mark.req("A-OVF-1", "R-OVER-1")
@pytest.mark.parametrize(("factor", "has_numbers"), [(1.0, True), (1.3, True), (1.0, False), (1.3, False)])
def test_a_misconfigured_window_costs_few_refusals(factor, has_numbers):
    """In 100 calls, at most two refusals follow the first one, and the rule is in every prompt."""
    recorder = Recorder()
    manager = manager_with(recorder, window=64_000)
    provider = Provider(8_000, factor=factor, has_numbers=has_numbers)
    for history in long_session(100):
        sent = manager.call_with_recovery("s", history, provider)
        assert sent[0] == history[0]
        assert sent[-1] == history[-1]
        assert any(RULE.rstrip(".") in str(item["content"]) for item in sent)
    assert 1 <= provider.refusals <= 3
    assert len(recorder.of("compact.summary_created")) >= 2


@pytest.mark.req("A-OVF-1")
def test_a_recovery_is_a_compaction_with_the_trigger_overflow(tmp_path):
    """It is archived, summarized, in the ledger, in the report and on the timeline, and it learns the window."""
    recorder = Recorder()
    config = CompactConfig("gpt-5", 64_000, exporter=recorder, storage=FileStorage(tmp_path))
    manager = CompactManager(config)
    *_, history = long_session(30)
    manager.preflight("s", history)
    sent = manager.recover("s", history, RuntimeError("prompt is too long: 9000 tokens > 4000 maximum"))
    check = recorder.last("compact.check")
    assert (check["trigger"], check["triggered"], check["step"], check["max_tokens"]) == ("overflow", True, 1, 64_000)
    decision = recorder.last("compact.trigger_decision")
    assert (decision["rule"], decision["max_tokens"], decision["t_est"]) == ("overflow", 4000, 9000)
    assert recorder.last("compact.archival")["step"] == 1
    assert len(list(tmp_path.rglob("transcript-*.jsonl"))) == 1
    pruned = recorder.of("compact.pruned_messages")[-1]
    assert pruned["properties"]["tokens_after"] <= 4000 < pruned["properties"]["tokens_before"]
    assert len(pruned["payload"]["ledger"]) == len(history)
    assert recorder.last("compact.overflow_recovered")["window_tokens"] == 4000
    assert manager.plan("s").trigger == "overflow"
    assert manager.report("s").endswith("after a context overflow")
    assert any("<COMPACT-SUMMARY v1>" in str(item["content"]) for item in sent)
    manager.preflight("s", [*history, {"role": "user", "content": "next"}])
    assert recorder.last("compact.token_estimate")["max_tokens"] == 4000


@pytest.mark.req("A-OVF-1")
def test_a_recovery_cuts_a_newest_output_that_is_too_large():
    """The output is visibly truncated, and an event has its sizes."""
    recorder = Recorder()
    manager = manager_with(recorder, window=64_000)
    history = [{"role": "user", "content": "Read it."}, *tool_pair(1, "word " * 9_000)]
    sent = manager.call_with_recovery("s", history, Provider(4_000))
    assert sent[:2] == history[:2]
    assert "tokens truncated" in sent[2]["content"]
    assert recorder.last("compact.truncated")["tokens_before"] > 9_000


@pytest.mark.req("A-OVF-1")
def test_a_recovery_shortens_a_summary_that_is_too_large():
    """A summary that fits the configured window may be the largest part of a smaller one."""
    manager = manager_with(Recorder(), window=64_000)
    history = [{"role": "user", "content": f"{RULE} Begin."}]
    for number in range(300):
        history += tool_pair(number, f"ORD-{number} costs {number * 7} EUR, see src/orders/report_{number}.py")
    history = manager.manual_compact("s", history)
    summary = next(item for item in history if str(item["content"]).startswith("<COMPACT-SUMMARY"))
    assert len(summary["content"]) > 8_000
    sent = manager.call_with_recovery("s", history, Provider(2_000))
    shorter = next(item for item in sent if str(item["content"]).startswith("<COMPACT-SUMMARY"))
    assert len(shorter["content"]) < len(summary["content"])
    assert RULE.rstrip(".") in str(sent)


@pytest.mark.req("A-OVF-1")
def test_the_window_is_learned_for_one_session_only():
    """Another user's session keeps the configured window and sees nothing of the first."""
    recorder = Recorder()
    manager = manager_with(recorder, window=64_000)
    *_, history = long_session(30)
    secret = [{"role": "user", "content": "My secret is SWORDFISH-1."}, *history]
    manager.call_with_recovery("first", secret, Provider(4_000))
    other = manager.call_with_recovery("second", history, lambda sending: sending)
    assert other == history
    assert recorder.last("compact.check")["max_tokens"] == 64_000
    assert "SWORDFISH" not in str(other)


@pytest.mark.req("A-OVF-1", "A-END-2")
def test_a_recovery_without_an_archive_fails_loudly():
    """If the archive is required and fails, nothing is removed and the caller gets an exception."""

    class FullDisk:
        def save_transcript(self, session_id, transcript):
            raise OSError("disk full")

        def save_summary(self, session_id, summary, step): ...

        def save_event(self, session_id, event): ...

    manager = CompactManager(CompactConfig("gpt-5", 64_000, storage=FullDisk()))
    *_, history = long_session(30)
    with pytest.raises(CompactError, match="disk full"):
        manager.recover("s", history, RuntimeError("prompt is too long: 9000 tokens > 4000 maximum"))
    assert manager.plan("s") is None


@pytest.mark.req("A-OVF-1")
def test_the_learned_window_survives_a_restart_with_the_plan():
    """A new process plans with it at once. Another session, and a process without the plan, use the configured one."""
    store = MemoryCompactionStore()
    *_, history = long_session(30)

    def window_of(session_id, messages, plan_store):
        recorder = Recorder()
        manager = CompactManager(CompactConfig("gpt-5", 64_000, exporter=recorder, plan_store=plan_store))
        manager.preflight(session_id, messages)
        return recorder.last("compact.check")["max_tokens"]

    manager = CompactManager(CompactConfig("gpt-5", 64_000, plan_store=store))
    sent = manager.call_with_recovery("s", history, Provider(4_000))
    question = {"role": "user", "content": "And now?"}
    assert window_of("s", [*sent, question], store) == 4_000
    assert window_of("other", [*sent, question], store) == window_of("s", [*sent, question], None) == 64_000


@pytest.mark.req("A-OVF-1")
def test_a_recovery_keeps_the_overhead_apart_from_the_factor():
    """Earlier reports tell the two apart, so 3,000 hidden tokens do not look like a dense tokenizer."""
    usage = UsageCorrection()
    for own in (1_000, 4_000, 9_000):
        usage.observe(own, own + 3_000)
    usage.observe_overflow(12_000, 15_000)
    assert (usage.overhead_tokens, usage.factor) == (3_000, 1.0)
    assert usage.revert(8_000) == 5_000
    alone = UsageCorrection()
    alone.observe_overflow(12_000, 15_000)
    assert (alone.overhead_tokens, alone.factor) == (0, 1.25)
