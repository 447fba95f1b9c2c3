"""Invariants of every prompt: random sessions in every format, with every renderer, and recorded sessions."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest
from builders import Recorder, chat_turns, small_manager, tool_pair
from compact import CompactConfig, CompactManager, CompactPolicy, InsufficientBudget, Message, TiktokenEstimator
from compact.engine.session.request import to_plain
from compact.messages.codecs import get_codec
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import convert_to_messages
from strategies import FORMATS, steps, write

RENDERERS = ("layered", "inplace", "bridge")
RECORDED = Path(__file__).parents[2] / "fixtures" / "quality" / "sessions.jsonl.xz"
ESTIMATOR = TiktokenEstimator()
WINDOW, BUFFER = 1600, 100
quick = settings(max_examples=30)
formats = st.sampled_from((*FORMATS, "native", "langchain"))
policies = st.builds(
    CompactPolicy,
    hard_cap_buffer=st.just(BUFFER),
    keep_recent_turns=st.integers(1, 4),
    keep_tool_io_pairs=st.integers(1, 3),
    renderer=st.sampled_from(RENDERERS),
    pruning=st.sampled_from(["recency", "recency", "fifo", "stage_aware"]),
    floor=st.sampled_from(["turn", "newest"]),
    tool_output_max_tokens=st.sampled_from([100, 5000]),
)


def items_in(conversation, fmt):
    """Return the conversation in a format, with `native` for Message objects and `langchain` for those of LangChain."""
    if fmt in FORMATS:
        return write(conversation, fmt)
    if fmt == "langchain":
        return [langchain_message(item) for item in write(conversation, "chat")]
    decode = get_codec("chat").decode
    messages = [decode(item, index) for index, item in enumerate(write(conversation, "chat"))]
    return [Message(m.role, m.text, m.meta, tool_calls=m.tool_calls, tool_call_id=m.tool_call_id) for m in messages]


def langchain_message(item):
    (message,) = convert_to_messages([{key: value for key, value in item.items() if key != "meta"}])
    message.additional_kwargs.update(item.get("meta", {}))
    return message


def prefixes(items, conversation, fmt):
    """Yield growing parts of a session, each ending at the end of a step."""
    for size in range(len(conversation) // 2, len(conversation) + 1, max(1, len(conversation) // 6)):
        yield items[: len(items_in(conversation[:size], fmt))]


def decode_items(items, fmt):
    codec = get_codec(fmt)
    return [codec.decode(to_plain(item), index) for index, item in enumerate(items)]


def assert_ends_like(items, out, fmt):
    """The newest message is last and unchanged or visibly truncated. The assistant is last only if it was before."""
    before, after = (
        decode_items(items, fmt),
        [message for message in decode_items(out, fmt) if message.text != "aborted"],
    )
    newest, last = before[-1], after[-1]
    assert (last.role, last.tool_calls, last.answers) == (newest.role, newest.tool_calls, newest.answers)
    assert last.text == newest.text or "truncated…" in last.text


def assert_honest(recorder, out, fmt):
    """No compaction enlarged the prompt, and a prompt over the window is an event."""
    for event in recorder.of("compact.pruned_messages"):
        assert event["properties"]["tokens_after"] < event["properties"]["tokens_before"]
    if ESTIMATOR.estimate(decode_items(out, fmt), "gpt-5") > WINDOW:
        assert recorder.of("compact.over_budget")


@pytest.mark.req("A-END-1", "A-END-2")
@quick
@given(steps(max_size=20), policies, formats, st.booleans())
def test_every_prompt_of_a_growing_session_is_right(conversation, policy, fmt, is_manual):
    """Holds for each call of a session, whether it compacts, fits already or is compacted manually."""
    items = items_in(conversation, fmt)
    recorder = Recorder()
    manager = CompactManager(
        CompactConfig("gpt-5", WINDOW, policy=policy, token_estimator=ESTIMATOR, exporter=recorder)
    )
    for shown in prefixes(items, conversation, fmt):
        compact = manager.manual_compact if is_manual else manager.preflight
        try:
            out = compact("s", shown, format=fmt)
        except InsufficientBudget:
            continue
        assert_ends_like(shown, out, fmt)
        assert_honest(recorder, out, fmt)


def recorded_sessions():
    with lzma.open(RECORDED, "rt") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.req("A-END-1", "A-END-2")
@pytest.mark.parametrize("renderer", RENDERERS)
def test_every_prompt_of_a_recorded_session_is_right(renderer):
    """Holds for recorded sessions of coding and support agents."""
    for session in recorded_sessions()[:3]:
        items = session["messages"]
        recorder = Recorder()
        policy = CompactPolicy(renderer=renderer, floor="newest")
        manager = CompactManager(CompactConfig("gpt-5", 12_000, policy=policy, exporter=recorder))
        for size in range(len(items) // 4, len(items) + 1, max(1, len(items) // 4)):
            try:
                out = manager.preflight("s", items[:size])
            except InsufficientBudget:
                continue
            assert_ends_like(items[:size], out, "chat")
        for event in recorder.of("compact.pruned_messages"):
            assert event["properties"]["tokens_after"] < event["properties"]["tokens_before"]


def todo(number, *siblings):
    """A call of manage_todo_list with its result, and calls of `read` in the same response."""
    names = ["manage_todo_list", *["read"] * len(siblings)]
    calls = [
        {"id": f"t{number}-{n}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for n, name in enumerate(names)
    ]
    texts = [f"todo list {number}", *siblings]
    outputs = [{"role": "tool", "tool_call_id": f"t{number}-{n}", "content": text} for n, text in enumerate(texts)]
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *outputs]


def turns(number):
    return [message.to_dict() for message in chat_turns(number)]


def texts(items):
    """Return the role and text of each item. The caller's `meta` is not part of what is sent."""
    return [(item["role"], item["content"]) for item in items]


