"""Every conversation is itself: a history sees a plan only if it continues the log that the plan is about."""

from __future__ import annotations

import asyncio
import copy
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from builders import Recorder, chat_turns, small_manager, tool_pair
from compact import CompactError, ConfigError, Message
from compact.adapters.plan_stores import FileCompactionStore, MemoryCompactionStore
from compact.config import SessionLimits
from compact.engine.session.continuation import find_overlap, identity_key
from hypothesis import given, settings
from hypothesis import strategies as st

SYSTEM = {"role": "system", "content": "You are careful."}
GREETING = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "Hello! How can I help?"}]
QUESTION = {"role": "user", "content": "What did we decide?"}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def dicts(turns: int, start: int = 0) -> list[dict[str, Any]]:
    return [message.to_dict() for message in chat_turns(turns, start=start)]


def secret_history(secret: str, turns: int = 30) -> list[dict[str, Any]]:
    return [SYSTEM, *GREETING, user(f"We decided to use the code {secret}."), *dicts(turns)]


def compacted_manager(secret: str = "ALICE-4711", recorder: Any = None, **options: Any):
    """Return a manager whose session `s` has a summary of a history with a secret, and that history."""
    policy = {"story_pct": 0.0, **options.pop("policy", {})}
    manager = small_manager(recorder, policy=policy, **options)
    history = secret_history(secret)
    assert len(manager.preflight("s", history)) < len(history)
    return manager, history


def edit_message(history: list[dict[str, Any]], index: int) -> list[dict[str, Any]]:
    changed = copy.deepcopy(history)
    changed[index]["content"] = "replaced by the host"
    return changed


@pytest.mark.req("A-ID-2")
@pytest.mark.parametrize(
    "newcomer",
    [
        [SYSTEM, *GREETING, QUESTION],
        [SYSTEM, *GREETING],
        [SYSTEM, QUESTION],
        [SYSTEM, *dicts(1, start=29), QUESTION],
        [SYSTEM, *GREETING, *dicts(1, start=29), QUESTION],
        [SYSTEM, *dicts(8, start=10), QUESTION],
        [SYSTEM],
    ],
    ids=["greeting and question", "greeting", "question", "last two", "greeting and last two", "middle", "no words"],
)
@pytest.mark.parametrize("renderer", ["layered", "inplace"])
def test_a_newcomer_under_a_used_id_sees_nothing_of_the_log(renderer, newcomer):
    """A few equal messages, also the last two, do not make a history the same."""
    recorder = Recorder()
    manager, _ = compacted_manager(recorder=recorder, policy={"renderer": renderer})
    assert manager.preflight("s", newcomer) == newcomer
    assert manager.plan("s") is None
    assert recorder.last("compact.warning")["code"] == "session_reset"


@pytest.mark.req("A-ID-2")
@pytest.mark.parametrize("index", [1, 3, 20, 40, 62, 63])
@pytest.mark.parametrize("adopts", [False, True])
def test_one_contradicting_message_makes_a_new_branch(index, adopts):
    """An edited history is compacted on its own, and its summary has the edited words only."""
    manager, history = compacted_manager()
    changed = edit_message(history, index)
    shown = [*changed, QUESTION]
    if adopts:
        manager.preflight("s", manager.preflight("s", history))
    first = manager.plan("s")
    out = manager.preflight("s", shown)
    plan = manager.plan("s")
    assert plan.version > first.version
    assert out[-1] == QUESTION
    assert ("ALICE-4711" in json.dumps(out)) == (index != 3)


@pytest.mark.parametrize("size", [3, 4, 10, 40])
@pytest.mark.parametrize("renderer", ["layered", "inplace", "bridge"])
def test_a_host_that_trims_its_history_keeps_the_summary(renderer, size):
    """A contiguous tail of the log continues it."""
    manager, history = compacted_manager(policy={"renderer": renderer})
    version = manager.plan("s").version
    out = manager.preflight("s", [SYSTEM, *history[-size:], QUESTION])
    assert "ALICE-4711" in json.dumps(out)
    assert manager.plan("s").version == version
    again = manager.preflight("s", [SYSTEM, *history[-size:], QUESTION, *dicts(1, start=70)])
    assert json.dumps(again[: len(out)]) == json.dumps(out)


