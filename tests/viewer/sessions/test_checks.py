"""Spans in any order to checks and sentences."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from agent_session import play
from hypothesis import given, settings
from hypothesis import strategies as st

from viewer.sessions.checks import CALL, Check, Checks, SpanRow, fraction, numbered, projected_turns, whole
from viewer.sessions.sentences import beside_messages, describe, sentence, story


def rows(events: list[dict[str, Any]]) -> list[SpanRow]:
    found = []
    for seq, event in enumerate(events):
        if event["type"] != "span":
            continue
        started, ended = event.get("started_at"), event.get("ended_at")
        found.append(
            SpanRow(
                event["trace_id"],
                event["span_id"],
                event.get("parent_id"),
                event["kind"],
                event["name"],
                event.get("status", ""),
                datetime.fromisoformat(started) if started else None,
                datetime.fromisoformat(ended) if ended else None,
                None,
                seq,
                event["data"],
            )
        )
    return found


def flat(kind: str, second: int, **data: Any) -> SpanRow:
    """An event of a client that knows nothing of checks."""
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    return SpanRow("t", f"{kind}{second}", None, f"compact.{kind}", kind, "ok", at, at, None, second, data)


def call(second: int, prompt: int, **data: Any) -> SpanRow:
    """A call of the model as OpenTelemetry's instrumentation tells it."""
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    usage = {"gen_ai.usage.input_tokens": prompt, "gen_ai.usage.output_tokens": 42}
    return SpanRow("t", f"call{second}", None, CALL, "chat", "ok", at, at, prompt + 42, second, {**usage, **data})


@pytest.fixture(scope="module")
def session() -> list[SpanRow]:
    return rows(play("reducer", turns=30))


def test_document_000s_decision_is_a_compaction_with_its_window() -> None:
    """It says `max` and `buffer`, and that it pruned instead of that it was triggered."""
    policy = {"trigger_pct": 0.85, "buffer": 1500}
    (check,) = Checks(
        [flat("trigger_decision", 0, t_est=112_345, max=128_000, policy=policy, pruned_count=47)]
    ).compactions()
    assert (check.before, check.window, check.trigger_tokens, check.cap_tokens) == (112_345, 128_000, 108_800, 126_500)


def test_document_002s_parts_add_up() -> None:
    """Its `messages` are what we call history."""
    breakdown = {"system": 1000, "developer": 500, "tools_schema": 2000, "messages": 6500}
    (check,) = Checks([flat("token_estimate", 0, t_est=10_000, max_tokens=128_000, breakdown=breakdown)]).ordered()
    assert sum(check.parts) == check.before


def test_every_turn_is_a_check_and_those_over_the_trigger_are_compactions(session: list[SpanRow]) -> None:
    checks = Checks(session)
    assert len(checks.ordered()) == 30
    compactions = checks.compactions()
    assert len(compactions) == 2
    assert all(check.before >= check.trigger_tokens for check in compactions)
    assert all(check.after is not None and check.after < check.before for check in compactions)


def test_the_parts_of_a_prompt_add_up_before_and_after(session: list[SpanRow]) -> None:
    for check in Checks(session).ordered():
        assert sum(check.parts) == check.before
        if check.after_parts is not None:
            assert sum(check.after_parts) == check.after


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_order_of_arrival_does_not_matter(seed: int) -> None:
    """Children before parents, half now and half later: the same checks in the end."""
    spans = rows(play("shuffled", turns=16))
    expected = [(c.key, c.before, c.after, sentence(c)) for c in Checks(spans).ordered()]
    shuffled = spans[:]
    random.Random(seed).shuffle(shuffled)
    checks = Checks()
    middle = len(shuffled) // 2
    checks.add(shuffled[:middle])
    checks.add(shuffled[middle:])
    # An open span must not replace the completed one that overtook it.
    checks.add(span for span in spans if span.ended_at is not None)
    assert [(c.key, c.before, c.after, sentence(c)) for c in checks.ordered()] == expected