@pytest.mark.req("A-END-1")
@pytest.mark.parametrize("renderer", RENDERERS)
def test_a_protected_newest_message_stays_last(renderer):
    """Neither a todo list nor a protected question moves in front of older answers."""
    question = {"role": "user", "content": "And now?", "meta": {"protected": True}}
    for newest in (todo(1), [question]):
        manager = small_manager(policy={"renderer": renderer})
        items = [*turns(30), *newest]
        assert texts(manager.preflight("s", items)[-len(newest) :]) == texts(newest)


@pytest.mark.req("A-END-1", "S-LAY-1")
def test_pinned_messages_inside_the_recent_window_stay_in_place():
    """An older one is in the pinned layer before the summary."""
    old = {"role": "user", "content": "Never delete a table.", "meta": {"protected": True}}
    new = {"role": "developer", "content": "Answer briefly."}
    recent = turns(2)
    items = [{"role": "system", "content": "Be careful."}, *turns(10), old, *turns(20), *recent[:2], new, *recent[2:]]
    out = small_manager(policy={"keep_recent_turns": 2}).preflight("s", items)
    assert texts(out[:2]) == texts([items[0], old])
    assert out[2]["content"].startswith("<COMPACT-SUMMARY v1>")
    assert out[-5:] == items[-5:]


@pytest.mark.req("A-END-1", "R-PROT-1")
def test_only_the_newest_result_of_a_state_tool_is_pinned():
    """Forty todo lists do not fill the window. A protected tool that is not a state keeps all of its results."""
    items = [{"role": "user", "content": "go"}]
    for number in range(40):
        items += [*todo(number, "line " * 60), *turns(1)]
    out = small_manager().preflight("s", items)
    shown = [item["content"] for item in out if item["role"] == "tool"]
    assert [text for text in shown if text.startswith("todo list")][-1] == "todo list 39"
    assert sum(text.startswith("todo list") for text in shown) <= 5
    kept = small_manager(policy={"state_tools": ()}, window=8000).preflight("s", items)
    assert sum(str(item["content"]).startswith("todo list") for item in kept) == 40


@pytest.mark.req("A-END-1", "R-PAIR-1")
def test_siblings_of_a_protected_result_are_cleared_once_they_are_old():
    """The todo list stays pinned and whole, and the result of the parallel call becomes a placeholder."""
    recorder = Recorder()
    items = [{"role": "user", "content": "go"}, *todo(1, "secret-free line " * 120), *turns(30)]
    out = small_manager(recorder).preflight("s", items)
    assert out[0]["tool_calls"] == items[1]["tool_calls"]
    assert [item["content"] for item in out[1:3]] == ["todo list 1", "[read: success]"]
    ledger = recorder.of("compact.pruned_messages")[-1]["payload"]["ledger"]
    assert [(entry["fate"], entry["rule"]) for entry in ledger[1:4]] == [
        ("pinned", "protected tool manage_todo_list"),
        ("pinned", "protected tool manage_todo_list"),
        ("cleared", "parallel call of a protected tool"),
    ]