def test_a_host_may_show_the_whole_history_again_after_a_trimmed_one():
    """The log keeps what the host trimmed, so the whole history continues it too."""
    manager, history = compacted_manager()
    full = manager.preflight("s", [*history, QUESTION])
    manager.preflight("s", [SYSTEM, *history[-9:], QUESTION])
    assert manager.preflight("s", [*history, QUESTION]) == full
    assert manager.plan("s").version == 1


@pytest.mark.parametrize("gap", [30, 45, 55])
def test_a_history_with_a_gap_is_a_new_branch(gap):
    """A tail must be contiguous."""
    manager, history = compacted_manager()
    shown = [SYSTEM, *history[gap - 9 : gap], *history[gap + 1 :], QUESTION]
    out = manager.preflight("s", shown)
    assert "ALICE-4711" not in json.dumps(out)


@pytest.mark.parametrize("renderer", ["layered", "inplace", "bridge"])
def test_interleaved_branches_keep_their_own_plans(renderer):
    """Two histories under one id are two branches. Neither sees the other, and neither is compacted again and again."""
    recorder = Recorder()
    manager = small_manager(recorder, policy={"renderer": renderer})
    histories = {name: [SYSTEM, *GREETING, user(f"my secret is {name}-4711")] for name in ("ALICE", "BOB")}
    sent: dict[str, str] = {"ALICE": "", "BOB": ""}
    for turn in range(40):
        for name, history in histories.items():
            history += [*dicts(1, start=turn), *tool_pair(turn, f"{name} result {turn}")]
            sent[name] = json.dumps(manager.preflight("s", history))
    assert "BOB" not in sent["ALICE"]
    assert "ALICE" not in sent["BOB"]
    assert "ALICE-4711" in sent["ALICE"]
    assert "BOB-4711" in sent["BOB"]
    assert len(recorder.of("compact.completed")) < 16
    resets = [event for event in recorder.of("compact.warning") if event["properties"]["code"] == "session_reset"]
    assert len(resets) == 1


def test_a_list_that_the_host_extends_in_place_is_compared_again():
    """The same list object is another history after each call."""
    manager = small_manager()
    alice, bob = [user("I am ALICE.")], [user("I am BOB.")]
    for turn in range(30):
        for name, history in (("ALICE", alice), ("BOB", bob)):
            history.extend(dicts(1, start=turn))
            out = manager.preflight("s", history)
            assert out[-1] == history[-1]
            assert name in json.dumps(out)
    alice[1]["content"] = "changed in place"
    assert "I am BOB." not in json.dumps(manager.preflight("s", alice))


def test_equal_histories_stay_together_only_while_they_are_equal():
    """Two users with one id and the same words share a branch until one of them says something else."""
    manager, history = compacted_manager()
    alice = [*history, user("Alice's card is 4111")]
    manager.preflight("s", alice)
    bob = [*history, user("Bob's card is 5555")]
    assert "Alice" not in json.dumps(manager.preflight("s", bob))
    assert "Bob" not in json.dumps(manager.preflight("s", [*alice, *dicts(1, start=90)]))


@pytest.mark.req("A-ID-2")
@pytest.mark.parametrize("store_kind", ["memory", "file"])
def test_a_stored_plan_is_not_used_for_another_conversation(tmp_path, store_kind):
    """After a restart, a newcomer under a used id sees nothing, and the old conversation continues."""
    store = MemoryCompactionStore() if store_kind == "memory" else FileCompactionStore(tmp_path)
    manager, history = compacted_manager(plan_store=store)
    expected = manager.preflight("s", [*history, QUESTION])
    for newcomer in ([SYSTEM, *GREETING, QUESTION], [SYSTEM, *history[-2:], QUESTION], edit_message(history[:30], 5)):
        out = small_manager(plan_store=store).preflight("s", newcomer)
        assert "COMPACT-SUMMARY" not in json.dumps(out)
    restarted = small_manager(plan_store=store)
    assert restarted.preflight("s", [*history, QUESTION]) == expected
    trimmed = small_manager(plan_store=store).preflight("s", [SYSTEM, *history[-5:], QUESTION])
    assert "ALICE-4711" in json.dumps(trimmed)


