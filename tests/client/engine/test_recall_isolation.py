"""A recall never finds anything of another conversation, session or task."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from builders import small_manager, tool_pair
from compact import CompactError, FileStorage
from compact.adapters.artifact_stores import MemoryArtifactStore
from compact.planning.tool_results.artifacts import SecurityContext
from compact.planning.tool_results.durability import ToolDurability, ToolDurabilityPolicy
from recall_builders import compacted_manager, history, texts


def test_another_conversation_under_the_same_id_is_never_found():
    manager = compacted_manager("Alice's code is ALICE-4711.")
    manager.preflight("s", history("Bob's code is BOB-0815."))
    assert "ALICE-4711" not in texts(manager.recall("s", "code ALICE-4711 BOB-0815"))
    assert "BOB-0815" in texts(manager.recall("s", "code BOB-0815"))
    alice = history("Alice's code is ALICE-4711.")
    passages = texts(manager.recall("s", "code ALICE-4711 BOB-0815", messages=alice))
    assert "ALICE-4711" in passages and "BOB-0815" not in passages
    assert manager.recall("s", "code ALICE-4711", messages=[{"role": "user", "content": "Who are you?"}]) == []
    manager.preflight("s", [*alice, {"role": "user", "content": "And now?"}])
    assert "BOB-0815" not in texts(manager.recall("s", "code BOB-0815"))


def test_concurrent_tasks_under_one_id_search_in_their_own_conversation():
    manager = small_manager()

    async def run(name: str, turn: asyncio.Event, other: asyncio.Event) -> str:
        await manager.apreflight("s", history(f"The code of {name} is {name}-4711."))
        other.set()
        await turn.wait()
        return texts(await manager.arecall("s", "code ALICE-4711 BOB-4711"))

    async def main() -> list[str]:
        first, second = asyncio.Event(), asyncio.Event()
        return await asyncio.gather(run("ALICE", first, second), run("BOB", second, first))

    alice, bob = asyncio.run(main())
    assert "ALICE-4711" in alice and "BOB-4711" not in alice
    assert "BOB-4711" in bob and "ALICE-4711" not in bob


@pytest.mark.parametrize("is_pool_used", [True, False])
def test_a_thread_that_may_run_for_another_user_must_show_its_conversation(is_pool_used):
    """The thread of a pool ran a call for Alice before. It may run a tool for Bob now, and both use one id."""
    manager, alice = small_manager(), history("Alice's code is ALICE-4711.")
    with ThreadPoolExecutor(1) as pool:
        if is_pool_used:
            pool.submit(manager.preflight, "s", alice).result()
        else:
            manager.preflight("s", alice)
        manager.preflight("s", history("Bob's code is BOB-0815."))
        with pytest.raises(CompactError, match=r"2 conversations .* messages="):
            pool.submit(manager.recall, "s", "code ALICE-4711 BOB-0815").result()
        with pytest.raises(CompactError, match=r"2 conversations .* messages="):
            pool.submit(asyncio.run, manager.arecall("s", "code ALICE-4711 BOB-0815")).result()
        passages = texts(pool.submit(manager.recall, "s", "code ALICE-4711 BOB-0815", messages=alice).result())
    assert "ALICE-4711" in passages and "BOB-0815" not in passages


def test_sessions_do_not_share_an_index():
    manager = compacted_manager("Alice's code is ALICE-4711.")
    manager.preflight("other", history("Bob's code is BOB-0815."))
    assert manager.recall("other", "ALICE-4711") == []
    assert manager.recall("unknown", "ALICE-4711") == []


@pytest.mark.parametrize("is_allowed", [True, False])
def test_artifacts_are_recalled_only_by_those_who_may_read_them(is_allowed):
    permissions = frozenset({"artifact:read:restricted"} if is_allowed else ())
    durability = ToolDurabilityPolicy(ToolDurability.ANCHORING, sensitivity="restricted")
    manager = small_manager(
        window=6_000,
        artifact_store=MemoryArtifactStore(),
        security_context=SecurityContext("agent", permissions=permissions),
        tool_durability={"run": durability},
        policy={"externalize_threshold_tokens": 300, "keep_tool_io_pairs": 1},
    )
    outputs = [f"ledger entry {number}: balance ZX-{number}\n" + "filler line\n" * 300 for number in range(9000, 9009)]
    messages = [message for number, output in enumerate(outputs) for message in tool_pair(number, output)]
    manager.preflight("s", [{"role": "user", "content": "Read the ledger."}, *messages])
    assert manager.plan("s").externalizations
    passages = texts(manager.recall("s", "balance ZX-9000"))
    assert ("ZX-9000" in passages) is is_allowed


@pytest.mark.parametrize(
    ("alice", "bob"),
    [("s", "s1"), ("s", "S"), ("s", "ѕ"), ("s", "s\u200b"), ("é", "e\u0301"), ("ß", "ss"), ("", "."), ("s/1", "s_1")],
)
@pytest.mark.parametrize("is_restarted", [True, False])
def test_sessions_with_similar_ids_are_separate(tmp_path, alice, bob, is_restarted):
    manager = small_manager(storage=FileStorage(tmp_path))
    manager.preflight(alice, history("Alice's code is ALICE-4711."))
    manager.preflight(bob, history("Bob's code is BOB-0815."))
    if is_restarted:
        manager = small_manager(storage=FileStorage(tmp_path))
    passages = texts(manager.recall(alice, "code ALICE-4711 BOB-0815"))
    assert "ALICE-4711" in passages and "BOB-0815" not in passages
    passages = texts(manager.recall(bob, "code ALICE-4711 BOB-0815"))
    assert "BOB-0815" in passages and "ALICE-4711" not in passages
