"""Outputs that a compaction truncates: the room they leave to the summary, and what becomes of the rest."""

from __future__ import annotations

import json

import pytest
from builders import Recorder, SpySummarizer, small_manager, tool_pair
from compact import TiktokenEstimator

count = TiktokenEstimator().count_tokens
RENDERERS = ("layered", "inplace", "bridge")
BUDGET = 2000


def reservation(number):
    return {"reservation_id": f"RSV{number:03}", "cabin": "economy", "seat": f"{number}C", "price": 100 + number}


def offers(first, last):
    return json.dumps([reservation(number) for number in range(first, last)])


def session_with(output, *, answer="Which of these should I book?"):
    """Return a session with facts at its start, and a large output that the assistant has answered."""
    return [
        {"role": "user", "content": "My user id is omar_rossi_1241. Never use my credit card."},
        *tool_pair(1, json.dumps({"user_id": "omar_rossi_1241", "payment": "gift_card_8190333", "member": "gold"})),
        {"role": "assistant", "content": "Thank you. Where do you want to go? " + "Some advice. " * 600},
        {"role": "user", "content": "To Chicago (ORD) with one bag, please search."},
        *tool_pair(2, output),
        {"role": "assistant", "content": answer},
        {"role": "user", "content": "The second one, please."},
    ]


def compact_session(messages, recorder=None, **options):
    """Return the prompt, the text of its summary, and the text of its last output."""
    manager = small_manager(recorder, BUDGET, 0, **options)
    out = manager.preflight("s", messages)
    assert manager.remember("s").tokens <= BUDGET
    texts = [str(message["content"]) for message in out]
    outputs = [message["content"] for message in out if message["role"] == "tool"]
    return out, "".join(text for text in texts if text.startswith("<COMPACT-SUMMARY")), outputs[-1]


def summaries_in(prompt):
    tags = ("<COMPACT-SUMMARY", "[Context Summary - Turns ")
    return [message["content"] for message in prompt if str(message["content"]).startswith(tags)]


@pytest.mark.parametrize("records", [45, 300], ids=["the output fits the budget", "the output exceeds the budget"])
def test_an_answered_output_leaves_most_of_the_budget_to_the_summary(records):
    """The facts from the start of the session are kept, and the output is shown in whole records."""
    output = offers(100, 100 + records)
    assert (count(output) < BUDGET) == (records == 45)
    out, summary, shown = compact_session(session_with(output))
    assert out[-1] == session_with(output)[-1]
    prompt = "\n".join(str(message["content"]) for message in out)
    assert all(fact in prompt for fact in ("omar_rossi_1241", "gift_card_8190333", "Never use my credit card"))
    assert count(summary) > count(shown)
    assert 64 < count(shown) < BUDGET * 0.4
    assert " tokens truncated… (" in shown
    assert shown.count("reservation_id") == shown.count("price")


def test_a_newest_output_that_fits_is_never_truncated():
    """The agent has not read it yet, so the summary gets only the rest of the budget."""
    messages = session_with(offers(100, 140))[:-2]
    out, summary, _ = compact_session(messages)
    assert out[-1] == messages[-1]
    assert "omar_rossi_1241" in summary


def build_log(problem):
    """Return a long log with a problem in its middle."""
    steps = "\n".join(f"Step {number} of the build passed without any problem" for number in range(400))
    return f"{steps}\n{problem}\n{steps}"


LOG = build_log('ERROR src/booking/fare.py:318 fare rule "AX-7731" is missing')


@pytest.mark.parametrize(
    "messages",
    [session_with(LOG), session_with(LOG)[:-2], session_with(LOG)[4:], session_with(LOG)[4:-2]],
    ids=["answered", "newest", "answered and nothing else to summarize", "newest and nothing else to summarize"],
)
@pytest.mark.parametrize("renderer", RENDERERS)
def test_what_is_cut_from_an_output_is_in_the_summary(messages, renderer):
    """Otherwise it would be gone from the prompt."""
    manager = small_manager(None, BUDGET, 0, policy={"renderer": renderer})
    out = manager.preflight("s", messages)
    (summary,) = summaries_in(out)
    assert "src/booking/fare.py:318" in summary
    assert "AX-7731" in summary
    assert not any("AX-7731" in str(message["content"]) for message in out if message["role"] == "tool")
    assert manager.remember("s").tokens <= BUDGET
    assert manager.rerender("s", 1) == out


def test_what_is_cut_is_in_the_newest_span_if_no_other_message_is_summarized():
    """Its summary grows, also if it was written by an earlier compaction, and the ledger says so."""
    recorder = Recorder()
    manager = small_manager(recorder, BUDGET, 0, policy={"renderer": "inplace"})
    messages = [*session_with("ok")[:5], *tool_pair(5)]
    (before,) = summaries_in(manager.preflight("s", messages))
    out = manager.preflight("s", [*messages, *tool_pair(6, LOG)], protected=[5, 6])
    (after,) = summaries_in(out)
    assert "AX-7731" in after
    assert "gift_card_8190333" in before
    assert "gift_card_8190333" in after
    assert manager.remember("s").tokens <= BUDGET
    ledger = recorder.of("compact.pruned_messages")[-1]["payload"]["ledger"]
    (entry,) = (entry for entry in ledger if entry["id"].startswith("span-"))
    assert (entry["fate"], entry["rule"]) == ("summarized", "merged into the next summary")
    assert entry["into"] == entry["id"]


