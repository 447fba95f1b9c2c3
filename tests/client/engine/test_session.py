"""Sessions over time: repeated histories, adopted lists, edits, restarts and the rate of compactions."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from builders import Recorder, chat_turns, small_manager, tool_pair
from compact import CompactConfig, CompactError, CompactManager, CompactPolicy, Message
from compact.adapters.plan_stores import FileCompactionStore, MemoryCompactionStore
from compact.planning.plan import CompactionPlan
from compact.testing import assert_pairs_whole
from langchain_core.messages import convert_to_messages
from pydantic import BaseModel

SYSTEM = {"role": "system", "content": "You are careful."}


def dicts(turns, start=0):
    return [message.to_dict() for message in chat_turns(turns, start=start)]


@pytest.mark.parametrize("renderer", ["layered", "inplace", "bridge"])
def test_requests_share_a_prefix_until_the_plan_changes(renderer):
    """Each request starts with the bytes of the previous one, so the provider's prompt cache stays valid."""
    manager = small_manager(policy={"renderer": renderer})
    history, before, version, changes = [SYSTEM], [], 0, 0
    for turn in range(60):
        history += dicts(1, start=turn)
        out = manager.preflight("s", history)
        plan = manager.plan("s")
        if plan is None or plan.version == version:
            assert json.dumps(out[: len(before)]) == json.dumps(before)
        else:
            version, changes = plan.version, changes + 1
        before = out
    assert changes >= 2


def test_full_and_adopted_histories_give_the_same_requests():
    """A host may keep its whole history or continue from the list it received."""
    whole, handed = small_manager(), small_manager()
    history, mine = [SYSTEM], [SYSTEM]
    for turn in range(60):
        new = dicts(1, start=turn)
        history, mine = [*history, *new], [*mine, *new]
        shown = whole.preflight("s", history)
        mine = handed.preflight("s", mine)
        assert json.dumps(shown) == json.dumps(mine)


@pytest.mark.parametrize("added", [[], [{"role": "user", "content": "another question"}]], ids=["regenerate", "edit"])
@pytest.mark.parametrize("renderer", ["layered", "inplace", "bridge"])
def test_rewinding_past_a_compaction_discards_its_summary(renderer, added):
    """The request has the question to answer and nothing that the host took back."""
    manager = small_manager(policy={"renderer": renderer})
    history = [SYSTEM, *dicts(30)]
    assert len(manager.preflight("s", history)) < len(history)
    again = [*history[:4], *added]
    assert manager.preflight("s", again) == again


def test_the_summary_stays_when_the_host_drops_old_messages():
    """The dropped messages were compacted before, so only the summary has their content."""
    manager = small_manager()
    history = [SYSTEM, *dicts(30)]
    compacted = manager.preflight("s", history)
    assert manager.preflight("s", [SYSTEM, *history[-20:]])[:2] == compacted[:2]


def test_every_past_request_can_be_rendered_again():
    """`rerender` returns every request byte for byte, before and after compactions."""
    manager = small_manager(window=3000)
    history, sent = [SYSTEM], []
    for turn in range(40):
        history += [*dicts(1, start=turn), *tool_pair(turn, "line " * 20)]
        sent.append(json.dumps(manager.preflight("s", history)))
    assert manager.plan("s").version >= 2
    assert [json.dumps(manager.rerender("s", number)) for number in range(1, 41)] == sent


def test_a_request_is_rendered_with_the_output_it_had_before_a_later_truncation():
    """Truncating an output for a later request does not change the earlier one."""
    manager = small_manager()
    history = [SYSTEM, *tool_pair(1, " ".join(f"line{number}" for number in range(500)))]
    first = manager.preflight("s", history)
    second = manager.preflight("s", history, instructions="word " * 1000)
    assert first == history
    assert "tokens truncated" in second[-1]["content"]
    assert manager.rerender("s", 1) == first
    assert manager.rerender("s", 2) == second


def test_equal_messages_are_distinguished():
    """Summarizing old messages removes none of the new ones with the same text."""
    manager = small_manager(window=600)
    history = [SYSTEM]
    for _ in range(40):
        history = manager.preflight(
            "s", [*history, {"role": "user", "content": "ok " * 20}, {"role": "assistant", "content": "yes"}]
        )
        assert history[-1]["content"] == "yes"
        assert history[-2]["content"] == "ok " * 20


def test_a_changed_system_prompt_keeps_the_plan():
    """Instructions that contain the time do not cause a new compaction at every call."""
    recorder = Recorder()
    manager = small_manager(recorder)
    body = dicts(30)
    for minute in range(5):
        system = {"role": "system", "content": f"It is 12:0{minute}."}
        out = manager.preflight("s", [system, *body, *[{"role": "user", "content": "go on"}] * minute])
        assert out[0] == system
        assert sum(item["role"] == "system" for item in out) == 1
    assert len(recorder.of("compact.summary_created")) == 1


