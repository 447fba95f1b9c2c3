"""Partitions: which units stay, under which rule, and in which order limits are reduced."""

from __future__ import annotations

import pytest
from compact import CompactPolicy, Message, ToolCall
from compact.messages.units import group_units
from compact.planning.partition import (
    Partition,
    partition_for_bridge,
    partition_units,
    pin_rules,
    reduction_steps,
)

MESSAGES = [
    Message("system", "Be brief."),
    Message("user", "first question"),
    Message("assistant", "first answer"),
    Message("assistant", "", tool_calls=(ToolCall("a", "read"),)),
    Message("tool", "text", tool_call_id="a"),
    Message("user", "second question"),
    Message("assistant", "second answer"),
    Message("user", "third question"),
]
UNITS = group_units(MESSAGES)
PINS = pin_rules(UNITS, MESSAGES, CompactPolicy())


def partition(keep_turns: int, keep_pairs: int) -> Partition:
    return partition_units(UNITS, MESSAGES, PINS, keep_turns=keep_turns, keep_pairs=keep_pairs)


@pytest.mark.req("S-KEEP-3")
def test_limits_are_reduced_alternately_down_to_one_each():
    """One turn less, then one pair less. With the floor `newest`, the last turn and then only required units stay."""
    policy = CompactPolicy(keep_recent_turns=3, keep_tool_io_pairs=2)
    steps = list(reduction_steps(policy, "newest"))
    limits = [(step.keep_turns, step.keep_pairs) for step in steps]
    assert limits == [(3, 2), (2, 2), (2, 1), (1, 1), (1, 0), (0, 0), (-1, 0)]
    assert [(step.keep_turns, step.keep_pairs) for step in reduction_steps(policy)] == limits[:4]
    assert [step.is_floor for step in steps] == [False, False, False, True, True, True, True]
    assert steps[1].reason == "over budget: keep_recent_turns 3 -> 2"


def test_partition_gives_every_kept_unit_a_rule():
    """Pins, recent turns, tool pairs and the input of the call have their own rules."""
    result = partition(keep_turns=1, keep_pairs=1)
    assert result.rules == {
        0: "role system",
        3: "tool pair 1 of 1",
        5: "recent 1 of 1",
        6: "recent 1 of 1",
        7: "user input",
    }
    assert [unit.first for unit in result.remainder] == [1, 2]
    assert (result.recent_turns, result.tool_pairs) == (1, 1)


def test_newest_unit_stays_at_every_limit():
    """Without recent turns and pairs, the newest unit and the last user message stay."""
    *earlier, question = MESSAGES
    messages = [*earlier, question, Message("assistant", "", tool_calls=(ToolCall("b", "read"),))]
    units = group_units(messages)
    pins = pin_rules(units, messages, CompactPolicy())
    kept = [
        [unit.first for unit in partition_units(units, messages, pins, keep_turns=turns, keep_pairs=0).recent]
        for turns in (0, -1)
    ]
    assert kept == [[7, 8], [8]]


def test_keep_moves_units_from_the_remainder():
    """The moved units are in conversation order and have the given rule."""
    result = partition(keep_turns=1, keep_pairs=0).keep([UNITS[1], UNITS[3]], "needed")
    assert [unit.first for unit in result.recent] == [1, 3, 5, 6, 7]
    assert [unit.first for unit in result.remainder] == [2]
    assert result.rules[1] == result.rules[3] == "needed"


@pytest.mark.req("R-USER-1")
def test_bridge_keeps_the_newest_user_messages_within_the_limit():
    """Older user messages are part of the remainder. The last one stays at any limit."""
    sizes = {unit.first: 10 for unit in UNITS}
    kept = [[unit.first for unit in bridge_partition(sizes, limit).recent] for limit in (30, 20, 0)]
    assert kept == [[1, 5, 7], [5, 7], [7]]


def bridge_partition(sizes, limit, last_limit=20_000):
    return partition_for_bridge(UNITS, MESSAGES, PINS, sizes=sizes, user_tokens=limit, last_user_tokens=last_limit)


@pytest.mark.req("R-USER-1")
def test_bridge_truncates_the_user_message_that_exceeds_the_limit():
    """It gets the rest of the limit, if that is not too small to show anything."""
    sizes = {unit.first: 100 for unit in UNITS}
    limits = {limit: bridge_partition(sizes, limit).user_limits for limit in (300, 299, 264, 263, 180, 100, 0)}
    assert limits == {300: {}, 299: {1: 99}, 264: {1: 64}, 263: {}, 180: {5: 80}, 100: {}, 0: {}}
    assert bridge_partition(sizes, 264).cut_tokens(sizes) == 36
    assert bridge_partition(sizes, 264, last_limit=90).user_limits == {1: 64}
    assert [unit.first for unit in bridge_partition(sizes, 264).without_truncating([1]).recent] == [5, 7]


@pytest.mark.req("R-USER-1")
def test_bridge_truncates_the_last_user_message_only_to_the_limit_of_the_policy():
    """An agent still works on it. As the newest message it is whole."""
    units, sizes = UNITS[:-1], {unit.first: 100 for unit in UNITS}
    result = partition_for_bridge(units, MESSAGES, PINS, sizes=sizes, user_tokens=0, last_user_tokens=90)
    assert result.user_limits == {5: 90}
    assert result.without_truncating([5]).recent == result.recent
