"""Recall: nothing that a session has contained is lost, and nothing of another conversation is ever found."""

from __future__ import annotations

import asyncio
import sqlite3
import time
import tracemalloc
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
from builders import Recorder, chat_turns, small_manager, tool_pair
from compact import CompactError, DatabaseStorage, FileStorage, Message
from compact.adapters.artifact_stores import MemoryArtifactStore
from compact.adapters.plan_stores import FileCompactionStore
from compact.estimators.encodings import load_counter
from compact.planning.tool_results.artifacts import SecurityContext
from compact.planning.tool_results.durability import ToolDurability, ToolDurabilityPolicy
from compact.recall import KnownWords, PassageIndex, Source
from compact.recall import index as recall_index
from compact.recall.chunks import split_text
from compact.recall.terms import name_of, terms_of
from compact.summary.structured_summary import StructuredSummary

from tests.growth import MAX_GROWTH, cost_s

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def history(fact: str, turns: int = 30) -> list[dict[str, Any]]:
    first = [{"role": "user", "content": f"Remember for later. {fact}"}, {"role": "assistant", "content": "I will."}]
    return [*first, *tool_pair(1, f"row 17\n{fact}\nrow 18"), *(message.to_dict() for message in chat_turns(turns))]


def compacted_manager(fact: str, recorder: Any = None, **options: Any) -> Any:
    manager = small_manager(recorder, **options)
    messages = history(fact)
    assert len(manager.preflight("s", messages)) < len(messages)
    return manager


def texts(passages: Any) -> str:
    return "\n".join(passage.text for passage in passages)


def test_a_removed_message_is_found_with_its_place():
    manager = compacted_manager("The order ORD-4471 ships from dock 12.")
    best, *_ = manager.recall("s", "ORD-4471")
    assert "dock 12" in best.text
    assert best.message_id.startswith("m")
    assert (best.role, best.turn) in {("user", 1), ("tool", 1)}
    assert best.time is not None and best.score > 0


@pytest.mark.parametrize(
    "query",
    ["src/billing/invoiceTotals.py", "billing/invoiceTotals.py", "invoiceTotals", "invoice totals", "TOTALS.PY"],
)
def test_identifiers_and_paths_are_found_whole_and_by_their_parts(query):
    manager = compacted_manager("The rounding bug is in src/billing/invoiceTotals.py.")
    assert "rounding bug" in manager.recall("s", query)[0].text


def test_exact_ids_come_first():
    others = [f"The ticket ABC-{number} about the order of dock {number} is open." for number in range(100, 140)]
    manager = small_manager(window=100_000)
    manager.preflight("s", [{"role": "user", "content": text} for text in others])
    assert "ABC-123 " in manager.recall("s", "which dock has the open ticket ABC-123?")[0].text


def test_limits_are_kept():
    manager = compacted_manager("The order ORD-4471 ships from dock 12.")
    count = manager._engine.counter.count_text
    passages = manager.recall("s", "question answer module word ORD-4471", limit=3, max_tokens=200)
    assert 1 <= len(passages) <= 3
    assert sum(count(passage.text) for passage in passages) <= 200
    assert [passage.score for passage in passages] == sorted((passage.score for passage in passages), reverse=True)


@pytest.mark.parametrize("value", [0, -1, 1.5, float("inf"), float("nan"), None, "5"])
@pytest.mark.parametrize("name", ["limit", "max_tokens"])
def test_a_limit_that_is_no_positive_whole_number_is_rejected(name, value):
    manager = compacted_manager("The order ORD-4471 ships from dock 12.")
    with pytest.raises(CompactError, match="positive whole numbers"):
        manager.recall("s", "ORD-4471", **{name: value})


@pytest.mark.parametrize("value", [2**31, 2**64, 10**30])
@pytest.mark.parametrize("name", ["limit", "max_tokens"])
def test_a_huge_limit_is_accepted(name, value):
    manager = compacted_manager("The order ORD-4471 ships from dock 12.")
    assert "dock 12" in manager.recall("s", "ORD-4471", **{name: value})[0].text