def test_marks_and_ids_are_not_content():
    """A host may move its cache mark, protect a message or change how it writes a text."""
    parts = [{"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}]
    assert identity_key(user("hello")) == identity_key({"role": "user", "content": parts})
    assert identity_key({**user("hello"), "id": "x", "meta": {"protected": True}}) == identity_key(user("hello"))
    assert identity_key(Message("user", "hello", meta={"protected": True})) == identity_key(user("hello"))
    assert identity_key(user("hello")) != identity_key({"role": "assistant", "content": "hello"})
    assert identity_key(tool_pair(1)[0]) != identity_key(tool_pair(2)[0])
    assert identity_key({"type": "item_reference", "id": "a"}) != identity_key({"type": "item_reference", "id": "b"})


def test_a_moved_cache_mark_keeps_the_plan_and_is_sent_where_the_host_put_it():
    """The newest message has the mark. Earlier messages are sent without it, as the host shows them."""
    manager = small_manager()
    history: list[dict[str, Any]] = []
    versions = set()
    for turn in range(40):
        history += dicts(1, start=turn)
        marked = copy.deepcopy(history)
        marked[-1]["cache_control"] = {"type": "ephemeral"}
        out = manager.preflight("s", marked)
        assert [item for item in out if "cache_control" in item] == [marked[-1]]
        if manager.plan("s"):
            versions.add(manager.plan("s").version)
    assert len(versions) < 8
    assert json.dumps(manager.rerender("s", 40)) == json.dumps(out)


def test_a_message_protected_after_it_was_summarized_is_shown_again():
    """Protecting it later brings its words back, and keeps the plan."""
    manager = small_manager()
    messages = [Message("system", "x"), *chat_turns(30)]
    assert messages[3] not in manager.preflight("s", messages)
    messages[3].meta["protected"] = True
    assert messages[3] in manager.preflight("s", messages)


KEYS = st.lists(st.sampled_from("abc"), max_size=12)


@given(KEYS, KEYS)
def test_the_overlap_is_the_longest_end_that_is_also_the_start(known, keys):
    """Compared with the definition."""
    overlap = find_overlap(known, keys)
    expected = max(size for size in range(min(len(known), len(keys)) + 1) if known[len(known) - size :] == keys[:size])
    assert (overlap.start, overlap.size) == (len(known) - expected, expected)


ACTIONS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(["full", "full", "adopt", "trim", "edit", "rewind", "restart"]),
        st.integers(0, 9),
    ),
    min_size=5,
    max_size=25,
)


@pytest.mark.req("A-ID-2")
@settings(max_examples=40)
@given(ACTIONS)
def test_no_sequence_of_histories_shows_one_users_words_to_the_other(actions):
    """Two users share an id and most of their words. A prompt has only its own user's words."""
    manager = small_manager(window=900)
    names = ("ALICE", "BOB")
    histories: list[list[dict[str, Any]]] = [[SYSTEM, *GREETING] for _ in names]
    for step, (who, action, amount) in enumerate(actions):
        history = histories[who]
        if action == "trim":
            history = [SYSTEM, *history[-(amount + 1) :]]
        elif action == "edit" and len(history) > 3:
            history = edit_message(history, 1 + amount % (len(history) - 1))
        elif action == "rewind":
            history = history[: max(1, len(history) - amount)]
        elif action == "restart":
            history = [SYSTEM, *GREETING]
        history = [*history, user(f"{names[who]} says {step} " + "word " * 40), *dicts(1, start=amount)]
        out = manager.preflight("s", history)
        assert names[1 - who] not in json.dumps(out)
        assert out[-1] == history[-1]
        histories[who] = out if action == "adopt" else history