def test_a_new_conversation_with_a_reused_session_id_starts_clean():
    """Nothing of the earlier conversation leaks into the new one."""
    recorder = Recorder()
    manager = small_manager(recorder)
    manager.preflight("s", [SYSTEM, {"role": "user", "content": "my PIN is 4711"}, *dicts(30)])
    fresh = [SYSTEM, {"role": "user", "content": "hello, something new"}]
    assert manager.preflight("s", fresh) == fresh
    assert recorder.last("compact.warning")["code"] == "session_reset"


def test_an_edit_after_a_compaction_keeps_the_summary():
    """A host may drop its last exchange and continue. The edit is sent as it is."""
    manager = small_manager()
    out = manager.preflight("s", [SYSTEM, *dicts(30)])
    edited = [*out[:-2], {"role": "user", "content": "let me ask differently"}]
    assert manager.preflight("s", edited) == edited


def test_messages_can_be_protected_later_or_by_index():
    """A message is kept if its flag is set after it was first seen, or if `protected` lists its index."""
    messages = [Message("system", "x"), *chat_turns(30)]
    manager = small_manager(window=20_000)
    manager.preflight("s", messages)
    messages[3].meta["protected"] = True
    out = manager.manual_compact("s", messages)
    assert messages[3] in out
    items = [SYSTEM, *dicts(30)]
    assert items[5] in small_manager(window=20_000).manual_compact("s", items, protected=[5])


@pytest.mark.req("S-BUD-1")
def test_a_growing_session_compacts_at_a_steady_rate():
    """Compactions are at least ten calls apart, and each ends below the trigger."""
    recorder = Recorder()
    manager = small_manager(recorder, window=8000)
    history, calls = [SYSTEM], []
    for turn in range(220):
        history += [*dicts(1, start=turn), *tool_pair(turn, "line " * 40)]
        manager.preflight("s", history)
        calls.append(manager.plan("s").version if manager.plan("s") else 0)
    changes = [call for call, (before, after) in enumerate(pairwise(calls)) if before != after]
    gaps = [later - earlier for earlier, later in pairwise(changes)]
    assert len(gaps) >= 3
    assert min(gaps) >= 10
    trigger = recorder.last("compact.trigger_decision")["trigger_tokens"]
    assert all(event["properties"]["tokens_after"] < trigger for event in recorder.of("compact.completed"))


@pytest.mark.req("D-CON-1")
@pytest.mark.parametrize("renderer", ["layered", "inplace", "bridge"])
@pytest.mark.parametrize("adopts", [False, True])
def test_a_restarted_process_continues_with_the_stored_plan(tmp_path, renderer, adopts):
    """A second process recognizes the plan by the messages alone and renders the same bytes."""
    store = FileCompactionStore(tmp_path)
    options = {"policy": {"renderer": renderer}, "plan_store": store}
    history = [SYSTEM, *dicts(30)]
    first = small_manager(**options).preflight("s", history)
    new = {"role": "user", "content": "and now?"}
    restarted = small_manager(**options)
    shown = [*first, new] if adopts else [*history, new]
    assert json.dumps(restarted.preflight("s", shown)) == json.dumps([*first, new])
    assert restarted.plan("s").version == 1
    again = restarted.preflight("s", [*shown, *dicts(30, start=40)])
    assert restarted.plan("s").version == 2
    assert sum(str(item["content"]).startswith("<COMPACT-SUMMARY v2>") for item in again) == (renderer != "inplace")


@pytest.mark.req("D-CON-1")
def test_a_restarted_process_plans_with_the_growth_that_the_first_one_measured():
    """Its next compaction leaves the same space for later calls, so it renders the same bytes."""
    store = MemoryCompactionStore()
    manager = small_manager(plan_store=store, window=4000)
    prompt = [SYSTEM]
    for turn in range(0, 80, 2):
        prompt = manager.preflight("s", [*prompt, *dicts(2, start=turn)])
        if manager.plan("s"):
            break
    copy = MemoryCompactionStore()
    copy.commit_plan("s", manager.plan("s"), 0)
    restarted = small_manager(plan_store=copy, window=4000)
    assert restarted.preflight("s", prompt) == manager.preflight("s", prompt) == prompt
    longer = [*prompt, *dicts(40, start=100)]
    assert restarted.preflight("s", longer) == manager.preflight("s", longer)
    assert restarted.plan("s").step == 2


