"""Properties of every conversation, in every format, under every policy."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from compact import CompactConfig, CompactManager, CompactPolicy, InsufficientBudget, TiktokenEstimator
from compact.messages import Message
from compact.messages.codecs import get_codec
from compact.messages.normalization import normalize
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import FORMATS, steps, write

ESTIMATOR = TiktokenEstimator()
WINDOW = 1600
BUFFER = 100
BUDGET = WINDOW - BUFFER
quick = settings(max_examples=40)

formats = st.sampled_from(FORMATS)
policies = st.builds(
    CompactPolicy,
    hard_cap_buffer=st.just(BUFFER),
    keep_recent_turns=st.integers(1, 6),
    keep_tool_io_pairs=st.integers(1, 4),
    renderer=st.sampled_from(["layered", "inplace", "bridge"]),
    pruning=st.sampled_from(["recency", "recency", "fifo", "stage_aware"]),
    strategy=st.sampled_from(["task_state", "brief", "decision_log"]),
)


def manager_for(policy):
    return CompactManager(
        CompactConfig(model="gpt-5", max_context_tokens=WINDOW, policy=policy, token_estimator=ESTIMATOR)
    )


def compact_or_none(items, policy, fmt):
    """Return the compacted items, or None if the budget cannot be met."""
    try:
        return manager_for(policy).manual_compact("s", items, format=fmt)
    except InsufficientBudget:
        return None


def decode_items(items, fmt):
    codec = get_codec(fmt)
    return [codec.decode(item, place) for place, item in enumerate(items)]


def kept_items(items, keep):
    return [json.dumps(item, sort_keys=True) for item in items if keep(item)]


def is_pinned(item):
    return item.get("role") in ("system", "developer") or bool(item.get("meta", {}).get("protected"))


@pytest.mark.req("S-PROT-1", "S-PROT-2", "P-PROT-1", "P-TST-1")
@quick
@given(steps(orphans=False), policies, formats)
def test_pinned_messages_survive_any_compaction(conversation, policy, fmt):
    """Every protected, system and developer message is still present and unchanged."""
    items = write(conversation, fmt)
    out = compact_or_none(items, policy, fmt)
    if out is not None:
        # The mark itself is not sent.
        pinned = [{key: item[key] for key in item if key != "meta"} for item in items if is_pinned(item)]
        assert not Counter(kept_items(pinned, bool)) - Counter(kept_items(out, bool))


@pytest.mark.req("R-PAIR-1", "R-NORM-1")
@quick
@given(steps(), policies, formats)
def test_every_call_keeps_its_output(conversation, policy, fmt):
    """After any compaction, every call has its output and every output its call, even if the host omitted some."""
    out = compact_or_none(write(conversation, fmt), policy, fmt)
    if out is None:
        return
    messages = decode_items(out, fmt)
    assert not normalize(messages, get_codec(fmt)).is_changed
    for place, message in enumerate(messages):
        if message.kind == "reasoning":
            following = messages[place + 1]
            assert following.role == "assistant"


@pytest.mark.req("P-TST-1", "S-KEEP-3")
@quick
@given(steps(), policies, formats)
def test_the_result_fits_the_budget_or_raises(conversation, policy, fmt):
    """A compacted request is within the budget. If that is impossible, `InsufficientBudget` is raised."""
    out = compact_or_none(write(conversation, fmt), policy, fmt)
    if out is not None:
        assert ESTIMATOR.estimate(decode_items(out, fmt), "gpt-5") <= BUDGET


@pytest.mark.req("S-LAY-1")
@quick
@given(steps(orphans=False), policies, formats)
def test_kept_messages_keep_their_order(conversation, policy, fmt):
    """Kept messages that are not pinned stay in their original order."""
    items = [{**item, "mark": place} for place, item in enumerate(write(conversation, fmt))]
    out = compact_or_none(items, policy, fmt)
    if out is None:
        return
    free = [item["mark"] for item in out if "mark" in item and not is_pinned(item)]
    users = {place for place, item in enumerate(items) if item.get("role") == "user"}
    if policy.renderer == "bridge":
        free = [mark for mark in free if mark not in users]
    pinned_units = {mark for mark in free if _is_in_pinned_unit(items, mark, fmt)}
    rest = [mark for mark in free if mark not in pinned_units]
    assert rest == sorted(rest)


def _is_in_pinned_unit(items, mark, fmt):
    from compact.messages.units import group_units
    from compact.planning.partition import pin_rules

    messages = decode_items(items, fmt)
    policy = CompactPolicy()
    units = group_units(messages)
    pins = pin_rules(units, messages, policy)
    return any(mark in unit.indices for unit in units if unit.first in pins)


@pytest.mark.req("D-CON-1")
@quick
@given(steps(), policies, formats)
def test_the_same_input_gives_the_same_bytes(conversation, policy, fmt):
    """Two managers compact a conversation to the same bytes, and neither changes its input."""
    items = write(conversation, fmt)
    before = json.dumps(items)
    first, second = compact_or_none(items, policy, fmt), compact_or_none(items, policy, fmt)
    assert json.dumps(first) == json.dumps(second)
    assert json.dumps(items) == before


@pytest.mark.req("D-CON-1", "D-PLAN-1")
@quick
@given(steps(), policies, formats)
def test_requests_are_stable_until_the_plan_changes(conversation, policy, fmt):
    """The same bytes are returned whether a host shows its whole history again or the list it received."""
    items = write(conversation, fmt)
    manager = manager_for(policy)
    try:
        first = manager.manual_compact("s", items, format=fmt)
        again = manager.preflight("s", items, format=fmt)
        adopted = manager.preflight("s", first, format=fmt)
    except InsufficientBudget:
        return
    if manager.plan("s") is not None and manager.plan("s").version == 1:
        assert json.dumps(again) == json.dumps(first)
        assert json.dumps(adopted) == json.dumps(first)
        assert json.dumps(manager.rerender("s", 1)) == json.dumps(first)


@pytest.mark.req("D-PLAN-1")
@quick
@given(steps(), policies, formats)
def test_plans_round_trip_through_json(conversation, policy, fmt):
    """A plan that is written as JSON and read again is equal and writes the same JSON."""
    manager = manager_for(policy)
    try:
        manager.manual_compact("s", write(conversation, fmt), format=fmt)
    except InsufficientBudget:
        return
    plan = manager.plan("s")
    if plan is not None:
        again = type(plan).from_json(plan.to_json())
        assert again == plan
        assert again.to_json() == plan.to_json()


@pytest.mark.req("D-PLAN-1")
@quick
@given(steps(), policies, formats)
def test_the_ledger_accounts_for_every_message(conversation, policy, fmt):
    """Every message of the prompt has one ledger entry, in order, and every kept message is in the result."""
    items = write(conversation, fmt)
    manager = manager_for(policy)
    try:
        out = manager.manual_compact("s", items, format=fmt)
    except InsufficientBudget:
        return
    plan = manager.plan("s")
    if plan is None:
        return
    own = [entry for entry in plan.ledger if entry.id.startswith("m")]
    expected = normalize(decode_items(items, fmt), get_codec(fmt)).messages
    assert [entry.role for entry in own] == [m.role for m in expected if m.text != "aborted"]
    stays = sum(entry.fate in ("kept", "pinned", "truncated", "cleared") for entry in plan.ledger)
    synthetic = sum(message.is_summary for message in decode_items(out, fmt))
    if policy.renderer != "inplace" and fmt != "anthropic":
        assert len(out) == stays + synthetic
    assert all(entry.rule for entry in plan.ledger)


@pytest.mark.req("R-PAIR-1")
@quick
@given(steps(), formats, st.booleans())
def test_codecs_round_trip_every_item(conversation, fmt, with_unknown):
    """Decoding and encoding is the identity, also for items of an unknown type."""
    items = write(conversation, fmt)
    if with_unknown:
        items.insert(len(items) // 2, {"type": "hologram", "data": [1, 2, {"a": None}]})
    codec = get_codec(fmt)
    assert json.dumps([codec.encode(message) for message in decode_items(items, fmt)]) == json.dumps(items)


@pytest.mark.req("S-LAY-2")
@quick
@given(st.lists(steps(max_size=8, orphans=False), min_size=2, max_size=4), formats)
def test_any_number_of_compactions_leaves_one_summary(parts, fmt):
    """There is at most one session summary, and its version never decreases."""
    manager = manager_for(CompactPolicy(hard_cap_buffer=BUFFER, keep_recent_turns=1, keep_tool_io_pairs=1))
    history, last = [], 0
    for number, part in enumerate(parts):
        history += write(part[1:] if number else part, fmt)
        try:
            history = manager.manual_compact("s", history, format=fmt)
        except InsufficientBudget:
            return
        summaries = [m.text for m in decode_items(history, fmt) if m.is_summary]
        assert len(summaries) <= 1
        if summaries:
            version = int(summaries[0].removeprefix("<COMPACT-SUMMARY v").partition(">")[0])
            assert version >= last
            last = version


@quick
@given(steps(), policies)
def test_kept_message_objects_are_the_callers_own(conversation, policy):
    """Kept messages are the caller's own objects, except for truncated and cleared outputs."""
    codec = get_codec("chat")
    messages = [
        Message(m.role, m.text, m.meta, tool_calls=m.tool_calls, tool_call_id=m.tool_call_id)
        for m in (codec.decode(item, 0) for item in write(conversation, "chat"))
    ]
    out = compact_or_none(messages, policy, None)
    if out is not None:
        known = {id(message) for message in messages}
        ours = [m for m in out if id(m) not in known]
        assert all(m.text == "aborted" or m.role == "assistant" or _is_shortened(m.text) for m in ours)


def _is_shortened(text):
    return "tokens truncated" in text or text.startswith(("[read: ", "[run: "))