def test_events_without_a_parent_fall_into_checks_by_their_estimates() -> None:
    spans = [
        flat("token_estimate", 1, t_est=50, max_tokens=100),
        flat("trigger_decision", 2, triggered=False, t_est=50),
        flat("token_estimate", 3, t_est=90, max_tokens=100),
        flat("trigger_decision", 4, triggered=True, t_est=90),
        flat("pruned_messages", 5, tokens_before=90, tokens_after=40, pruned_count=7),
    ]
    first, second = Checks(spans).ordered()
    assert (first.before, first.is_compaction) == (50, False)
    assert (second.before, second.after, second.pruned_count) == (90, 40, 7)


def test_a_sentence_says_what_was_decided_with_its_numbers(session: list[SpanRow]) -> None:
    checks = Checks(session).ordered()
    fired = next(check for check in checks if check.is_compaction)
    assert sentence(fired) == "Compacted: 113,500 of 128,000 tokens (88.7%) reached the 85% trigger. Now 33,650."
    assert sentence(checks[0]) == "Not compacted: 9,000 of 128,000 tokens (7.0%), 99,800 below the trigger of 108,800."


def test_a_failed_compaction_says_why() -> None:
    check = Checks(
        [
            flat("token_estimate", 1, t_est=120, max_tokens=128),
            flat("trigger_decision", 2, triggered=True, t_est=120),
            flat("error", 3, error_type="InsufficientBudget", message="protected messages need 130 tokens"),
        ]
    ).ordered()[0]
    assert check.has_failed
    assert sentence(check).endswith("protected messages need 130 tokens")


def overflow(second: int) -> list[SpanRow]:
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    check = {"trigger": "overflow", "triggered": True, "tokens_before": 90, "tokens_after": 60, "max_tokens": 100}
    removed = {"removed_count": 4, "tokens_before": 90, "tokens_after": 60, "requested_tokens": 112}
    return [
        SpanRow("t", f"c{second}", None, "compact.check", "check", "ok", at, at, None, second, check),
        SpanRow("t", f"o{second}", f"c{second}", "compact.overflow_recovered", "", "ok", at, at, None, second, removed),
    ]


def test_an_overflow_that_was_recovered_is_told_but_is_no_compaction() -> None:
    """The list and the head of a page count what wrote a ledger; sentence and timeline must count the same."""
    checks = Checks(overflow(1)).ordered()
    assert [(c.is_compaction, c.is_recovery, c.before, c.after) for c in checks] == [(False, True, 90, 60)]
    assert Checks(overflow(1)).compactions() == []
    assert sentence(checks[0]) == (
        "The provider refused 112 of 100 tokens (112.0%): the 4 oldest messages were left out. Now 60."
    )
    assert story(checks) == "Once the provider refused a prompt and the 4 oldest messages were left out."
    assert numbered(checks) == [(None, checks[0])]


def test_parts_that_the_client_did_not_send_are_known_to_be_derived() -> None:
    breakdown = {"system": 10, "history": 80}
    spans = [
        flat("token_estimate", 1, t_est=90, max_tokens=100, breakdown=breakdown),
        flat("trigger_decision", 2, triggered=True, t_est=90),
    ]
    said = flat("pruned_messages", 3, tokens_after=40, breakdown_after={"system": 10, "history": 30})
    derived, told = (
        Checks([*spans, last]).ordered()[0] for last in (flat("pruned_messages", 3, tokens_after=40), said)
    )
    assert (derived.after_is_derived, derived.after_parts) == (True, [10, 0, 0, 0, 30, 0])
    assert (told.after_is_derived, told.after_parts) == (False, [10, 0, 0, 0, 30, 0])


def test_the_story_counts_what_was_forgotten(session: list[SpanRow]) -> None:
    assert story(Checks(session).ordered()).startswith("2 compactions took 72 messages out of the prompt")
    assert story([]) == "Nothing has been forgotten: no compaction yet."