@pytest.mark.parametrize("max_tokens", [2, 5, 12, 20])
def test_lines_that_are_too_long_for_the_tokens_are_cut(max_tokens):
    manager = compacted_manager("The order ORD-4471 ships from dock 12 on the second Tuesday after the harbor opens.")
    (passage,) = manager.recall("s", "ORD-4471", max_tokens=max_tokens)
    assert passage.text.endswith("…") and "harbor opens" not in passage.text
    assert len(passage.text) > 1
    assert load_counter("o200k_base")(passage.text) <= max_tokens


def test_a_name_at_the_end_of_a_long_query_counts():
    manager = compacted_manager("The order ORD-4471 ships from dock 12.")
    pasted = " ".join(f"w{number}" for number in range(2_000))
    assert "dock 12" in texts(manager.recall("s", f"{pasted} ORD-4471"))


@pytest.mark.parametrize(
    "query",
    ['ORD-4471 "', "NEAR(ORD-4471", "text:ORD-4471*", "^ORD-4471 NOT (", "🔥 ORD-4471\x00", "\u202eORD-4471\u202c"],
)
def test_the_syntax_of_the_search_engine_has_no_meaning_in_a_query(query):
    manager = compacted_manager("The order ORD-4471 ships from dock 12.")
    assert "dock 12" in manager.recall("s", query)[0].text


@pytest.mark.parametrize(
    "query", ["", "the", "…", "zzzqqq", '"', "a OR b NOT (", "x" * 50_000, "\x00\ud800", "🔥", "!?… ---"]
)
def test_any_query_is_answered(query):
    assert isinstance(compacted_manager("The order ORD-4471 ships from dock 12.").recall("s", query), list)


def test_passages_are_redacted():
    recorder = Recorder()
    manager = compacted_manager(f"The deploy key is {SECRET} for dock 12.", recorder)
    passages = manager.recall("s", f"deploy key dock {SECRET}")
    assert "dock 12" in texts(passages)
    assert SECRET not in texts(passages)
    assert SECRET not in str(recorder.of("compact.recall"))


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


def test_new_messages_are_indexed_by_the_next_recall():
    manager = small_manager()
    messages = history("The order ORD-4471 ships from dock 12.")
    manager.preflight("s", messages)
    assert manager.recall("s", "QX-99") == []
    manager.preflight("s", [*messages, {"role": "user", "content": "The new code is QX-99."}])
    (passage,) = manager.recall("s", "QX-99", limit=1)
    assert passage.is_in_prompt and passage.turn == 32


@pytest.fixture(params=["fs", "database"])
def storage(request, tmp_path):
    if request.param == "fs":
        return lambda: FileStorage(tmp_path / "archive")
    return lambda: DatabaseStorage(lambda: sqlite3.connect(tmp_path / "archive.db"))


@pytest.mark.parametrize("has_plan_store", [True, False])
def test_after_a_restart_the_archive_is_searched(storage, tmp_path, has_plan_store):
    def start() -> Any:
        plans = FileCompactionStore(tmp_path / "plans") if has_plan_store else None
        return small_manager(storage=storage(), plan_store=plans)

    request = start().preflight("s", history(f"The order ORD-4471 ships from dock 12, key {SECRET}."))
    assert "dock 12" not in str(request[1:2])
    restarted = start()
    restarted.preflight("s", [*request, {"role": "user", "content": "Which dock?"}])
    passages = texts(restarted.recall("s", "ORD-4471"))
    assert "dock 12" in passages and SECRET not in passages


def test_after_a_restart_another_conversation_in_the_archive_is_never_found(storage):
    small_manager(storage=storage()).preflight("s", history("Alice's code is ALICE-4711."))
    manager = small_manager(storage=storage())
    manager.preflight("s", history("Bob's code is BOB-0815."))
    assert manager.recall("s", "ALICE-4711") == []
    request = manager.preflight("s", [*history("Bob's code is BOB-0815."), {"role": "user", "content": "Go on."}])
    third = small_manager(storage=storage())
    third.preflight("s", request)
    passages = texts(third.recall("s", "code ALICE-4711 BOB-0815"))
    assert "BOB-0815" in passages and "ALICE-4711" not in passages