@pytest.mark.req("A-ID-2")
def test_concurrent_users_with_one_id_stay_apart():
    """Threads and tasks interleave in any order."""
    manager = small_manager(limits={"max_branches": 16})

    def run(name: str) -> list[str]:
        history = [SYSTEM, *GREETING, user(f"I am {name}.")]
        prompts = []
        for turn in range(25):
            history += dicts(1, start=turn)
            prompts.append(json.dumps(manager.preflight("s", history)))
        return prompts

    async def arun(name: str) -> list[str]:
        history = [SYSTEM, *GREETING, user(f"I am {name}.")]
        prompts = []
        for turn in range(25):
            history += dicts(1, start=turn)
            prompts.append(json.dumps(await manager.apreflight("s", history)))
        return prompts

    async def gather(names: list[str]) -> list[list[str]]:
        return await asyncio.gather(*(arun(name) for name in names))

    names = [f"USER{number}X" for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        results = dict(zip(names, pool.map(run, names), strict=True))
    tasks = [f"TASK{number}X" for number in range(4)]
    results |= dict(zip(tasks, asyncio.run(gather(tasks)), strict=True))
    for name, prompts in results.items():
        assert all(other not in prompt for other in results if other != name for prompt in prompts)
        assert all(f"I am {name}." in prompt for prompt in prompts)


def test_memory_is_bounded_and_evictions_are_visible():
    """Sessions, branches and requests have limits. Each eviction is counted, and that of a session is an event."""
    recorder = Recorder()
    manager = small_manager(recorder, limits={"max_sessions": 3, "max_branches": 2, "max_requests": 5})
    for number in range(5):
        manager.preflight(f"s{number}", [user(f"hello {number}")])
    assert manager.evictions.sessions == 2
    evicted = [event["session_id"] for event in recorder.of("compact.warning")]
    assert evicted == ["s0", "s1"]
    for number in range(4):
        manager.preflight("s4", [user(f"another start {number}")])
    assert manager.evictions.branches == 3
    history = [SYSTEM]
    for turn in range(60):
        history += dicts(1, start=turn)
        last = manager.preflight("s3", history)
    session = manager._session("s3")
    assert len(session.sent) == 5
    assert len(session.plans) <= 5
    assert manager.evictions.requests >= 56
    assert manager.rerender("s3", 61) == last
    with pytest.raises(CompactError, match=r"evicted.*limits\.max_requests"):
        manager.rerender("s3", 3)


def test_an_evicted_session_continues_from_its_plan_store():
    """Eviction costs memory of this process only."""
    store = MemoryCompactionStore()
    manager, history = compacted_manager(plan_store=store, limits={"max_sessions": 1})
    expected = manager.preflight("s", [*history, QUESTION])
    manager.preflight("other", [user("hi")])
    assert manager.preflight("s", [*history, QUESTION]) == expected


def test_limits_must_be_positive():
    """A limit of zero is a mistake."""
    with pytest.raises(ConfigError, match=r"limits\.max_branches"):
        SessionLimits(max_branches=0)


def test_the_steps_of_two_branches_do_not_collide():
    """Each compaction of a session has its own step, so no transcript replaces another."""
    recorder = Recorder()
    manager, _ = compacted_manager(recorder=recorder)
    manager.preflight("s", secret_history("BOB-0815"))
    manager.preflight("s", secret_history("EVE-1234"))
    steps = [event["properties"]["step"] for event in recorder.of("compact.summary_created")]
    assert steps == [1, 2, 3]


async def test_usage_can_be_reported_while_another_task_waits_for_the_session():
    """A report on the event loop does not wait for a call that has not started yet, which would block the loop."""
    manager = small_manager()
    histories = [[SYSTEM, *GREETING, user(f"I am {name}.")] for name in ("ALICE", "BOB", "EVE")]

    async def run(history: list[dict[str, Any]]) -> None:
        for turn in range(8):
            history += dicts(1, start=turn)
            await manager.apreflight("s", history)
            manager.report_usage("s", {"input_tokens": 500, "output_tokens": 1}, messages=history)

    await asyncio.wait_for(asyncio.gather(*map(run, histories)), 60)


@pytest.mark.req("S-RED-1")
def test_message_ids_contain_nothing_of_a_secret() -> None:
    """An id is built from the redacted form, so equal messages with different secrets have equal ids."""

    def ids(secret: str) -> list[str | None]:
        manager = small_manager(None)
        manager.preflight("s", [{"role": "user", "content": f"log in with password: {secret}"}])
        return [message.id for message in manager._sessions["s"].current.thread]

    assert ids("swordfish") == ids("hunter2") != ids("swordfish to reach the server")


@pytest.mark.req("D-CON-1")
@pytest.mark.parametrize("order", [("ALICE-4711", "BOB-0815", "CAROL-99"), ("CAROL-99", "ALICE-4711", "BOB-0815")])
def test_every_branch_resumes_after_a_restart(tmp_path: Any, order: tuple[str, ...]) -> None:
    """Three conversations under one id. A new process continues each with its own plan, whichever comes first."""
    store = FileCompactionStore(tmp_path)
    names = ("ALICE-4711", "BOB-0815", "CAROL-99")
    histories = {name: secret_history(name) for name in names}
    manager = small_manager(None, plan_store=store)
    prompts = {name: manager.preflight("s", history) for name, history in histories.items()}
    recorder = Recorder()
    restarted = small_manager(recorder, plan_store=store)
    for name in order:
        prompt = restarted.preflight("s", [*histories[name], QUESTION])
        assert prompt[: len(prompts[name])] == prompts[name] and name in json.dumps(prompt)
        assert not any(other in json.dumps(prompt) for other in names if other != name)
    assert not recorder.of("compact.pruned_messages") and not recorder.of("compact.error")
    # A host that shows the compacted prompt instead of its history continues as well.
    again = small_manager(None, plan_store=store)
    for name in order:
        assert again.preflight("s", [*prompts[name], QUESTION])[: len(prompts[name])] == prompts[name]


@pytest.mark.req("D-CON-1")
def test_stored_branches_are_bounded_and_the_oldest_is_replaced(tmp_path: Any) -> None:
    store = FileCompactionStore(tmp_path)
    for number in range(12):
        small_manager(None, plan_store=store).preflight("s", secret_history(f"USER-{number:04}"))
    assert len(list(tmp_path.iterdir())) == 8
    last = small_manager(None, plan_store=store)
    assert "USER-0011" in json.dumps(last.preflight("s", [*secret_history("USER-0011"), QUESTION]))
    assert last.plan("s").version == 1


def large_result_history(secret: str) -> list[dict[str, Any]]:
    """Return a history with a secret, whose newest result is truncated when it is compacted."""
    rows = "\n".join(f"row {number} of the report" for number in range(400))
    return [*secret_history(secret, turns=10), *tool_pair(1, f"{secret}\n{rows}"), user("Go on.")]


@pytest.mark.req("D-CON-1")
@pytest.mark.parametrize("renderer", ["layered", "inplace"])
def test_branches_with_truncated_outputs_resume_after_a_restart(renderer: str) -> None:
    """Two conversations under one id that show their compacted prompt continue with their own plan."""
    policy = {"renderer": renderer, "story_pct": 0.0}
    options: dict[str, Any] = {"plan_store": MemoryCompactionStore(), "policy": policy}
    names = ("ALICE-4711", "BOB-0815")
    prompts = {name: small_manager(**options).preflight("s", large_result_history(name)) for name in names}
    for name, other in (names, names[::-1]):
        assert "tokens truncated" in prompts[name][-2]["content"]
        restarted = small_manager(**options)
        prompt = restarted.preflight("s", [*prompts[name], QUESTION])
        assert prompt == [*prompts[name], QUESTION]
        assert name in restarted.plan("s").session_summary.render(version=1)
        assert other not in json.dumps(prompt)


@pytest.mark.req("D-CON-1")
def test_a_truncated_output_is_no_proof_of_a_conversation() -> None:
    """The outputs of two conversations may be equal without their middle."""
    store = MemoryCompactionStore()
    prompt = small_manager(plan_store=store).preflight("s", large_result_history("ALICE-4711"))
    assert "tokens truncated" in prompt[-2]["content"]
    newcomer = small_manager(plan_store=store)
    newcomer.preflight("s", [SYSTEM, *prompt[-3:], QUESTION])
    assert newcomer.plan("s") is None
