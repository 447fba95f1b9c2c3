"""Long sessions that compact many times, and a sample of the soak test."""

from __future__ import annotations

import itertools
import random

import pytest
from builders import Recorder, agent_step, chat_turns, tool_pair
from compact import CompactConfig, CompactManager, CompactPolicy, InsufficientBudget, TiktokenEstimator
from compact.messages.codecs import get_codec
from compact.messages.normalization import normalize

ESTIMATOR = TiktokenEstimator()
CHAT = get_codec("chat")


def tokens(items):
    return ESTIMATOR.estimate([CHAT.decode(item, 0) for item in items], "gpt-5")


def assert_valid(items):
    assert not normalize([CHAT.decode(item, 0) for item in items], CHAT).is_changed


@pytest.mark.req("S-TST-1")
def test_a_session_of_three_windows_completes():
    """384,000 tokens pass through a 128k window in several compactions, within the budget, and leave one summary."""
    random_ = random.Random(384)
    recorder = Recorder()
    manager = CompactManager(CompactConfig("gpt-5", 128_000, token_estimator=ESTIMATOR, exporter=recorder))
    history = [{"role": "system", "content": "You are careful. Never drop table orders."}]
    total_tokens, number = 0, 0
    while total_tokens < 384_000:
        new = agent_step(random_, number, 400)
        total_tokens += tokens(new)
        history = manager.preflight("s", [*history, *new])
        number += 1
        estimate = recorder.last("compact.check")["tokens_after"]
        assert estimate <= 126_500
    assert tokens(history) <= 126_500
    assert_valid(history)
    compactions = recorder.of("compact.pruned_messages")
    assert len(compactions) >= 3
    assert not recorder.of("compact.error")
    assert sum(str(item["content"]).startswith("<COMPACT-SUMMARY v") for item in history) == 1
    assert history[0]["content"].startswith("You are careful")


@pytest.mark.req("S-TST-1", "D-REND-1")
@pytest.mark.parametrize("pruning", ["recency", "fifo"])
def test_span_summaries_in_place_never_fill_the_window(pruning):
    """Summaries of earlier spans are merged before they leave no room, so a long session compacts only now and then."""
    random_ = random.Random(7)
    recorder = Recorder()
    policy = CompactPolicy(hard_cap_buffer=200, renderer="inplace", pruning=pruning)
    manager = CompactManager(CompactConfig("gpt-5", 4_000, policy=policy, exporter=recorder))
    history = [
        {"role": "system", "content": "You are careful."},
        {"role": "user", "content": "Never drop the table orders_2031, whatever happens."},
    ]
    calls = 120
    for number in range(calls):
        history = [*history, *agent_step(random_, number, 120)]
        sent = manager.preflight("s", history)
    compactions = recorder.of("compact.pruned_messages")
    assert len(compactions) < calls / 3
    assert not recorder.of("compact.error")
    assert "orders_2031" in str(sent)
    assert len(manager.plan("s").summarizations) < 8
    fates = {entry["fate"] for entry in compactions[-1]["payload"]["ledger"] if entry["id"].startswith("span-")}
    assert fates <= {"kept", "summarized"}


@pytest.mark.req("P-TST-1")
@pytest.mark.parametrize("seed", range(40))
def test_random_sessions_stay_valid_and_within_budget(seed):
    """With any density of tools and any renderer, every request is valid and fits its budget."""
    random_ = random.Random(seed)
    window = random_.choice([2_000, 4_000, 8_000])
    policy = CompactPolicy(
        hard_cap_buffer=200,
        renderer=random_.choice(["layered", "inplace", "bridge"]),
        keep_recent_turns=random_.randint(1, 6),
        keep_tool_io_pairs=random_.randint(1, 4),
    )
    manager = CompactManager(CompactConfig("gpt-5", window, policy=policy, token_estimator=ESTIMATOR))
    history, shows_all = [{"role": "system", "content": "Be careful."}], random_.random() < 0.5
    for number in range(25):
        history = [*history, *agent_step(random_, number, 120)]
        sent = manager.preflight("s", history)
        assert tokens(sent) <= window - 200
        assert_valid(sent)
        history = history if shows_all else sent


@pytest.mark.req("S-TST-1")
def test_the_budget_is_met_to_the_token():
    """If only the earlier summary can shrink, it does so for a single token, including the message framing."""
    for words in range(60, 100):
        manager = CompactManager(
            CompactConfig("gpt-5", 2_000, policy=CompactPolicy(hard_cap_buffer=100), token_estimator=ESTIMATOR)
        )
        history = [{"role": "system", "content": "Be careful."}]
        history = manager.preflight("s", [*history, *(message.to_dict() for message in chat_turns(12, words=60))])
        history = manager.preflight("s", [*history, *tool_pair(1, "line " * 1_000)])
        sent = manager.preflight("s", [*history, {"role": "user", "content": "more " * words}])
        assert tokens(sent) <= 1_900, words


@pytest.mark.req("P-BUD-1")
def test_the_callers_estimate_decides_whether_a_request_fits():
    """Nothing is left to compact by our count, but the caller counts more than the budget, so it raises."""

    class Doubled:
        def estimate(self, messages, model):
            return 2 * ESTIMATOR.estimate(messages, model)

    manager = CompactManager(
        CompactConfig("gpt-5", 2_000, policy=CompactPolicy(hard_cap_buffer=100), token_estimator=Doubled())
    )
    with pytest.raises(InsufficientBudget):
        manager.preflight("s", [{"role": "user", "content": "word " * 1_000}])


def _session_of_orders(calls):
    """Return the recorder and the history of a session. Each call lists orders in this many messages of this many."""
    recorder = Recorder()
    policy = CompactPolicy(hard_cap_buffer=0, trigger_pct=1.0, min_left_pct=0.0, floor="newest")
    manager = CompactManager(CompactConfig("gpt-5", 6_000, policy=policy, exporter=recorder))
    history = [{"role": "user", "content": "Check all orders. Never drop the table orders_2031."}]
    numbers = itertools.count(1)
    for count, orders in calls:
        for _ in range(count):
            lines = [
                f"Order ORD-{number * 7919} for customer C-{number * 104729} was paid with invoice INV-{number * 31}."
                for number in itertools.islice(numbers, orders)
            ]
            history.append({"role": "assistant", "content": "\n".join(lines)})
        history = manager.preflight("s", history)
    return recorder, history


def test_calls_that_fill_the_window_leave_no_unused_space():
    """Space for the next calls is only left if they fit into it. Otherwise, the summary uses it."""
    recorder, history = _session_of_orders([(300, 1), (300, 1), (2, 130), (300, 1), (300, 1)])
    assert len(recorder.of("compact.pruned_messages")) == 5
    assert tokens(history) >= 0.95 * 6_000
    # A replay starts from the reported growth, so it must be the one that the limits used.
    assert recorder.last("compact.policy_applied")["growth_tokens"] == 0.0


def test_one_large_call_does_not_make_every_later_call_compact():
    """After one large call, a compaction still leaves space for the small calls that the session usually makes."""
    recorder, _ = _session_of_orders([(1, 1), (1, 1), (300, 1), *[(1, 1)] * 30])
    assert len(recorder.of("compact.pruned_messages")) <= 3