@pytest.mark.parametrize("has_plan_store", [True, False])
def test_after_a_restart_messages_prove_whose_archive_is_searched(storage, tmp_path, has_plan_store):
    """No check has run yet in this process, so the given messages are all that is known."""

    def start() -> Any:
        plans = FileCompactionStore(tmp_path / "plans") if has_plan_store else None
        return small_manager(storage=storage(), plan_store=plans)

    alice, bob = history("Alice's code is ALICE-4711."), history("Bob's code is BOB-0815.", turns=3)
    request = start().preflight("s", alice)
    assert start().recall("s", "ALICE-4711", messages=bob) == []
    assert asyncio.run(start().arecall("s", "ALICE-4711", messages=bob)) == []
    assert "ALICE-4711" in texts(start().recall("s", "ALICE-4711", messages=request))


def test_before_the_first_message_of_a_process_the_newest_archived_conversation_is_the_session(storage):
    small_manager(storage=storage()).preflight("s", history("The order ORD-4471 ships from dock 12."))
    manager = small_manager(storage=storage())
    assert "dock 12" in texts(manager.recall("s", "ORD-4471"))
    manager.preflight("s", [{"role": "user", "content": "A new topic."}])
    assert manager.recall("s", "ORD-4471") == []


def test_an_archive_that_cannot_be_read_is_reported(tmp_path):
    class Broken(FileStorage):
        def load_transcripts(self, session_id: str) -> Any:
            raise OSError("disk gone")

    recorder = Recorder()
    manager = small_manager(recorder, storage=Broken(tmp_path))
    assert manager.recall("s", "ORD-4471") == []
    assert "disk gone" in recorder.last("compact.error")["message"]


@pytest.mark.parametrize("damaged", ["transcript-pre-compact-002.jsonl", "summary-002.json"])
def test_the_rest_of_a_damaged_archive_is_searched(tmp_path, damaged):
    """A file was cut in the middle, as by a full disk. What can be read is found, and the damage is reported."""
    messages = history("The order ORD-4471 ships from dock 12.")
    manager = small_manager(storage=FileStorage(tmp_path))
    manager.preflight("s", messages)
    manager.preflight("s", [*messages, *history("The order ORD-4472 ships from dock 13.")])
    file = tmp_path / "s" / damaged
    file.write_bytes(file.read_bytes()[:-200])
    recorder = Recorder()
    restarted = small_manager(recorder, storage=FileStorage(tmp_path))
    passages = texts(restarted.recall("s", "ORD-4471 ORD-4472"))
    assert "dock 12" in passages and "dock 13" in passages
    assert "The transcript of step 2 is corrupt" in recorder.last("compact.error")["message"]


@pytest.mark.parametrize("depth", [600, 200_000])
@pytest.mark.parametrize("damaged", ["transcript-pre-compact-001.jsonl", "summary-001.json"])
def test_a_deeply_nested_line_is_damage(tmp_path, damaged, depth):
    """Python's limit on recursion is reached by the JSON decoder, or by the code that reads the message."""
    small_manager(storage=FileStorage(tmp_path)).preflight("s", history("The order ORD-4471 ships from dock 12."))
    file, nested = tmp_path / "s" / damaged, "[" * depth + "]" * depth
    line = f'{{"role": "user", "content": {nested}}}'
    file.write_text(f"{line}\n{file.read_text()}" if damaged.endswith("l") else f'{{"summary": {line}}}')
    recorder = Recorder()
    restarted = small_manager(recorder, storage=FileStorage(tmp_path))
    assert "dock 12" in texts(restarted.recall("s", "ORD-4471"))
    assert "The transcript of step 1 is corrupt" in recorder.last("compact.error")["message"]


