"""The bridge layout keeps user messages up to a limit and truncates the one that exceeds it (document 001)."""

from __future__ import annotations

import re

import pytest
from builders import Recorder, small_manager, tool_pair
from compact import TiktokenEstimator
from compact.adapters.artifact_stores import MemoryArtifactStore
from compact.adapters.plan_stores import MemoryCompactionStore
from compact.planning.plan import CompactionPlan

count = TiktokenEstimator().count_tokens
MARKER = re.compile(r"…(\d+) tokens truncated…")
RULES = [f"Rule {number}: the handler of endpoint {number} returns code {200 + number}." for number in range(150)]
TASK = "\n".join(["Port the billing service to Go.", *RULES, "Begin with the tests of the invoices."])


def session_with(task=TASK, *, steps=12):
    """Return a session whose task is its first and longest user message."""
    messages = [{"role": "user", "content": task}]
    for number in range(steps):
        messages += [
            *tool_pair(number, f"row {number} of the table " * 60),
            {"role": "assistant", "content": f"Step {number} is done. " + "Some words. " * 40},
            {"role": "user", "content": f"Go on with part {number}."},
        ]
    return messages


def bridge(recorder=None, window=4_000, *, user_message_tokens=20_000, **options):
    policy = {"renderer": "bridge", "user_message_tokens": user_message_tokens}
    return small_manager(recorder, window, 100, policy=policy, **options)


def users(prompt):
    return [message["content"] for message in prompt if message["role"] == "user"]


@pytest.mark.req("R-USER-1", "C-SUM-2")
@pytest.mark.parametrize("window", [2_000, 4_000, 5_000])
def test_a_task_that_exceeds_the_limit_is_truncated(window):
    """Its start and its end stay, with the number of missing tokens between them, and the summary has the rest."""
    manager = bridge(window=window)
    prompt = manager.preflight("s", session_with())
    task, *others = users(prompt)
    assert task.startswith("Port the billing service to Go.")
    assert task.endswith("Begin with the tests of the invoices.")
    (missing,) = MARKER.findall(task)
    shown = count(MARKER.sub("", task))
    assert abs(count(TASK) - shown - int(missing)) <= 16
    assert others == users(session_with())[1:]
    assert manager.remember("s").tokens <= window - 100


@pytest.mark.req("R-USER-1")
@pytest.mark.parametrize("limit", range(250, 1_700, 200))
def test_kept_user_messages_are_within_the_limit(limit):
    prompt = bridge(window=20_000, user_message_tokens=limit).manual_compact("s", session_with())
    assert any(MARKER.search(text) for text in users(prompt))
    assert limit - 120 <= sum(map(count, users(prompt))) <= limit


def test_a_task_within_the_limit_is_whole():
    assert users(bridge(window=20_000).manual_compact("s", session_with()))[0] == TASK


def test_a_rest_of_the_limit_that_shows_nothing_is_not_used():
    """The text would be little more than its marker, so the summary has it all."""
    shown = users(bridge(window=20_000, user_message_tokens=140).manual_compact("s", session_with()))
    assert shown == users(session_with())[1:]


def test_only_an_earlier_task_is_truncated():
    """The newest message is what the model has to answer. It stays whole, whatever its length."""
    history = session_with("Read the table.")
    question = {"role": "user", "content": TASK}
    prompt = bridge(window=20_000, user_message_tokens=400).manual_compact("s", [*history, question])
    assert prompt[-1] == question
    assert users(prompt)[:-1] == []
    prompt = bridge(window=20_000, user_message_tokens=400).manual_compact("s", [*history, question, *tool_pair(50)])
    assert [bool(MARKER.search(text)) for text in users(prompt)] == [True]


def test_plan_ledger_and_events_say_what_was_truncated():
    recorder = Recorder()
    manager = bridge(recorder)
    prompt = manager.preflight("s", session_with())
    plan = manager.plan("s")
    (entry,) = (entry for entry in plan.ledger if entry.fate == "truncated")
    limit = plan.user_limits[entry.id]
    assert entry.id == plan.ledger[0].id
    assert list(plan.user_limits) == [entry.id]
    assert entry.rule.endswith(", middle truncated")
    assert count(users(prompt)[0]) <= limit
    (event,) = recorder.of("compact.truncated")
    assert event["properties"]["message_id"] == entry.id
    assert event["properties"]["tokens_before"] == entry.tokens
    assert event["properties"]["reason"] == f"user messages are limited to {limit:,} tokens"
    pruned = recorder.of("compact.pruned_messages")[-1]
    assert pruned["properties"]["fates"]["truncated"] == 1
    after = {item["id"]: item["tokens"] for item in pruned["payload"]["after"]}
    assert after[entry.id] == event["properties"]["tokens_after"] <= limit
    assert CompactionPlan.from_json(plan.to_json()) == plan


def test_the_rest_of_the_task_is_in_the_summary():
    """A fact from its middle is shown by the summary, and recall finds it."""
    lines = TASK.split("\n")
    lines[75] = "Never change src/billing/legacy.py, because ticket OPS-4711 is open."
    manager = bridge()
    prompt = manager.preflight("s", session_with("\n".join(lines)))
    assert "OPS-4711" not in users(prompt)[0]
    assert any("OPS-4711" in message["content"] for message in prompt if message["role"] == "assistant")
    assert any("OPS-4711" in passage.text for passage in manager.recall("s", "ticket of legacy.py"))


def test_the_full_task_is_in_the_artifact_store():
    store = MemoryArtifactStore()
    task = users(bridge(artifact_store=store).preflight("s", session_with()))[0]
    (artifact_id,) = re.findall(r'\[Full message: read_artifact\("(.+)"\)\]$', task)
    assert store.retrieve(artifact_id) == TASK


