"""The public manager, following the scenarios of document 002."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest
from builders import FixedEstimator, Recorder, SpySummarizer, chat_turns, small_manager, tool_pair
from compact import (
    CompactConfig,
    CompactError,
    CompactManager,
    CompactPolicy,
    InsufficientBudget,
    Message,
    TiktokenEstimator,
)
from compact.exceptions import ConfigError, SummarizerOverflow, SummaryRefused

SYSTEM = Message("system", "You are careful.")


@pytest.mark.req("S-TRG-1", "S-BUD-2")
@pytest.mark.parametrize(("tokens", "triggered"), [(108_800, True), (108_799, False), (96_000, False)])
def test_the_threshold_triggers_a_compaction(tokens, triggered):
    """108,800 of 128,000 tokens at 0.85 compacts and 96,000 does not. Both decisions are events."""
    recorder = Recorder()
    manager = CompactManager(
        CompactConfig(
            model="gpt-4", max_context_tokens=128_000, token_estimator=FixedEstimator(tokens), exporter=recorder
        )
    )
    out = manager.preflight("s", [SYSTEM, *chat_turns(20)])
    decision = recorder.last("compact.trigger_decision")
    assert decision["triggered"] is triggered
    assert decision["budget_tokens"] == 126_500
    assert any("<COMPACT-SUMMARY" in message.text for message in out) is triggered
    assert recorder.last("compact.token_estimate")["t_est"] == tokens


@pytest.mark.req("S-OBS-1", "P-BUD-2")
def test_the_estimate_has_six_parts_that_add_up():
    """`compact.token_estimate` has the model, total, window, share, and six parts that sum to the total."""
    recorder = Recorder()
    manager = small_manager(recorder, window=50_000)
    tools = [{"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}]
    messages = [
        {"role": "system", "content": "be careful"},
        {"role": "developer", "content": "use tabs"},
        {"role": "user", "content": "remember 42", "meta": {"protected": True}},
        *tool_pair(1),
        {"role": "user", "content": "go on"},
    ]
    manager.preflight("s", messages, tools=tools)
    properties = recorder.last("compact.token_estimate")
    assert properties["model"] == "gpt-5"
    assert properties["max_tokens"] == 50_000
    assert properties["usage_pct"] == pytest.approx(properties["t_est"] / 50_000, abs=1e-6)
    parts = properties["breakdown"]
    messages_tokens = parts.pop("messages")
    assert set(parts) == {"system", "developer", "tools_schema", "memory", "history", "user_input"}
    assert messages_tokens == parts["memory"] + parts["history"] + parts["user_input"]
    assert sum(parts.values()) == properties["t_est"]
    assert all(parts.values())


@pytest.mark.req("S-MAN-1")
def test_manual_compaction_ignores_the_usage():
    """`manual_compact` compacts a nearly empty window, and its note is in the trace."""
    recorder = Recorder()
    manager = small_manager(recorder, window=128_000)
    out = manager.manual_compact("s", [SYSTEM, *chat_turns(20)], note="user-requested")
    assert len(out) == 1 + 1 + 12
    assert recorder.last("compact.trigger_decision")["note"] == "user-requested"
    assert recorder.of("compact.check")[-1]["properties"]["trigger"] == "manual"


@pytest.mark.req("R-MAN-1")
def test_manual_compaction_frees_at_least_40_percent_and_reports_it():
    """On a long conversation the estimate shrinks by 40 % or more, and the report has tokens and messages."""
    recorder = Recorder()
    manager = small_manager(recorder, window=128_000)
    messages = [SYSTEM, *chat_turns(60)]
    out = manager.manual_compact("s", messages)
    count = TiktokenEstimator().estimate
    assert count(out, "gpt-5") <= 0.6 * count(messages, "gpt-5")
    assert "tokens saved" in manager.report("s")
    assert "86 messages compressed" in manager.report("s")


@pytest.mark.req("S-PROT-1", "P-PROT-1")
def test_a_protected_message_stays_and_is_never_summarized():
    """It is in the output unchanged, and the summarizer never received it."""
    spy = SpySummarizer()
    manager = small_manager(window=2500, summarizer=spy)
    secret = Message("user", "the launch code is 0042", meta={"protected": True})
    messages = [SYSTEM, *chat_turns(3), secret, *chat_turns(30, start=3)]
    out = manager.preflight("s", messages)
    assert secret in out
    assert all("0042" not in message.text for seen in spy.seen for message in seen)


@pytest.mark.req("S-PROT-2")
def test_roles_that_are_never_pruned_stay():
    """Developer messages stay if the policy lists their role, and can be removed otherwise."""
    developer = Message("developer", "always answer in French")
    messages = [SYSTEM, *chat_turns(5), developer, *chat_turns(30, start=5)]
    assert developer in small_manager(window=2500).preflight("s", messages)
    policy = {"roles_never_prune": ("system",)}
    assert developer not in small_manager(window=2500, policy=policy).preflight("s", messages)


@pytest.mark.req("S-PROT-3")
def test_protected_messages_over_budget_raise_an_error_with_advice():
    """The error is also an event, and no summary is attempted."""
    recorder = Recorder()
    big = Message("developer", "policy " * 3000)
    with pytest.raises(
        InsufficientBudget, match=r"Reduce protected memory.*increase the model context limit"
    ) as caught:
        small_manager(recorder).preflight("s", [big, Message("user", "hi")])
    assert isinstance(caught.value, CompactError)
    assert caught.value.needed_tokens > caught.value.budget_tokens == 1900
    error = recorder.of("compact.error")[0]
    assert error["status"] == "error"
    assert error["properties"]["error_type"] == "InsufficientBudget"
    assert not recorder.of("compact.summary_created")


@pytest.mark.req("S-KEEP-1")
@pytest.mark.parametrize("pending", [0, 1])
def test_the_most_recent_turns_stay(pending):
    """Of 20 turns the last 6 stay unchanged, with or without a new question after them."""
    messages = [SYSTEM, *chat_turns(20), *[Message("user", "and now?")] * pending]
    out = small_manager(window=128_000).manual_compact("s", messages)
    assert out[2:] == messages[-12 - pending :]


@pytest.mark.req("S-KEEP-2")
def test_the_most_recent_tool_pairs_stay():
    """Of 10 pairs of call and output, the last 4 stay unchanged and complete."""
    pairs = [tool_pair(number) for number in range(10)]
    messages = [{"role": "user", "content": "go"}, *[item for pair in pairs for item in pair]]
    out = small_manager(window=128_000).manual_compact("s", messages)
    assert [item for item in out if item.get("tool_call_id") or item.get("tool_calls")] == [
        i for p in pairs[6:] for i in p
    ]


@pytest.mark.req("S-KEEP-3")
def test_turns_and_pairs_are_reduced_one_at_a_time():
    """Turns and pairs are reduced alternately, starting with turns, and each reduction is reported."""
    recorder = Recorder()
    long = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"t{n} " + "word " * 150} for n in range(20)]
    messages = [*long, *[item for n in range(6) for item in tool_pair(n, "out " * 150)]]
    out = small_manager(recorder).preflight("s", messages)
    reductions = recorder.last("compact.policy_applied")["reductions"]
    assert reductions[:3] == [
        "over budget: keep_recent_turns 6 -> 5",
        "over budget: keep_tool_io_pairs 4 -> 3",
        "over budget: keep_recent_turns 5 -> 4",
    ]
    assert out[-2:] == messages[-2:]
    assert recorder.of("compact.check")[-1]["properties"]["tokens_after"] <= 1900


@pytest.mark.req("S-LAY-1", "S-LAY-2")
def test_layers_are_in_order_and_the_summary_version_increases():
    """The order is pinned, summary, recent. A second compaction leaves one summary with the next version."""
    recorder = Recorder()
    manager = small_manager(recorder)
    messages = [SYSTEM, *chat_turns(30)]
    first = manager.preflight("s", messages)
    assert first[0] is SYSTEM
    assert first[1].role == "assistant"
    assert first[1].content.startswith("<COMPACT-SUMMARY v1>")
    assert first[2:] == messages[-12:]
    second = manager.preflight("s", [*first, *chat_turns(20, start=30)])
    summaries = [message for message in second if message.content.startswith("<COMPACT-SUMMARY")]
    assert [message.content[:20] for message in summaries] == ["<COMPACT-SUMMARY v2>"]
    layers = recorder.last("compact.pruned_messages")["layers"]
    assert layers == {"pinned": 1, "summary": 1, "recent": len(second) - 2}


@pytest.mark.req("S-LAY-2")
def test_a_summary_of_an_earlier_process_is_continued():
    """A summary found in the history is merged into the new one, which gets the next version."""
    first = small_manager().preflight("s", [SYSTEM, Message("user", "Never deploy on Fridays."), *chat_turns(30)])
    out = small_manager().preflight("s", [*first, *chat_turns(25, start=30)])
    summaries = [message.content for message in out if message.content.startswith("<COMPACT-SUMMARY")]
    assert len(summaries) == 1
    assert summaries[0].startswith("<COMPACT-SUMMARY v2>")
    assert any("Never deploy on Fridays." in message.content for message in out)


@pytest.mark.req("S-OBS-1")
def test_a_compaction_emits_all_of_its_events():
    """One check span is opened and closed, and all other events are its children."""
    recorder = Recorder()
    small_manager(recorder).preflight("s", [SYSTEM, *chat_turns(30)])
    checks = recorder.of("compact.check")
    assert len(checks) == 2
    assert checks[0]["span_id"] == checks[1]["span_id"]
    assert checks[0]["ended_at"] is None
    assert checks[1]["ended_at"].endswith("Z")
    names = [event["event"] for event in recorder.events]
    for name in (
        "token_estimate",
        "trigger_decision",
        "policy_applied",
        "summary_created",
        "retention",
        "pruned_messages",
    ):
        assert f"compact.{name}" in names
    children = [event for event in recorder.events if event["event"] != "compact.check"]
    assert {event["parent_id"] for event in children} == {checks[0]["span_id"]}
    assert len({event["trace_id"] for event in recorder.events}) == 1
    summary = recorder.of("compact.summary_created")[0]
    assert summary["payload"]["summary"].startswith("<COMPACT-SUMMARY v1>")
    assert summary["properties"]["strategy"] == "task_state"
    assert 0 < summary["properties"]["compression_ratio"] < 1
    pruned = recorder.of("compact.pruned_messages")[0]
    assert {entry["fate"] for entry in pruned["payload"]["ledger"]} == {"pinned", "summarized", "kept"}
    assert len(pruned["payload"]["ledger"]) == 61
    after = pruned["properties"]["breakdown_after"]
    parts = ("system", "developer", "tools_schema", "messages")
    assert sum(after[part] for part in parts) == pruned["properties"]["tokens_after"]
    assert all("ended_at" in event for event in recorder.events)
    json.dumps(recorder.events)


@pytest.mark.req("S-OBS-1")
def test_a_check_without_compaction_emits_events():
    """Below the threshold, the decision and its margin are still reported."""
    recorder = Recorder()
    small_manager(recorder, window=50_000).preflight("s", chat_turns(2))
    decision = recorder.last("compact.trigger_decision")
    assert decision["triggered"] is False
    assert decision["margin_tokens"] == decision["trigger_tokens"] - decision["t_est"] > 0
    assert recorder.last("compact.check")["triggered"] is False


@pytest.mark.req("S-FAIL-1")
def test_a_failing_summarizer_falls_back_to_pruning():
    """The compaction continues without a summary, and the error event names the fallback."""
    recorder = Recorder()
    messages = [SYSTEM, *chat_turns(30)]
    out = small_manager(recorder, summarizer=SpySummarizer(ConnectionError("no route"))).preflight("s", messages)
    assert out == [SYSTEM, *messages[-12:]]
    error = recorder.of("compact.error")[0]
    assert error["properties"]["fallback"] == "pruning-only"
    assert error["properties"]["error_type"] == "ConnectionError"
    fates = {entry["fate"] for entry in recorder.of("compact.pruned_messages")[0]["payload"]["ledger"]}
    assert fates == {"pinned", "dropped", "kept"}


@pytest.mark.req("S-FAIL-2")
def test_a_summary_that_is_too_long_is_retried():
    """It is retried twice with half the tokens, then the compaction continues without a summary."""
    recorder = Recorder()
    spy = SpySummarizer("word " * 5000)
    out = small_manager(recorder, summarizer=spy).preflight("s", [SYSTEM, *chat_turns(30)])
    assert len(spy.seen) == 3
    assert [event["properties"]["fallback"].split()[0] for event in recorder.of("compact.error")] == [
        "retry",
        "retry",
        "pruning-only",
    ]
    assert not any(message.is_summary for message in out)
    small_manager(summarizer=(second := SpySummarizer("word " * 5000, "short"))).preflight(
        "s", [SYSTEM, *chat_turns(30)]
    )
    assert len(second.seen) == 2


@pytest.mark.req("S-FAIL-3")
def test_a_refusal_is_retried_in_the_brief_style():
    """After a second refusal the compaction continues without a summary. Each refusal is an event."""
    recorder = Recorder()
    spy = SpySummarizer(SummaryRefused("policy"), "fine, briefly")
    out = small_manager(recorder, summarizer=spy).preflight("s", [SYSTEM, *chat_turns(30)])
    assert spy.styles == ["task_state", "brief"]
    assert any("fine, briefly" in message.text for message in out)
    recorder = Recorder()
    refusing = SpySummarizer("I'm sorry, but I can't help with that.")
    small_manager(recorder, summarizer=refusing).preflight("s", [SYSTEM, *chat_turns(30)])
    assert [event["properties"]["style"] for event in recorder.of("compact.error")] == ["task_state", "brief"]
    assert recorder.last("compact.error")["fallback"] == "pruning-only"


@pytest.mark.req("C-SUM-3")
def test_an_overflowing_summarizer_gives_a_canned_summary():
    """The history is still compacted, and the summary says that older turns were truncated."""
    out = small_manager(summarizer=SpySummarizer(SummarizerOverflow("too long"))).preflight(
        "s", [SYSTEM, *chat_turns(30)]
    )
    assert "Older turns were truncated" in out[1].text


@pytest.mark.req("P-EDGE-1")
def test_a_malformed_tool_message_skips_the_compaction():
    """A tool message without an id is reported as an event and does not raise. The next turn compacts."""
    recorder = Recorder()
    messages = [m.to_dict() for m in chat_turns(22)] + [{"role": "tool", "content": "output without an id"}]
    manager = small_manager(recorder)
    assert manager.preflight("s", messages) == messages
    assert recorder.last("compact.error")["error_type"] == "MalformedMessage"
    out = manager.preflight("s", [*messages, {"role": "user", "content": "next"}])
    assert len(out) < 22
    assert messages[-1] in out


@pytest.mark.req("A-END-3")
@pytest.mark.parametrize(
    "malformed",
    [
        {"role": "tool", "content": "output without an id"},
        {"role": "assistant", "tool_calls": "oops"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]},
        "just a string",
    ],
)
@pytest.mark.parametrize("index", [0, 7, 80])
def test_one_malformed_message_does_not_disable_compaction(malformed, index, capsys):
    """It is reported once, and the request fits the budget at every call."""
    recorder = Recorder()
    messages = [m.to_dict() for m in chat_turns(40)]
    messages.insert(index, malformed)
    for manager in (small_manager(recorder), small_manager()):
        history = list(messages)
        for turn in range(3):
            out = manager.preflight("s", history)
            assert len(out) < 40
            history = [*history, {"role": "user", "content": f"next {turn}"}]
    warnings = [event["properties"] for event in recorder.of("compact.warning")]
    assert [warning["code"] for warning in warnings].count("malformed_message") == 1
    assert not recorder.of("compact.error")
    assert "Malformed messages: 1" in capsys.readouterr().err


@pytest.mark.req("R-NORM-1")
def test_calls_and_outputs_are_paired_before_every_request():
    """A call without an output gets an `aborted` one, and an output without a call is removed."""
    messages = [{"role": "user", "content": "go"}, *tool_pair(1)[:1], {"role": "user", "content": "stop"}]
    orphan = {"role": "tool", "tool_call_id": "unknown", "content": "?"}
    out = small_manager(window=50_000).preflight("s", [*messages, orphan])
    assert out == [
        *messages[:2],
        {"role": "tool", "tool_call_id": "c1", "content": "aborted"},
        messages[2],
    ]


@pytest.mark.req("C-BUD-1")
def test_the_providers_usage_corrects_the_estimate():
    """The same request then has the tokens that the provider counted."""
    recorder = Recorder()
    manager = small_manager(recorder, window=50_000)
    messages = chat_turns(10)
    manager.preflight("s", messages)
    ours = recorder.last("compact.token_estimate")["t_est"]
    manager.report_usage("s", {"prompt_tokens": ours * 2, "completion_tokens": 7})
    manager.preflight("s", messages)
    properties = recorder.last("compact.token_estimate")
    assert properties["source"] == "provider"
    assert properties["t_est"] == ours * 2
    parts = properties["breakdown"]
    assert sum(parts.values()) - parts["messages"] == ours * 2


@pytest.mark.req("P-MEM-1")
def test_remember_returns_the_current_memory():
    """It has the summary, the pinned messages and the recent window."""
    manager = small_manager()
    manager.preflight("s", [SYSTEM, *chat_turns(30)])
    memory = manager.remember("s")
    assert memory.summary.startswith("<COMPACT-SUMMARY v1>")
    assert [message.text for message in memory.pinned] == [SYSTEM.text]
    assert len(memory.recent) == 12
    assert "What I remember now" in str(memory)
    json.dumps(memory.to_dict())


@pytest.mark.req("R-PROT-1", "R-PROT-2")
def test_protected_tools_and_aborted_turns_survive():
    """The todo list and the marker of an aborted turn are still in the prompt after a compaction."""
    todo = tool_pair(1, "[ ] ship it")
    todo[0]["tool_calls"][0]["function"]["name"] = "manage_todo_list"
    marker = {"role": "user", "content": "<turn-aborted>user pressed escape</turn-aborted>"}
    messages = [{"role": "system", "content": "x"}, *todo, marker, *[m.to_dict() for m in chat_turns(30)]]
    for renderer in ("layered", "inplace", "bridge"):
        out = small_manager(policy={"renderer": renderer}).preflight("s", messages)
        assert all(item in out for item in (*todo, marker)), renderer


class HeavyEstimator:
    """An estimator that counts a third more than the built-in one."""

    def estimate(self, messages, model):
        return TiktokenEstimator().estimate(messages, model) * 4 // 3


@pytest.mark.req("D-LAD-1", "S-KEEP-3")
@pytest.mark.parametrize("ladder", [(), ("clear",), ("drop",), ("summarize",)])
def test_enough_is_dropped_by_the_callers_own_count(ladder):
    """If no strategy frees enough, messages are dropped until the caller's estimate fits the budget."""
    policy = CompactPolicy(hard_cap_buffer=100, keep_recent_turns=1, ladder=ladder)
    config = CompactConfig("gpt-5", 2_000, policy=policy, token_estimator=HeavyEstimator())
    out = CompactManager(config).preflight("s", chat_turns(60))
    assert HeavyEstimator().estimate(out, "gpt-5") <= 1_900