@pytest.mark.parametrize("has_plan_store", [True, False])
def test_a_secret_that_an_older_version_archived_is_redacted(tmp_path, has_plan_store):
    """The rules of an older version did not know this kind of secret, so its archive has it in plain text."""

    def start() -> Any:
        plans = FileCompactionStore(tmp_path / "plans") if has_plan_store else None
        return small_manager(storage=FileStorage(tmp_path / "archive"), plan_store=plans)

    request = start().preflight("s", history("The order ORD-4471 ships from dock 12, key PLACEHOLDER."))
    for file in (tmp_path / "archive" / "s").glob("transcript-*.jsonl"):
        file.write_text(file.read_text().replace("PLACEHOLDER", SECRET))
    messages = [] if has_plan_store else [*request, {"role": "user", "content": "Which dock?"}]
    passages = texts(start().recall("s", "ORD-4471 dock", messages=messages or None))
    assert "dock 12" in passages and SECRET not in passages


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


def test_a_recall_is_an_event_with_its_query_and_passages_in_the_payload():
    recorder = Recorder()
    manager = compacted_manager("The order ORD-4471 ships from dock 12.", recorder)
    passages = asyncio.run(manager.arecall("s", "ORD-4471 dock"))
    (event,) = recorder.of("compact.recall")
    assert event["properties"]["passage_count"] == len(passages)
    assert event["properties"]["outside_prompt_count"] >= 1
    assert event["payload"]["query"] == "ORD-4471 dock"
    assert event["payload"]["results"][0]["text"] == passages[0].text
    assert event["started_at"] <= event["ended_at"]
    assert "ORD-4471" not in str(event["properties"])


@pytest.mark.parametrize("renderer", ["layered", "bridge", "inplace"])
def test_the_summary_mentions_the_tool_only_if_there_is_one(renderer):
    def prompt(**options: Any) -> list[Any]:
        return small_manager(policy={"renderer": renderer}, **options).preflight("s", history("Dock 12."))

    assert "[Recall]" not in str(prompt())
    (line,) = [
        line
        for item in prompt(recall={"enabled": True, "tool_name": "look_up"})
        for line in str(item["content"]).splitlines()
        if line.startswith("[Recall]")
    ]
    assert "`look_up`" in line


def test_the_line_about_recall_is_not_part_of_a_summary_that_is_read_again():
    manager = small_manager(recall={"enabled": True})
    request = manager.preflight("s", history("Dock 12."))
    text = next(item["content"] for item in request if "[Recall]" in str(item["content"]))
    assert text.splitlines()[-1].startswith("[Recall]")
    summary = StructuredSummary.parse(text)
    assert summary is not None and "[Recall]" not in summary.render()


def test_indexes_in_memory_are_bounded():
    manager = small_manager()
    for number in range(40):
        manager.preflight(f"s{number}", [{"role": "user", "content": f"The code is C-{number}."}])
        assert manager.recall(f"s{number}", f"C-{number}")
    indexes = [manager._session(f"s{number}").recall.index for number in range(40)]
    assert sum(index is not None for index in indexes) == 32
    assert manager.recall("s0", "C-0")


# The index.


