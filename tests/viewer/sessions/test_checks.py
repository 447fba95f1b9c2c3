"""Checks and their descriptions, computed from spans in any order."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from agent_session import play
from compact.events import RAISED
from hypothesis import given, settings
from hypothesis import strategies as st

from viewer.kinds import GENERATION
from viewer.numbers import to_count, to_fraction
from viewer.sessions.checks import Check
from viewer.sessions.descriptions import describe_check, describe_session, describe_span
from viewer.sessions.session_checks import SessionChecks, projected_turns
from viewer.sessions.spans import SpanRow


def rows(events: list[dict[str, Any]]) -> list[SpanRow]:
    spans = []
    for seq, event in enumerate(events):
        if event["type"] != "span":
            continue
        started, ended = event.get("started_at"), event.get("ended_at")
        spans.append(
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
    return spans


def flat(kind: str, second: int, **data: Any) -> SpanRow:
    """Return an event of a client that does not group its events into checks."""
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    return SpanRow("t", f"{kind}{second}", None, f"compact.{kind}", kind, "ok", at, at, None, second, data)


def call(second: int, prompt: int, **data: Any) -> SpanRow:
    """Return a model call as OpenTelemetry instrumentation reports it."""
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    usage = {"gen_ai.usage.input_tokens": prompt, "gen_ai.usage.output_tokens": 42}
    return SpanRow("t", f"call{second}", None, GENERATION, "chat", "ok", at, at, prompt + 42, second, {**usage, **data})


@pytest.fixture(scope="module")
def session() -> list[SpanRow]:
    return rows(play("checks", turns=30))


def test_a_decision_of_document_000_is_a_compaction() -> None:
    """It has `max`, `buffer` and `pruned_count` instead of `max_tokens`, `hard_cap_buffer` and `triggered`."""
    policy = {"trigger_pct": 0.85, "buffer": 1500}
    (check,) = SessionChecks(
        [flat("trigger_decision", 0, t_est=112_345, max=128_000, policy=policy, pruned_count=47)]
    ).compactions()
    assert (check.before, check.window, check.trigger_tokens, check.cap_tokens) == (112_345, 128_000, 108_800, 126_500)


def test_the_parts_of_document_002_sum_to_the_prompt() -> None:
    """Document 002 calls the history `messages`."""
    breakdown = {"system": 1000, "developer": 500, "tools_schema": 2000, "messages": 6500}
    (check,) = SessionChecks(
        [flat("token_estimate", 0, t_est=10_000, max_tokens=128_000, breakdown=breakdown)]
    ).timeline()
    assert sum(check.parts) == check.before


def test_every_turn_is_a_check_and_turns_over_the_trigger_are_compactions(session: list[SpanRow]) -> None:
    checks = SessionChecks(session)
    assert len(checks.timeline()) == 30
    compactions = checks.compactions()
    assert len(compactions) == 2
    assert all(check.before >= check.trigger_tokens for check in compactions)
    assert all(check.after is not None and check.after < check.before for check in compactions)


def test_the_parts_of_a_prompt_sum_to_its_size_before_and_after(session: list[SpanRow]) -> None:
    for check in SessionChecks(session).timeline():
        assert sum(check.parts) == check.before
        if check.after_parts is not None:
            assert sum(check.after_parts) == check.after


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_arrival_order_does_not_matter(seed: int) -> None:
    """Children before parents, in two batches: the checks are the same."""
    spans = rows(play("shuffled", turns=16))
    expected = [(c.key, c.before, c.after, describe_check(c)) for c in SessionChecks(spans).timeline()]
    shuffled = spans[:]
    random.Random(seed).shuffle(shuffled)
    checks = SessionChecks()
    middle = len(shuffled) // 2
    checks.add(shuffled[:middle])
    checks.add(shuffled[middle:])
    # Add the completed spans last: an open state may have arrived after the completed one.
    checks.add(span for span in spans if span.ended_at is not None)
    assert [(c.key, c.before, c.after, describe_check(c)) for c in checks.timeline()] == expected


def test_each_estimate_without_a_parent_starts_a_check() -> None:
    spans = [
        flat("token_estimate", 1, t_est=50, max_tokens=100),
        flat("trigger_decision", 2, triggered=False, t_est=50),
        flat("token_estimate", 3, t_est=90, max_tokens=100),
        flat("trigger_decision", 4, triggered=True, t_est=90),
        flat("pruned_messages", 5, tokens_before=90, tokens_after=40, pruned_count=7),
    ]
    first, second = SessionChecks(spans).timeline()
    assert (first.before, first.is_compaction) == (50, False)
    assert (second.before, second.after, second.pruned_count) == (90, 40, 7)


def test_the_description_of_a_check_has_the_decision_and_its_numbers(session: list[SpanRow]) -> None:
    checks = SessionChecks(session).timeline()
    fired = next(check for check in checks if check.is_compaction)
    assert describe_check(fired) == "Compacted: 113,500 of 128,000 tokens (88.7%) reached the 85% trigger. Now 33,650."
    assert (
        describe_check(checks[0])
        == "Not compacted: 9,000 of 128,000 tokens (7.0%), 99,800 below the trigger of 108,800."
    )


def test_an_error_that_ended_the_call_used_no_fallback() -> None:
    """It is an error of its session, and the one after which a summary was written in another way is not."""
    decision = flat("trigger_decision", 0, triggered=True, t_est=900, max=1_000)
    raised, replaced = flat("error", 1, fallback=RAISED), flat("error", 2, fallback="builtin")
    (check,) = SessionChecks([decision, raised]).timeline()
    assert (check.fallback, check.recovered_errors) == ("", [])
    (check,) = SessionChecks([decision, raised, replaced]).timeline()
    assert (check.fallback, check.recovered_errors) == ("builtin", [replaced.key])


def test_the_description_of_a_failed_compaction_has_the_error() -> None:
    check = SessionChecks(
        [
            flat("token_estimate", 1, t_est=120, max_tokens=128),
            flat("trigger_decision", 2, triggered=True, t_est=120),
            flat("error", 3, error_type="InsufficientBudget", message="protected messages need 130 tokens"),
        ]
    ).timeline()[0]
    assert check.has_failed
    assert describe_check(check).endswith("protected messages need 130 tokens")


def test_a_compaction_without_a_reported_result_is_not_counted_as_completed() -> None:
    """Its last events were lost, or the agent stopped."""
    spans = [
        flat("token_estimate", 1, t_est=120, max_tokens=128),
        flat("trigger_decision", 2, triggered=True, t_est=120, pruned_count=24),
    ]
    (check,) = SessionChecks(spans).timeline()
    assert describe_check(check) == ("A compaction started at 120 of 128 tokens (93.8%). Its result wasn't reported.")
    assert describe_session([check]) == "1 compaction started, but its result wasn't reported."


UNCHANGED = (flat("completed", 5, tokens_before=120, tokens_after=120, details={"changed": False}),)
DISCARDED = (
    flat("summary_discarded", 4, summary_tokens=90, reason="the prompt would not be smaller with it"),
    *UNCHANGED,
)
# Clients of earlier versions reported a summary that they did not use like any other.
OLD_CLIENT = (flat("retention", 3, facts_total=9, facts_kept=2), flat("summary_created", 4, version=2), *UNCHANGED)
PAUSED = (flat("breaker_open", 5, tokens_before=120, details={"reason": "the last compactions freed almost nothing"}),)


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        (UNCHANGED, "The prompt would not have become smaller."),
        (DISCARDED, "The prompt would not have become smaller."),
        (OLD_CLIENT, "The prompt would not have become smaller."),
        (PAUSED, "The last compactions freed almost nothing, so the next one waits for new messages."),
    ],
)
def test_a_check_that_left_the_prompt_as_it_was_is_no_compaction(events: tuple[SpanRow, ...], reason: str) -> None:
    spans = [
        flat("token_estimate", 1, t_est=120, max_tokens=128),
        flat("trigger_decision", 2, triggered=True, t_est=120, trigger_tokens=109, margin_tokens=-11, pruned_count=24),
        *events,
    ]
    (check,) = SessionChecks(spans).timeline()
    assert not check.is_compaction
    assert not check.has_failed
    assert check.after is None
    assert describe_check(check) == f"Not compacted: 120 of 128 tokens (93.8%), 11 above the trigger of 109. {reason}"
    futile = "1 check reached the trigger, but there was too little to gain."
    assert describe_session([check]) == f"No compactions yet. {futile}"
    compacted = SessionChecks([*spans[:2], flat("pruned_messages", 3, tokens_after=40, pruned_count=24)]).timeline()
    assert describe_session([*compacted, check]) == (
        f"1 compaction removed 24 messages from the prompt and freed 80 tokens. {futile}"
    )


def test_the_reason_of_another_agent_is_part_of_the_sentence() -> None:
    spans = [
        flat("token_estimate", 1, t_est=40, max_tokens=100),
        flat("trigger_decision", 2, triggered=True, t_est=40, reason="Codex compacted"),
        flat("pruned_messages", 3, tokens_before=40, tokens_after=20, pruned_count=3),
    ]
    (check,) = SessionChecks(spans).timeline()
    assert describe_check(check) == "Compacted at 40 of 100 tokens (40.0%): Codex compacted. Now 20."


def overflow(second: int) -> list[SpanRow]:
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    check = {"trigger": "overflow", "triggered": True, "tokens_before": 90, "tokens_after": 60, "max_tokens": 100}
    removed = {"removed_count": 4, "tokens_before": 90, "tokens_after": 60, "requested_tokens": 112}
    return [
        SpanRow("t", f"c{second}", None, "compact.check", "check", "ok", at, at, None, second, check),
        SpanRow("t", f"o{second}", f"c{second}", "compact.overflow_recovered", "", "ok", at, at, None, second, removed),
    ]


def test_a_recovered_overflow_is_a_compaction_with_before_and_after() -> None:
    checks = SessionChecks(overflow(1)).timeline()
    assert [(c.is_compaction, c.is_recovery, c.before, c.after) for c in checks] == [(True, True, 90, 60)]
    assert SessionChecks(overflow(1)).compactions() == checks
    assert describe_check(checks[0]) == (
        "The provider rejected 112 tokens for a window of 100, so the 4 oldest messages were removed. Now 60."
    )
    assert describe_session(checks) == (
        "1 compaction removed 4 messages from the prompt and freed 30 tokens. "
        "The provider rejected 1 prompt as too long."
    )


def test_parts_that_the_client_did_not_send_are_marked_as_derived() -> None:
    breakdown = {"system": 10, "history": 80}
    spans = [
        flat("token_estimate", 1, t_est=90, max_tokens=100, breakdown=breakdown),
        flat("trigger_decision", 2, triggered=True, t_est=90),
    ]
    sent = flat("pruned_messages", 3, tokens_after=40, breakdown_after={"system": 10, "history": 30})
    derived, reported = (
        SessionChecks([*spans, last]).timeline()[0] for last in (flat("pruned_messages", 3, tokens_after=40), sent)
    )
    assert (derived.after_is_derived, derived.after_parts) == (True, [10, 0, 0, 0, 30, 0])
    assert (reported.after_is_derived, reported.after_parts) == (False, [10, 0, 0, 0, 30, 0])


def test_the_description_of_a_session_counts_removed_messages(session: list[SpanRow]) -> None:
    assert describe_session(SessionChecks(session).timeline()).startswith(
        "2 compactions removed 72 messages from the prompt"
    )
    assert describe_session([]) == "No compactions yet."


def test_the_description_mentions_compactions_of_a_provider() -> None:
    """They are not compactions of the agent, but the prompt did shrink."""
    check = [flat("token_estimate", 1, t_est=10, max_tokens=100)]
    for count, times in ((1, "once"), (2, "twice"), (3, "3 times")):
        provider = [flat("provider_compaction", 2 + n, tokens_before=90) for n in range(count)]
        checks = SessionChecks([*check, *provider])
        # A span that arrives again counts once.
        checks.add(provider)
        text = describe_session(checks.timeline(), provider_count=len(checks.provider_compactions))
        assert text == f"The provider compacted {times} on its own side."


def test_description_says_when_a_compaction_made_the_prompt_larger() -> None:
    spans = [flat("pruned_messages", 1, tokens_before=47, tokens_after=900, pruned_count=47)]
    text = describe_session(SessionChecks(spans).timeline())
    assert text == "1 compaction removed 47 messages from the prompt and added 853 tokens."


def test_a_compaction_whose_prompt_was_not_counted_yet_names_the_summary_only() -> None:
    """A log has the summary, but not what surrounds it in the next prompt."""
    spans = [
        flat("trigger_decision", 1, triggered=True, t_est=167_094, max_tokens=200_000),
        flat("summary_created", 2, summary_tokens=4_416),
        flat("pruned_messages", 3, tokens_before=167_094, tokens_after=None, pruned_count=47, fates={"summarized": 47}),
    ]
    (check,) = SessionChecks(spans).timeline()
    size = "Summary only: 4,416 tokens. The next model call shows the size of the prompt."
    assert describe_check(check).endswith(f". {size}")
    assert "freed" not in describe_session([check])


def test_only_messages_of_the_conversation_are_counted_as_removed() -> None:
    """The fates also count the summary of the compaction before, and messages that stay without their content."""
    spans = [
        flat("pruned_messages", 1, pruned_count=38, fates={"pinned": 3, "kept": 17, "summarized": 38}),
        flat("pruned_messages", 2, pruned_count=20, fates={"pinned": 3, "kept": 17, "summarized": 21, "cleared": 4}),
    ]
    assert sum(check.pruned_count for check in SessionChecks(spans).timeline()) == 58


def test_description_does_not_invent_freed_tokens() -> None:
    """Events of document 000 have no size after the compaction."""
    decision = [flat("trigger_decision", 1, t_est=112_345, max=128_000, pruned_count=47)]
    text = describe_session(SessionChecks(decision).timeline())
    assert text == "1 compaction removed 47 messages from the prompt. The prompt size afterward wasn't reported."
    text = describe_session(SessionChecks([*decision, *overflow(2)]).timeline())
    assert text.startswith("2 compactions removed 51 messages from the prompt and freed at least 30 tokens.")


def test_the_projection_uses_the_pace_of_recent_turns() -> None:
    spans = [flat("token_estimate", n, t_est=10 * n, max_tokens=100, policy={}) for n in range(1, 6)] + [
        flat("trigger_decision", 5, triggered=False, t_est=50, trigger_tokens=85)
    ]
    assert projected_turns(SessionChecks(spans).timeline()) == 4
    assert projected_turns([]) is None


def test_the_projection_includes_turns_before_the_last_compaction() -> None:
    """The first turn after a compaction adds little and would make the projection far too long."""
    spans = [flat("token_estimate", n, t_est=9 * n, max_tokens=100, policy={}) for n in range(1, 11)]
    spans += [
        flat("trigger_decision", 10, triggered=True, t_est=90, trigger_tokens=85),
        flat("pruned_messages", 10, tokens_after=40),
        flat("token_estimate", 11, t_est=41, max_tokens=100, policy={}),
        flat("trigger_decision", 11, triggered=False, t_est=41, trigger_tokens=85),
    ]
    assert projected_turns(SessionChecks(spans).timeline()) == 6


@given(st.one_of(st.none(), st.text(), st.floats(), st.booleans(), st.lists(st.integers())))
def test_any_value_parses_as_a_number(value: Any) -> None:
    assert isinstance(to_count(value), int)
    assert 0.0 <= to_fraction(value) <= 1.0


@given(
    st.dictionaries(
        st.sampled_from(["t_est", "max_tokens", "reason", "triggered", "policy", "breakdown"]),
        st.one_of(st.none(), st.text(), st.integers(), st.booleans(), st.lists(st.integers())),
    )
)
def test_invalid_properties_never_raise(data: dict[str, Any]) -> None:
    for kind in ("token_estimate", "trigger_decision", "pruned_messages", "error", "retention"):
        span = flat(kind, 1, **data)
        describe_span(span)
        check = Check("k")
        check.add(span)
        describe_check(check)
        assert len(check.parts) == 6


def test_model_calls_are_drawn_when_there_are_no_estimates() -> None:
    first, second = SessionChecks([call(2, 1_342), call(1, 942), call(3, 0)]).timeline()
    assert [(check.before, check.is_call, check.is_compaction) for check in (first, second)] == [
        (942, True, False),
        (1_342, True, False),
    ]
    assert describe_check(first) == "Model call: 942 tokens in, 42 out, as counted by the provider."
    assert describe_session([first, second]).startswith("No compactions reported")
    assert describe_span(call(1, 942, model="gpt-5")) == "gpt-5: 942 tokens in, 42 out"


@pytest.mark.parametrize("is_first", [True, False])
def test_model_calls_are_not_drawn_beside_checks(is_first: bool) -> None:
    checks = SessionChecks()
    batches = [[call(1, 942)], [flat("token_estimate", 2, t_est=1_000, max_tokens=8_000)]]
    for spans in batches if is_first else reversed(batches):
        checks.add(spans)
    checks.add([call(3, 1_100)])
    assert [check.before for check in checks.timeline()] == [1_000]


def test_a_warning_alone_does_not_hide_model_calls() -> None:
    checks = SessionChecks([call(1, 942), flat("warning", 2, message="from curl")])
    assert [check.before for check in checks.timeline()] == [942]