def test_the_window_can_be_unknown():
    """Without a window, only the configured limit decides."""
    recorder = Recorder()
    policy = CompactPolicy(auto_compact_token_limit=900)
    manager = CompactManager(CompactConfig("some-model", None, policy=policy, exporter=recorder))
    assert len(manager.preflight("s", chat_turns(5))) == 10
    assert len(manager.preflight("s", chat_turns(30))) < 60
    assert recorder.last("compact.trigger_decision")["rule"] == "token_limit"


@pytest.mark.req("P-TRG-1")
def test_a_failing_exporter_does_not_affect_the_agent(capsys):
    """An exporter that raises causes one line on stderr and nothing else."""

    class Broken:
        def emit(self, event):
            raise OSError("disk full")

    out = small_manager(Broken(), window=50_000).preflight("s", chat_turns(2))
    assert len(out) == 4
    assert "[Ariadne] export failed: disk full" in capsys.readouterr().err


def test_every_error_can_be_pickled():
    """Process pools and queues pickle errors. The message and the numbers survive."""
    for error in (InsufficientBudget(needed_tokens=5, budget_tokens=4), ConfigError("policy.x", "must be y")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@pytest.mark.req("S-RED-1")
def test_a_custom_redaction_function_covers_quotes_in_summaries():
    """Text that a summary quotes passes through the function before export. The prompt itself is unchanged."""

    def hide(message):
        return replace(message, content=message.text.replace("module", "######"))

    recorder = Recorder()
    out = small_manager(recorder, redact=hide).preflight("s", [SYSTEM, *chat_turns(30)])
    assert recorder.of("compact.summary_created")
    assert "module" not in json.dumps(recorder.events)
    assert any("module" in message.text for message in out)


@pytest.mark.parametrize(("reply", "is_summary"), [("words", True), ({"content": "words"}, True), (None, False)])
def test_a_summarizer_may_return_text_or_a_chat_message_but_not_none(reply, is_summary):
    """A string and a chat message become the summary. None is a failed summary."""

    class FixedReply:
        def summarize(self, messages, style, keep_keys):
            return reply

    recorder = Recorder()
    out = small_manager(recorder, summarizer=FixedReply()).preflight("s", [SYSTEM, *chat_turns(30)])
    assert any(message.is_summary and "words" in message.text for message in out) is is_summary
    assert bool(recorder.of("compact.error")) is not is_summary