def search(index: PassageIndex, query: str, **options: Any) -> list[str]:
    passages = index.search(query, limit=5, max_tokens=500, count_tokens=lambda text: len(text) // 3, **options)
    return [passage.message_id for passage in passages]


def known_words(text: str) -> set[str]:
    known = KnownWords()
    known.read(text)
    return known.words


def test_without_fts5_the_same_is_found(monkeypatch):
    sources = [Source(f"m{n}", "tool", f"row {n} has the value V-{n * 7}", context="read table.csv") for n in range(50)]
    index = PassageIndex()
    index.add(sources)
    monkeypatch.setattr(recall_index, "_CREATE", "CREATE VIRTUAL TABLE chunks USING missing_module(terms)")
    slow = PassageIndex()
    slow.add([Source(source.id, source.role, source.text, context=source.context) for source in sources])
    for query in ("V-49", "row 31", "value table.csv"):
        assert search(slow, query)[:1] == search(index, query)[:1]
    assert search(slow, "V-49")[0] == "m7"


def test_the_newest_of_equal_texts_is_returned():
    index = PassageIndex()
    index.add([Source("m1", "tool", "the config has port 8080"), Source("m2", "tool", "the config  has port 8080")])
    assert search(index, "config port") == ["m2"]


def test_what_the_prompt_lacks_counts_more():
    index = PassageIndex()
    index.add(
        [Source("m1", "tool", "port of the staging database 5433"), Source("m2", "user", "port of the database?")]
    )
    assert search(index, "port database", visible={1}, known_words=known_words("port of the database?"))[0] == "m1"


def test_languages_without_spaces_are_found():
    index = PassageIndex()
    index.add([Source("m1", "user", "注文番号は四四七一です"), Source("m2", "user", "天気がいいですね")])
    assert search(index, "注文番号")[0] == "m1"


@pytest.mark.parametrize(
    "word", ["İstanbul", "हिन्दी", "e\u0301tude", "ΣΊΣΥΦΟΣ", "العَرَبِيّة", "ẞ-7", "ภาษาไทย", "ที่อยู่", "码头"]
)
def test_a_word_of_any_script_is_found_in_any_case(word):
    index = PassageIndex()
    index.add([Source(f"x{n}", "user", f"filler {n} étage") for n in range(30)])
    index.add([Source("m", "user", f"note about {word} here")])
    for query in (word, word.lower(), word.upper().replace("SS", "ẞ"), unicodedata.normalize("NFC", word)):
        assert search(index, query)[:1] == ["m"], query


def test_a_long_sentence_without_spaces_is_found_by_its_end():
    index = PassageIndex()
    sentence = "".join(chr(0x4E00 + number) for number in range(600))
    index.add([Source(f"x{n}", "user", f"filler {n}") for n in range(30)])
    index.add([Source("long", "user", sentence)])
    (passage,) = index.search(sentence[590:], limit=1, max_tokens=2_000, count_tokens=len)
    assert passage.message_id == "long"


def test_long_tokens_are_not_kept_in_memory():
    tokens = [f"{number}a" * 100_000 for number in range(100, 120)]
    index = PassageIndex()
    index.add([Source("a", "user", "The order ORD-4471.")])
    tracemalloc.start()
    try:
        for token in tokens:
            terms_of(f"data: {token}")
            index.search(f"data: {token}", limit=1, max_tokens=100, count_tokens=len)
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < len(tokens[0])


def test_chunks_cover_the_text():
    text = "short\n\n" + '{"id": 1, "name": "a"}, ' * 60 + "\n" + "line of text\n" * 40 + "end"
    spans = list(split_text(text, 240))
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())
    assert all(end - start <= 240 for start, end in spans)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))