def test_a_new_process_without_a_store_gives_an_inherited_summary_its_length():
    """Its text is not summarized like that of other messages."""
    history = [SYSTEM]
    for turn in range(200):
        order = {"role": "assistant", "content": f"Order ORD-{turn:04} was paid by customer_{turn}@example.org."}
        history += [{"role": "user", "content": f"Who paid order ORD-{turn:04}?"}, order]
    options = {"window": 4000, "policy": {"keep_recent_turns": 1, "story_pct": 0.0}}
    prompt = small_manager(**options).preflight("s", history)
    question = {"role": "user", "content": "And these? " + "word " * 600}
    next_prompt = small_manager(**options).preflight("s", [*prompt, question])
    first, second = (json.dumps(messages).count("@example.org") for messages in (prompt, next_prompt))
    assert json.dumps(next_prompt).count("<COMPACT-SUMMARY") == 1
    assert first >= 190
    assert second >= 0.9 * first


def responses_turn(number):
    """Return a question, reasoning and a call without text, the call's output, and an answer."""
    return [
        {"type": "message", "role": "user", "content": f"question {number} " + "word " * 40},
        {"type": "reasoning", "id": f"rs_{number}", "summary": []},
        {"type": "function_call", "call_id": f"c{number}", "name": "read", "arguments": f'{{"n": {number}}}'},
        {"type": "function_call_output", "call_id": f"c{number}", "output": f"page {number} " + "line " * 40},
        {"type": "reasoning", "id": f"rs_{number}b", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"answer {number}"}]},
    ]


@pytest.mark.req("D-CON-1", "R-PAIR-1")
@pytest.mark.parametrize("renderer", ["layered", "inplace", "bridge"])
@pytest.mark.parametrize("adopts", [False, True])
def test_alternating_processes_distinguish_equal_messages(renderer, adopts):
    """Two processes serve a session in turn, and a third renders the same bytes from the stored plan at any time."""
    store = MemoryCompactionStore()
    options = {"policy": {"renderer": renderer}, "plan_store": store}
    managers = [small_manager(**options), small_manager(**options)]
    history = []
    for number in range(40):
        history += responses_turn(number)[:1]
        manager = managers[number // 5 % 2]
        sent = manager.preflight("s", history)
        assert_pairs_whole(sent)
        if manager.plan("s") == store.get_current_plan("s")[0]:
            assert json.dumps(small_manager(**options).preflight("s", history)) == json.dumps(sent)
        history = [*(sent if adopts else history), *responses_turn(number)[1:]]
    assert store.get_current_plan("s")[1] >= 4


@pytest.mark.req("D-CON-1", "D-PLAN-1")
def test_a_request_sent_before_a_plan_was_adopted_can_be_rendered_again():
    """Requests that were sent before the other process's plan are rendered from the old log."""
    store = MemoryCompactionStore()
    one, two = small_manager(plan_store=store), small_manager(plan_store=store)
    history = [SYSTEM, *dicts(8)]
    first = one.preflight("s", history)
    longer = [*history, *dicts(30, start=10)]
    two.preflight("s", longer)
    second = one.preflight("s", longer)
    assert one.plan("s") == two.plan("s")
    assert one.rerender("s", 1) == first
    assert one.rerender("s", 2) == second


@pytest.mark.req("D-CON-1")
def test_the_slower_of_two_processes_adopts_the_other_plan():
    """Two managers compact one session concurrently. One commit wins, and the other manager adopts its plan."""
    store = MemoryCompactionStore()
    history = [SYSTEM, *dicts(25)]
    one, two = small_manager(plan_store=store, window=20_000), small_manager(plan_store=store, window=20_000)
    one.preflight("s", history)
    two.preflight("s", history)
    first = one.manual_compact("s", history)
    second = two.manual_compact("s", history)
    assert json.dumps(first) == json.dumps(second)
    assert store.get_current_plan("s")[1] == 1


@pytest.mark.req("D-PLAN-1")
def test_a_plan_reports_its_effect_on_the_prompt_cache():
    """The plan has the cached tokens it invalidates and the number of calls until it pays off."""
    manager = small_manager()
    manager.preflight("s", [SYSTEM, *dicts(30)])
    cache = manager.plan("s").cache
    assert cache.invalidated_tokens > 0
    assert cache.saved_tokens_per_call > 0
    assert cache.break_even_calls >= 1
    assert CompactionPlan.from_json(manager.plan("s").to_json()).cache == cache


def test_a_message_inserted_at_the_front_is_one_new_message():
    """All other messages are recognized at their new positions."""
    manager = small_manager()
    history = [*dicts(30)]
    first = manager.preflight("s", history)
    out = manager.preflight("s", [SYSTEM, *first])
    assert out[0] == SYSTEM
    assert out[1:] == first
    assert manager.plan("s").version == 1


class Block(BaseModel):
    """A content block as a provider's SDK returns it."""

    type: str
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None


class Answer(BaseModel):
    """A message as a provider's SDK returns it."""

    role: str
    content: str | None = None
    tool_calls: list[dict[str, Any]] | None = None


def with_blocks(number: int) -> list[Any]:
    call = Block(type="tool_use", id=f"t{number}", name="run", input={"n": number})
    return [
        {"role": "user", "content": f"question {number} " + "word " * 40},
        {"role": "assistant", "content": [Block(type="text", text=f"looking at {number}"), call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{number}", "content": "ok " * 40}]},
    ]


def with_answers(number: int) -> list[Any]:
    call, output = tool_pair(number, "ok " * 40)
    return [{"role": "user", "content": f"question {number} " + "word " * 40}, Answer(**call), output]


def with_both_kinds(number: int) -> list[Any]:
    return [Message("user", f"question {number} " + "word " * 40), *tool_pair(number, "ok " * 40)]


@pytest.mark.req("R-PAIR-1")
@pytest.mark.parametrize("adopts", [False, True])
@pytest.mark.parametrize("turn", [with_blocks, with_answers, with_both_kinds])
def test_sdk_objects_are_read_like_the_equivalent_dicts(turn, adopts):
    """Hosts may append SDK objects and mix them with dicts. Compaction keeps every tool pair intact."""
    manager = CompactManager(CompactConfig("gpt-5", 2_000, policy=CompactPolicy(hard_cap_buffer=100)))
    history: list[Any] = []
    for number in range(30):
        history += turn(number)
        sent = manager.preflight("s", history)
        assert manager.remember("s").tokens <= 1_900
        assert sent[-2] is history[-2]
        assert_pairs_whole(sent)
        history = sent if adopts else history
    assert manager.plan("s").summarizations
    assert manager.preflight("s", history) == manager.preflight("s", history)


@pytest.mark.parametrize("messages", ["hello", b"hello", {"role": "user"}, None, 5, iter(())])
def test_what_is_not_a_list_is_rejected_as_a_message_list(messages):
    """A string would be read character by character, so an error says what is expected."""
    manager = CompactManager(CompactConfig("gpt-5", 2_000))
    with pytest.raises(CompactError, match=f"must be a list of messages, not a {type(messages).__name__}"):
        manager.preflight("s", messages)


def interruption(fmt):
    """Return a call, a user message that arrives while the tool runs, and the output, in a format."""
    if fmt == "anthropic":
        return (
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "run", "input": {}}]},
            {"role": "user", "content": [{"type": "text", "text": "and be quick"}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "done"}]},
        )
    call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    chat = (
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "user", "content": "and be quick"},
        {"role": "tool", "tool_call_id": "c", "content": "done"},
    )
    return chat if fmt == "chat" else tuple(convert_to_messages(chat))