def test_messages_that_are_less_than_the_prompt_say_what_the_rest_is() -> None:
    """Two figures called *before* that differ would be taken for a fault."""
    spans = [
        flat("token_estimate", 1, t_est=90, max_tokens=100),
        flat("trigger_decision", 2, triggered=True, t_est=90),
        flat("pruned_messages", 3, tokens_before=90, tokens_after=40),
    ]
    check = Checks(spans).ordered()[0]
    told = beside_messages(check, 80, 30)
    assert told.startswith("Not drawn: 10 tokens that every prompt holds beside its messages, such as tool schemas.")
    assert told.endswith("With them the prompt was 90 before and 40 after.")
    assert "10 before and 15 after" in beside_messages(check, 80, 25)
    assert beside_messages(check, 90, 40) == ""


def test_the_projection_follows_the_pace_of_the_last_turns() -> None:
    spans = [flat("token_estimate", n, t_est=10 * n, max_tokens=100, policy={}) for n in range(1, 6)] + [
        flat("trigger_decision", 5, triggered=False, t_est=50, trigger_tokens=85)
    ]
    assert projected_turns(Checks(spans).ordered()) == 4
    assert projected_turns([]) is None


def test_the_projection_remembers_the_pace_before_a_compaction() -> None:
    """The first turn after one adds little; the session has not become a hundred times slower for it."""
    spans = [flat("token_estimate", n, t_est=9 * n, max_tokens=100, policy={}) for n in range(1, 11)]
    spans += [
        flat("trigger_decision", 10, triggered=True, t_est=90, trigger_tokens=85),
        flat("pruned_messages", 10, tokens_after=40),
        flat("token_estimate", 11, t_est=41, max_tokens=100, policy={}),
        flat("trigger_decision", 11, triggered=False, t_est=41, trigger_tokens=85),
    ]
    assert projected_turns(Checks(spans).ordered()) == 6


@given(st.one_of(st.none(), st.text(), st.floats(), st.booleans(), st.lists(st.integers())))
def test_whatever_an_agent_sends_for_a_number_is_a_number(value: Any) -> None:
    assert isinstance(whole(value), int)
    assert 0.0 <= fraction(value) <= 1.0


@given(
    st.dictionaries(
        st.sampled_from(["t_est", "max_tokens", "reason", "triggered", "policy", "breakdown"]),
        st.one_of(st.none(), st.text(), st.integers(), st.booleans(), st.lists(st.integers())),
    )
)
def test_nonsense_properties_never_break_a_page(data: dict[str, Any]) -> None:
    for kind in ("token_estimate", "trigger_decision", "pruned_messages", "error", "retention"):
        span = flat(kind, 1, **data)
        describe(span)
        check = Check("k")
        check.take(span)
        sentence(check)
        assert len(check.parts) == 6


def test_where_nobody_weighs_prompts_the_models_calls_are_the_bars() -> None:
    first, second = Checks([call(2, 1_342), call(1, 942), call(3, 0)]).ordered()
    assert [(check.before, check.is_call, check.is_compaction) for check in (first, second)] == [
        (942, True, False),
        (1_342, True, False),
    ]
    assert sentence(first) == "The model was called: 942 tokens in, 42 out, as its provider counted."
    assert story([first, second]).startswith("No compaction was reported")
    assert describe(call(1, 942, model="gpt-5")) == "gpt-5: 942 tokens in, 42 out"


@pytest.mark.parametrize("is_first", [True, False])
def test_calls_are_no_bars_beside_checks_whatever_came_first(is_first: bool) -> None:
    checks = Checks()
    told = [[call(1, 942)], [flat("token_estimate", 2, t_est=1_000, max_tokens=8_000)]]
    for spans in told if is_first else reversed(told):
        checks.add(spans)
    checks.add([call(3, 1_100)])
    assert [check.before for check in checks.ordered()] == [1_000]


def test_a_warning_alone_does_not_hide_the_calls() -> None:
    checks = Checks([call(1, 942), flat("warning", 2, message="from curl")])
    assert [check.before for check in checks.ordered()] == [942]