def test_messages_next_to_each_other_are_one_passage():
    index = PassageIndex()
    texts_ = ["read the port of db-7", "db-7 listens on port 5433", *["filler"] * 9, "db-7 was moved to port 6000"]
    index.add([Source(f"m{number}", "tool", text) for number, text in enumerate(texts_)])
    passages = index.search("db-7 port", limit=5, max_tokens=500, count_tokens=lambda text: len(text) // 3)
    together = next(passage for passage in passages if "5433" in passage.text)
    assert {together.message_id, *together.neighbor_ids} == {"m0", "m1"}
    assert "[tool, message m1]" in together.text or "[tool, message m0]" in together.text
    assert len(passages) == 2


def test_names_in_other_lines_of_a_shown_message_are_listed_with_a_label():
    lines = "".join(f"{'word ' * 30}\nvalue_{number}: filler line\n" for number in range(40))
    index = PassageIndex()
    index.add([Source("m0", "tool", f"the ledger of ZX-9000 begins\n{lines}")])
    (passage,) = index.search("ledger ZX-9000", limit=1, max_tokens=120, count_tokens=lambda text: len(text) // 3)
    *_, last = passage.text.splitlines()
    assert last.startswith("Also in this part: ") and "value_1" in last
    known = known_words(last)
    (passage,) = index.search(
        "ledger ZX-9000", limit=1, max_tokens=120, count_tokens=lambda text: len(text) // 3, known_words=known
    )
    assert "value_1," not in passage.text.splitlines()[-1]


def test_names_far_from_a_match_are_listed_while_there_is_room():
    lines = "".join(f"{'word ' * 130}\nvalue_{number}: filler line\n" for number in range(20))
    index = PassageIndex()
    index.add([Source("m0", "tool", f"the ledger of ZX-9000 begins\n{lines}")])
    (passage,) = index.search("ledger ZX-9000", limit=1, max_tokens=900, count_tokens=lambda text: len(text) // 3)
    assert "value_9," in passage.text.splitlines()[-1]


@pytest.mark.parametrize("excluded", [set(), {0}])
def test_names_of_a_message_without_a_passage_are_listed_with_its_id(excluded):
    index = PassageIndex()
    fillers = [f"filler number {number}" for number in range(20)]
    texts_ = ["the ledger of ZX-9000 has entry_0", *fillers, "the ledger of ZX-9000 was moved to archive_77"]
    index.add([Source(f"m{number}", "tool", text) for number, text in enumerate(texts_)])
    (passage,) = index.search(
        "ledger ZX-9000 moved", limit=1, max_tokens=120, count_tokens=lambda text: len(text) // 3, excluded=excluded
    )
    assert passage.message_id == "m21"
    assert ("Also in message m0: entry_0" in passage.text) is not bool(excluded)
    assert passage.neighbor_ids == (() if excluded else ("m0",))


@pytest.mark.parametrize(
    ("token", "name"),
    [
        ("src/app/main.py:12:34", "src/app/main.py"),
        ("auto_commit.go-130-func", "auto_commit.go"),
        ("db.example.com:5432", "db.example.com:5432"),
        ("fix/issue-123", "fix/issue-123"),
        ("/srv/a/b/c/readUser.py", "…/b/c/readUser.py"),
        ("2734887122", "2734887122"),
        ("größe_7", "größe_7"),
    ],
)
def test_a_listed_name_is_whole_and_has_no_line_number(token, name):
    assert name_of(token) == (name.removeprefix("…/").lower(), name)


@pytest.mark.parametrize("token", ["1151", "10-12", "sentence", "Sentence", "a_b", "x" * 81 + "_"])
def test_other_words_are_not_listed_as_names(token):
    assert name_of(token) is None


def test_a_name_is_found_where_a_part_of_its_word_is_not():
    index = PassageIndex()
    index.add([Source("a", "user", "we use ord_44"), Source("b", "user", "user_id and ord_44/user_id.py are set")])
    passages = index.search("use user_id ord_44/user_id.py", limit=1, max_tokens=100, count_tokens=len)
    assert [passage.message_id for passage in passages] == ["b"]


@pytest.mark.parametrize("query", ["http server", "Response", "decoder", "größe", "ledger2026"])
def test_parts_of_camel_case_are_found(query):
    index = PassageIndex()
    index.add([Source(f"x{n}", "user", f"filler {n}") for n in range(30)])
    index.add([Source("m", "tool", "parse(HTTPServerResponse, lineDecoder, maxGröße, größe, Ledger2026)")])
    assert search(index, query)[0] == "m"


def test_a_neighbor_that_may_not_be_shown_is_left_out():
    index = PassageIndex()
    index.add([Source("m0", "tool", "balance of ZX-1 is open"), Source("m1", "tool", "balance of ZX-1 is secret-55")])
    assert "secret-55" in str(index.search("balance ZX-1", limit=5, max_tokens=500, count_tokens=len))
    assert "secret-55" not in str(index.search("balance ZX-1", limit=5, max_tokens=500, count_tokens=len, excluded={1}))


def test_common_words_are_found_beside_many_sources_that_may_not_be_shown():
    index = PassageIndex()
    index.add([Source(f"m{n}", "user", f"the server of group {n % 3} restarts daily") for n in range(3)])
    index.add([Source(f"x{n}", "tool", f"the server of room {n} restarts daily") for n in range(100)])
    assert search(index, "server restarts", excluded=set(range(3, 103)))[0] in {"m0", "m1", "m2"}


def test_an_id_is_not_found_in_a_longer_one():
    index = PassageIndex()
    index.add([Source(f"m{n}", "tool", f"the state of module_{n} is {n * 31}") for n in (3, *range(30, 90))])
    (passage, *_) = index.search("module_3", limit=5, max_tokens=500, count_tokens=len)
    assert passage.text == "the state of module_3 is 93"


def test_searches_do_not_influence_each_other():
    sources = [Source(f"m{n}", "tool", f"row {n} has the value V-{n * 7} in table_{n % 9}\n" * 30) for n in range(80)]
    used, fresh = PassageIndex(), PassageIndex()
    for index in (used, fresh):
        index.add([Source(source.id, source.role, source.text) for source in sources])
    for number in range(30):
        search(used, f"V-{number * 7} table_{number % 9}")
    assert search(used, "value V-49 table_7") == search(fresh, "value V-49 table_7")


def test_the_cost_of_a_query_grows_slower_than_the_log():
    """Only words that most messages have are looked up in all of the log. Other words are rare, a name, or unknown."""

    def run(index: PassageIndex) -> None:
        for number in range(10):
            search(index, f"value V-{number * 7} of table_{number} in the ledger, unseen{number}")

    smaller, larger = (PassageIndex() for _ in range(2))
    for index, size in ((smaller, 500), (larger, 4_000)):
        index.add([Source(f"m{n}", "tool", log_entry(n)) for n in range(size)])
    # A factor of 8 would be linear. growth.py would allow 15 for three doublings.
    assert min(cost_s(run, larger) / cost_s(run, smaller) for _ in range(3)) < 2 * MAX_GROWTH


def test_the_cost_of_one_more_message_grows_slower_than_the_log():
    """The recall after a message indexes only that message."""

    def start_session(size: int) -> tuple[Any, list[dict[str, Any]]]:
        manager, messages = small_manager(window=100_000_000), [log_message(number) for number in range(size)]
        manager.preflight("s", messages)
        manager.recall("s", "ledger V-7")
        return manager, messages

    def recall_s(manager: Any, messages: list[dict[str, Any]]) -> float:
        messages.append(log_message(len(messages)))
        manager.preflight("s", messages)
        began = time.process_time()
        assert manager.recall("s", f"V-{(len(messages) - 1) * 7}")[0].is_in_prompt
        return time.process_time() - began

    smaller, larger = start_session(500), start_session(4_000)
    pairs = [(recall_s(*smaller), recall_s(*larger)) for _ in range(9)]
    shorter, longer = map(min, zip(*pairs, strict=True))
    assert longer < 2 * MAX_GROWTH * shorter


def log_entry(number: int) -> str:
    return f"row {number} of the ledger has the value V-{number * 7} in table_{number % 900}\n" * 5


def log_message(number: int) -> dict[str, Any]:
    return {"role": "user" if number % 2 == 0 else "assistant", "content": log_entry(number)}


def test_half_of_a_surrogate_pair_and_null_characters_are_indexed():
    index = PassageIndex()
    index.add([Source("m0", "tool", "broken \ud800 text\x00 with QX-99 after it")])
    assert search(index, "QX-99") == ["m0"]


def test_a_message_is_not_needed_to_be_text():
    manager = small_manager()
    manager.preflight("s", [Message("user", [{"type": "text", "text": "code QX-99"}]), Message("assistant", "")])
    assert manager.recall("s", "QX-99")
