"""The floor of a compaction, and requests that stay over the budget."""

from __future__ import annotations

import pytest
from builders import FixedEstimator, Recorder, chat_turns, small_manager, tool_pair
from compact import InsufficientBudget
from compact.integrations.model_call import ModelCall

# One turn and one tool pair need about 2,600 tokens, the newest unit alone about 600.
LARGE_TURNS = [
    {"role": "user", "content": "first " + "word " * 600},
    {"role": "assistant", "content": "word " * 600},
    *tool_pair(1, "word " * 800),
    {"role": "user", "content": "now " + "word " * 590},
]


@pytest.mark.req("S-KEEP-3")
def test_preflight_raises_below_one_turn_and_one_tool_pair():
    """By default nothing is returned, and the error and two events have the numbers."""
    recorder = Recorder()
    with pytest.raises(InsufficientBudget) as raised:
        small_manager(recorder).preflight("s", LARGE_TURNS)
    assert raised.value.needed_tokens > raised.value.budget_tokens == 1900
    assert recorder.last("compact.error")["error_type"] == "InsufficientBudget"
    over = recorder.last("compact.over_budget")
    assert over["tokens"] - over["excess_tokens"] == over["budget_tokens"] == 1900
    assert over["max_tokens"] == 2000


@pytest.mark.req("S-KEEP-3")
@pytest.mark.parametrize("policy", [{"floor": "newest"}, {}])
def test_the_floor_newest_goes_on_to_the_newest_unit(policy):
    """The policy or the call can choose it."""
    out = small_manager(policy=policy).preflight("s", LARGE_TURNS, floor="newest")
    assert out[-1] == LARGE_TURNS[-1]
    assert len(out) < len(LARGE_TURNS)


@pytest.mark.req("S-KEEP-3")
def test_an_integration_uses_the_floor_newest_unless_the_policy_says_otherwise(capsys):
    """A running agent is not stopped. With `floor="turn"` its prompt is reduced, and stderr says so."""
    for floor in (None, "newest", "turn"):
        call = ModelCall(small_manager(policy={"floor": floor}), "s", LARGE_TURNS, options=dict)
        assert len(call.prepare()) < len(LARGE_TURNS)
    assert "The request was reduced" in capsys.readouterr().err


@pytest.mark.req("A-END-2")
def test_a_request_over_the_window_is_never_returned_silently():
    """An estimate that no compaction can lower is an exception and an event."""
    recorder = Recorder()
    manager = small_manager(recorder, token_estimator=FixedEstimator(5000))
    with pytest.raises(InsufficientBudget):
        manager.preflight("s", chat_turns(30))
    assert recorder.last("compact.over_budget")["excess_tokens"] == 3100


@pytest.mark.req("S-MAN-1")
def test_a_manual_compaction_of_a_few_large_turns_changes_the_prompt():
    """Five turns are within `keep_recent_turns`, but a manual compaction of 71 % of the window must free something."""
    recorder = Recorder()
    messages = chat_turns(5, words=135)
    manager = small_manager(recorder)
    out = manager.manual_compact("s", messages)
    usage = recorder.last("compact.token_estimate")["usage_pct"]
    assert 0.65 < usage < 0.75
    assert len(out) < len(messages)
    assert out[-2:] == messages[-2:]
    assert recorder.last("compact.pruned_messages")["tokens_after"] < 0.9 * usage * 2000


@pytest.mark.req("S-OBS-1", "S-PROT-3")
def test_the_decision_counts_what_could_not_fit():
    """With InsufficientBudget, `kept` has the pinned messages, the turn and the pair that must stay."""
    recorder = Recorder()
    pinned = [{"role": "system", "content": "word " * 100}, {"role": "developer", "content": "word " * 100}]
    with pytest.raises(InsufficientBudget):
        small_manager(recorder).preflight("s", [*pinned, *LARGE_TURNS])
    assert recorder.last("compact.trigger_decision")["kept"] == {"pinned": 2, "recent_turns": 2, "tool_pairs": 1}