@pytest.mark.req("R-PROT-1")
@pytest.mark.parametrize("renderer", RENDERERS)
def test_siblings_are_old_also_in_a_long_turn(renderer):
    """One user message and many tool calls are one recent turn. The recent tool pairs decide what is old."""
    recorder = Recorder()
    items = [{"role": "user", "content": "go"}, *todo(1, "line of words here " * 900)]
    manager = small_manager(recorder, window=12_000, policy={"renderer": renderer})
    for number in range(14):
        items += tool_pair(number, f"file {number} " + "delta words " * 250)
        prompt = manager.preflight("s", items)
    assert "todo list 1" in json.dumps(prompt)
    assert "line of words here line" not in json.dumps(prompt)
    assert manager.remember("s").tokens < 6_000


@pytest.mark.req("A-END-1", "R-PROT-1")
@pytest.mark.parametrize("fmt", ["chat", "anthropic"])
@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("later_turns", [0, 1])
def test_a_large_output_beside_a_recent_todo_list_is_truncated(later_turns, renderer, fmt):
    """The todo list stays whole. Without truncation, both would be pinned and exceed the budget."""
    recorder = Recorder()
    newest = todo(1, "word " * 4500, "short")
    items = [{"role": "user", "content": "go"}, *(newest if fmt == "chat" else in_one_message(newest))]
    items += turns(later_turns)
    out = small_manager(recorder, window=4000, policy={"renderer": renderer}).preflight("s", items)
    assert "todo list 1" in json.dumps(out)
    assert "short" in json.dumps(out)
    (event,) = recorder.of("compact.truncated")
    assert event["properties"]["tokens_before"] > 4500 > 3500 > event["properties"]["tokens_after"] > 1000
    assert not recorder.of("compact.over_budget")


@pytest.mark.req("A-END-1")
def test_small_outputs_leave_their_share_to_a_large_one():
    """Ten short results of parallel calls do not take the space of one that has to be truncated."""
    recorder = Recorder()
    items = [*turns(1), {"role": "user", "content": "go"}, *parallel_reads("word " * 3000, *["ok"] * 10)]
    small_manager(recorder, window=2500, buffer=500).preflight("s", items)
    (event,) = recorder.of("compact.truncated")
    assert event["properties"]["tokens_after"] > 800


@pytest.mark.req("A-END-1")
def test_a_newest_output_that_leaves_no_room_for_a_summary_is_truncated():
    """The output alone fits the budget, but not together with the shortest summary."""
    for words in range(3320, 3400, 4):
        items = [
            message
            for number in range(10)
            for message in (
                {"role": "user", "content": f"question {number} about src/m{number}.py " + "word " * 60},
                {"role": "assistant", "content": f"answer {number} " + "text " * 60},
            )
        ]
        items += [{"role": "user", "content": "go"}, *tool_pair(1, "row " * words)]
        manager = small_manager(window=4000, buffer=500, policy={"renderer": "bridge"})
        assert manager.preflight("s", items)[-1]["role"] == "tool"
        assert manager.remember("s").tokens <= 3500


def in_one_message(messages):
    """Return a call with its results in the form of Anthropic: all results in one message."""
    call, *results = messages
    uses = [
        {"type": "tool_use", "id": item["id"], "name": item["function"]["name"], "input": {}}
        for item in call["tool_calls"]
    ]
    blocks = [
        {"type": "tool_result", "tool_use_id": item["tool_call_id"], "content": item["content"]} for item in results
    ]
    return [{"role": "assistant", "content": uses}, {"role": "user", "content": blocks}]


def parallel_reads(*texts):
    """Return calls of `read` in one response, with their results."""
    call, _, *results = todo(1, *texts)
    return [{**call, "tool_calls": call["tool_calls"][1:]}, *results]


@pytest.mark.req("A-END-1")
def test_bridge_ends_with_the_question():
    """The handover summary comes before the message that the model has to answer."""
    items = [*turns(30), {"role": "user", "content": "What is next?"}]
    out = small_manager(policy={"renderer": "bridge"}).preflight("s", items)
    assert out[-1] == items[-1]
    assert out[-2]["content"].startswith("<COMPACT-SUMMARY")


def test_bridge_does_not_compact_at_every_call():
    """A session of 150 calls compacts about as often as with the other layouts."""
    counts = {}
    for renderer in RENDERERS:
        recorder = Recorder()
        manager = small_manager(recorder, window=8000, buffer=500, policy={"renderer": renderer, "floor": "newest"})
        history = [{"role": "system", "content": "Be careful."}]
        for number in range(150):
            history += [
                {"role": "user", "content": f"step {number} " + "word " * 40},
                *tool_pair(number, f"row {number} " * 60),
                {"role": "assistant", "content": f"done {number} " + "word " * 30},
            ]
            manager.preflight("s", history)
        counts[renderer] = len(recorder.of("compact.pruned_messages"))
    assert counts["bridge"] <= 2 * counts["layered"], counts