@pytest.mark.req("R-PAIR-1")
@pytest.mark.parametrize("fmt", ["chat", "anthropic", "langchain"])
@pytest.mark.parametrize("is_stepwise", [True, False])
def test_a_user_message_between_a_call_and_its_output_comes_after_both(fmt, is_stepwise):
    """Providers reject an output that does not follow its call. The host's own list stays as it is."""
    recorder = Recorder()
    manager = small_manager(recorder)
    call, user, output = interruption(fmt)
    start = {"role": "user", "content": "go"}
    history = [*([start] if fmt != "langchain" else convert_to_messages([start])), call, user, output]
    if is_stepwise:
        manager.preflight("s", history[:2], format=fmt)
        manager.preflight("s", history[:3], format=fmt)
    assert manager.preflight("s", history, format=fmt) == [history[0], call, output, user]
    assert recorder.of("compact.warning")[-1]["properties"]["code"] == "normalized"
    assert history[1:] == [call, user, output]
    answer = {"role": "assistant", "content": "ok"}
    history += [answer] if fmt != "langchain" else convert_to_messages([answer])
    assert manager.preflight("s", history, format=fmt) == [history[0], call, output, user, history[-1]]


@pytest.mark.req("D-REND-1")
def test_spans_that_lose_their_own_summary_are_named():
    """The in-place renderer merges earlier spans if they take too much room, and says so."""
    recorder = Recorder()
    policy = CompactPolicy(renderer="inplace", hard_cap_buffer=100, keep_recent_turns=1, keep_tool_io_pairs=1)
    manager = CompactManager(CompactConfig("gpt-5", 3000, policy=policy, exporter=recorder))
    history = []
    for number in range(40):
        text = f"Decision {number}: service svc{number} uses port {4000 + number}. " + "please check it well " * 20
        history += [{"role": "user", "content": text}, {"role": "assistant", "content": "works as expected " * 20}]
        manager.preflight("s", history)
        entries = manager.plan("s").ledger if manager.plan("s") else ()
        if folded := [entry for entry in entries if entry.id.startswith("span-") and entry.fate == "summarized"]:
            break
    rule = "over budget: summaries of earlier spans merged into one"
    assert {entry.rule for entry in folded} == {rule}
    assert f"{rule}: 1" in recorder.of("compact.policy_applied")[-1]["properties"]["reductions"]