@pytest.mark.parametrize("records", [45, 140])
@pytest.mark.parametrize("renderer", RENDERERS)
def test_the_ledger_and_the_events_say_what_was_truncated(renderer, records):
    """The fate of the output is `truncated` if it stays, and its facts count as kept only where they still are."""
    recorder = Recorder()
    messages = session_with(offers(100, 100 + records))
    out = small_manager(recorder, BUDGET, 0, policy={"renderer": renderer}).preflight("s", messages)
    fates = {entry["id"]: entry["fate"] for entry in recorder.of("compact.pruned_messages")[-1]["payload"]["ledger"]}
    shown = [message["content"] for message in out if message["role"] == "tool"]
    truncated = {event["properties"]["message_id"] for event in recorder.of("compact.truncated")}
    assert truncated == {message_id for message_id, fate in fates.items() if fate == "truncated"}
    assert len(truncated) == sum("tokens truncated…" in text for text in shown)
    lost = {fact["text"] for fact in recorder.of("compact.retention")[-1]["payload"]["lost"]}
    assert not any(fact in json.dumps(out) for fact in lost if fact.startswith("RSV"))


@pytest.mark.parametrize("renderer", ["layered", "inplace"])
def test_an_output_that_is_truncated_repeatedly_is_one_event(renderer):
    """Its counts are those of the ledger and of the new prompt, so that a person can add them up."""
    recorder = Recorder()
    output = offers(100, 145)
    policy = {"renderer": renderer, "tool_output_max_tokens": 1000, "tool_output_share": 1.0}
    small_manager(recorder, BUDGET, 0, policy=policy).preflight("s", session_with(output))
    (event,) = recorder.of("compact.truncated")
    properties, compaction = event["properties"], recorder.of("compact.pruned_messages")[-1]
    before = {entry["id"]: entry["tokens"] for entry in compaction["payload"]["ledger"]}
    after = {entry["id"]: entry["tokens"] for entry in compaction["payload"]["after"]}
    assert properties["tokens_before"] == before[properties["message_id"]] > count(output)
    assert properties["tokens_after"] == after[properties["message_id"]]
    assert properties["tokens_freed"] == properties["tokens_before"] - properties["tokens_after"]


def test_a_protected_result_beside_a_truncated_output_never_reaches_the_summarizer():
    """The truncated output does, in full."""
    spy = SpySummarizer("a short summary")
    calls = [tool_pair(number)[0]["tool_calls"][0] for number in (7, 8)]
    calls[0] = {**calls[0], "function": {"name": "manage_todo_list", "arguments": "{}"}}
    call = {"role": "assistant", "content": None, "tool_calls": calls}
    messages = [*session_with("ok"), call, tool_pair(7, "the todo list")[1], tool_pair(8, LOG)[1]]
    out = small_manager(None, BUDGET, 0, summarizer=spy).preflight("s", messages)
    read = "\n".join(message.text for message in spy.seen[-1])
    assert out[-2]["content"] == "the todo list"
    assert "the todo list" not in read
    assert "tokens truncated" in out[-1]["content"]
    assert "AX-7731" in read


@pytest.mark.parametrize("renderer", RENDERERS)
def test_what_is_cut_when_an_output_arrives_is_in_the_next_summary(renderer):
    """The request is below the trigger when the output arrives, so the first compaction comes later."""
    policy = {"renderer": renderer, "tool_output_share": 0, "tool_output_max_tokens": 200}
    manager = small_manager(None, BUDGET, 0, policy=policy)
    messages = [{"role": "user", "content": "Build it."}, *tool_pair(1, LOG)]
    assert not summaries_in(manager.preflight("s", messages))
    for number in (2, 3):
        messages += [{"role": "assistant", "content": "word " * 900}, {"role": "user", "content": "Go on."}]
        messages += tool_pair(number, "row " * 900)
    messages += [{"role": "assistant", "content": "Done."}, {"role": "user", "content": "Why did the build fail?"}]
    assert "AX-7731" in "".join(summaries_in(manager.preflight("s", messages)))
    assert manager.remember("s").tokens <= BUDGET


def test_an_output_that_leaves_the_window_later_adds_nothing_twice():
    """Its cut part is already in the summary when the whole of it is summarized."""
    manager = small_manager(None, BUDGET, 0)
    messages = session_with(LOG)
    manager.preflight("s", messages)
    messages += [{"role": "assistant", "content": "word " * 300}, {"role": "user", "content": "go on"}]
    messages += [
        *tool_pair(3, "row " * 900),
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "ok"},
    ]
    out = manager.preflight("s", messages)
    assert json.dumps(out).count("AX-7731") == 1


@pytest.mark.parametrize("floor", ["turn", "newest"])
@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize(
    "output",
    [
        "word " * 8_000,
        json.dumps({"text": "word " * 8_000}),
        offers(100, 500)[:-9],
        "".join(chr(number * 7919 % 256) for number in range(8_000)),
        "\n" * 100_000,
    ],
    ids=["one line", "one string", "cut JSON", "control characters", "empty lines"],
)
def test_any_output_is_truncated_to_the_budget(output, renderer, floor):
    """Answered or not, no output makes a compaction fail, down to a budget that only the smallest part of it fits."""
    for answer_words in (0, 600, 1200):
        messages = session_with(output, answer="word " * answer_words)
        for history in (messages, messages[:-2]):
            manager = small_manager(None, BUDGET, 0, policy={"renderer": renderer, "floor": floor})
            manager.preflight("s", history)
            assert manager.remember("s").tokens <= BUDGET