def test_the_prompt_stays_the_same_until_the_next_compaction():
    """Afterwards, the marker has all tokens that are missing from the whole task."""
    manager, history = bridge(), session_with()
    first = manager.preflight("s", history)
    assert manager.preflight("s", [*history, *tool_pair(90)])[: len(first)] == first
    assert manager.rerender("s", 1) == first
    history += session_with("And now the other half.", steps=30)
    shown = users(manager.preflight("s", history))
    markers = [MARKER.findall(text) for text in shown if text.startswith("Port the billing")]
    assert len(shown) > 12
    assert all(int(missing) > int(MARKER.findall(users(first)[0])[0]) for (missing,) in markers)


@pytest.mark.parametrize("tenant", ["acme", "globex"])
def test_another_process_shows_the_same_prompt(tenant):
    """It truncates the task to the limit in the plan. Each tenant has a task, and sees no other one."""
    store = MemoryCompactionStore()
    histories = {name: session_with(TASK.replace("billing", f"SECRET-{name}")) for name in ("acme", "globex")}
    shown = {name: bridge(plan_store=store).preflight(name, history) for name, history in histories.items()}
    other = bridge(plan_store=store).preflight(tenant, histories[tenant])
    assert other == shown[tenant]
    assert f"SECRET-{tenant}" in str(other)
    assert all(f"SECRET-{name}" not in str(other) for name in histories if name != tenant)


PICTURE = {"type": "image_url", "image_url": {"url": "https://example.invalid/plan.png", "detail": "low"}}


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ([{"type": "text", "text": "See:"}, PICTURE, {"type": "text", "text": TASK}], ["See:", PICTURE]),
        ([PICTURE, {"type": "text", "text": TASK}], [PICTURE]),
    ],
)
def test_other_parts_of_a_truncated_message_stay(content, shown):
    task = users(bridge().preflight("s", session_with(content)))[0]
    assert [part if part == PICTURE else part["text"] for part in task[:-1]] == shown
    assert MARKER.search(task[-1]["text"])


def test_a_message_without_a_long_text_is_summarized():
    """Its pictures alone exceed the limit, so there is nothing to truncate."""
    large = {"type": "image_url", "image_url": {"url": "https://example.invalid/plan.png", "detail": "high"}}
    content = [*[large] * 20, {"type": "text", "text": "Build what these show."}]
    manager = bridge(window=4_000, user_message_tokens=1_000)
    shown = users(manager.preflight("s", session_with(content)))
    assert shown == users(session_with())[1:]
    assert manager.plan("s").user_limits == {}


def test_a_process_that_gets_the_truncated_task_leaves_it_as_it_is():
    """The host passes the returned prompt back, and the next process knows from the plan what was truncated."""
    plans, artifacts = MemoryCompactionStore(), MemoryArtifactStore()
    first = bridge(plan_store=plans, artifact_store=artifacts).preflight("s", session_with())
    recorder = Recorder()
    other = bridge(recorder, plan_store=plans, artifact_store=artifacts)
    assert other.preflight("s", [*first, *tool_pair(90)])[: len(first)] == first
    assert recorder.of("compact.truncated") == []


def blocks(kind):
    return lambda text: [{"type": kind, "text": text}]


@pytest.mark.parametrize(
    ("write", "read"),
    [
        (lambda text: text, lambda content: content),
        (blocks("text"), lambda content: content[0]["text"]),
        (blocks("input_text"), lambda content: content[0]["text"]),
    ],
    ids=["text", "blocks of chat and Anthropic", "parts of Responses"],
)
def test_each_format_is_truncated(write, read):
    history = [{"role": "user", "content": write(TASK)}]
    for number in range(30):
        answer = {"role": "assistant", "content": f"Step {number} is done. " + "Some words. " * 40}
        history += [answer, {"role": "user", "content": write(f"Go on with part {number}.")}]
    prompt = bridge().preflight("s", history)
    task = prompt[0]
    assert MARKER.search(read(task["content"]))
    assert type(task["content"]) is type(history[0]["content"])
    assert task["role"] == "user"
    assert history[0]["content"] == write(TASK)


def test_messages_of_langchain_and_of_this_library_are_truncated():
    from compact import Message
    from langchain_core.messages import AIMessage, HumanMessage

    answers = [f"Step {number} is done. " + "Some words. " * 40 for number in range(30)]
    for user, assistant in ((HumanMessage, AIMessage), (lambda text: Message("user", text), None)):
        write = assistant or (lambda text: Message("assistant", text))
        history = [user(TASK)]
        for answer in answers:
            history += [write(answer), user("Go on.")]
        task = bridge().preflight("s", history)[0]
        assert type(task) is type(history[0])
        assert MARKER.search(task.content)


def test_a_protected_task_is_whole():
    manager = bridge()
    assert users(manager.preflight("s", session_with(), protected=[0]))[0] == TASK
    assert manager.plan("s").user_limits == {}


@pytest.mark.parametrize("floor", ["turn", "newest"])
def test_a_task_that_does_not_fit_beside_the_newest_output_is_truncated(floor):
    """It is the only user message. Without it, the agent would not know what to do."""
    recorder = Recorder()
    policy = {"renderer": "bridge", "floor": floor}
    history = [{"role": "user", "content": TASK}, *tool_pair(1, "row " * 400), *tool_pair(2, "row " * 400)]
    manager = small_manager(recorder, 2_400, 100, policy=policy)
    prompt = manager.preflight("s", history)
    assert MARKER.search(users(prompt)[0])
    assert prompt[-1] == history[-1]
    assert manager.remember("s").tokens <= 2_300
    reductions = recorder.of("compact.policy_applied")[-1]["properties"]["reductions"]
    assert any("the last user message is limited to" in reason for reason in reductions)
