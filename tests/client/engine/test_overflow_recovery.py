"""Recovery from context overflow errors."""

from __future__ import annotations

import pytest
from builders import Recorder, chat_turns, tool_pair
from compact import CompactConfig, CompactError, CompactManager, CompactPolicy, FileStorage, TiktokenEstimator
from compact.adapters.plan_stores import MemoryCompactionStore
from compact.messages.codecs import get_codec
from compact.planning.tool_results.durability import ToolDurability, ToolDurabilityPolicy
from compact.planning.usage_correction import UsageCorrection


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
@pytest.mark.parametrize("words", [5, 40, 200])
def test_recovery_keeps_what_the_message_allows(words):
    """The answer of 4,000 tokens leaves 4,192 for the prompt. Much less than that would lose messages for nothing."""
    manager = manager_with(Recorder(), window=100_000)
    messages = [message.to_dict() for message in chat_turns(1_400 // (words + 10) + 1, words)]
    while manager.preflight("s", messages) == messages and manager.remember("s").tokens < 7_000:
        messages += [message.to_dict() for message in chat_turns(1, words, start=len(messages))]
    error = RuntimeError("input length and `max_tokens` exceed context limit: 7000 + 4000 > 8192")
    manager.recover("s", messages, error)
    assert 0.65 * 4_192 <= manager.remember("s").tokens <= 4_192


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
