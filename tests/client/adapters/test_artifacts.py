"""Externalized content: storage, permissions and rehydration."""

from __future__ import annotations

import base64
import json
import os
import stat
from datetime import UTC, datetime, timedelta

import pytest
from builders import Recorder, SpySummarizer, chat_turns, small_manager, tool_pair
from compact import CompactConfig, CompactManager, CompactPolicy, Message, TiktokenEstimator
from compact.adapters.artifact_stores import FileArtifactStore, MemoryArtifactStore
from compact.adapters.plan_stores import FileCompactionStore
from compact.messages.codecs import CHAT
from compact.planning.rehydration import RehydrationConfig, TurnContext
from compact.planning.tool_results.artifacts import ArtifactMetadata, SecurityContext
from compact.planning.tool_results.durability import ToolDurability, ToolDurabilityPolicy

STORES = {"memory": lambda path, **options: MemoryArtifactStore(**options), "file": FileArtifactStore}


class Clock:
    def __init__(self):
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self):
        return self.now


@pytest.fixture(params=STORES)
def make(request, tmp_path):
    return lambda **options: STORES[request.param](tmp_path, **options)


@pytest.mark.req("D-ART-1")
def test_store_returns_the_stored_content(make):
    """Content is returned unchanged, the same content is one artifact, and an unknown id returns None."""
    store = make()
    metadata = ArtifactMetadata("t")
    first = store.store("héllo \ud800", metadata)
    assert store.store("héllo \ud800", metadata) == first
    assert store.retrieve(first) == "héllo \ud800"
    assert store.retrieve("art-0000") is None
    assert store.retrieve("../../etc/passwd") is None


@pytest.mark.req("D-ART-1")
def test_reading_requires_permission(make):
    """Tenant, sensitivity and readers each restrict access. Without permission, `retrieve` returns None."""
    store = make()
    of_acme = store.store("a", ArtifactMetadata("t", tenant_id="acme"))
    secret = store.store("b", ArtifactMetadata("t", sensitivity="restricted"))
    named = store.store("c", ArtifactMetadata("t", readers=("ann",)))
    ann = SecurityContext("ann", "acme")
    cleared = SecurityContext("bob", "acme", frozenset({"artifact:read:restricted"}))
    assert [store.retrieve(item, ann) for item in (of_acme, secret, named)] == ["a", None, "c"]
    assert [store.retrieve(item, cleared) for item in (of_acme, secret, named)] == ["a", "b", None]
    assert [store.retrieve(item) for item in (of_acme, secret, named)] == [None, None, None]
    assert store.retrieve(of_acme, SecurityContext("eve", "other")) is None


@pytest.mark.req("D-ART-1")
def test_artifacts_expire(make):
    """An artifact cannot be read after its time to live."""
    clock = Clock()
    store = make(clock=clock)
    artifact = store.store("x", ArtifactMetadata("t", ttl_seconds=60))
    clock.now += timedelta(seconds=59)
    assert store.retrieve(artifact) == "x"
    clock.now += timedelta(seconds=1)
    assert store.get_metadata(artifact) is None
    assert store.retrieve(artifact) is None


@pytest.mark.req("D-ART-1")
def test_content_is_encrypted_at_rest(tmp_path):
    """A file store encrypts with the named key, and never stores such content in plain text."""

    class Xor:
        def encrypt(self, data, key_id):
            return bytes(byte ^ len(key_id) for byte in data)

        decrypt = encrypt

    store = FileArtifactStore(tmp_path, cipher=Xor())
    artifact = store.store("plain words", ArtifactMetadata("t", encryption_key_id="k1"))
    assert store.retrieve(artifact) == "plain words"
    assert not any("plain" in path.read_text() for path in tmp_path.rglob("*.json"))
    with pytest.raises(ValueError, match="no cipher"):
        FileArtifactStore(tmp_path).store("x", ArtifactMetadata("t", encryption_key_id="k1"))


def session(recorder=None, *, store=None, window=6000, **options):
    policy = CompactPolicy(hard_cap_buffer=200, story_pct=0, keep_tool_io_pairs=1, externalize_threshold_tokens=300)
    store = store or MemoryArtifactStore()
    manager = CompactManager(
        CompactConfig("gpt-5", window, policy=policy, exporter=recorder, artifact_store=store, **options)
    )
    messages = [{"role": "user", "content": "look at everything"}]
    for number in range(9):
        messages += tool_pair(number, f"report-{number}.txt says {number} " + "detail " * 600)
    return manager, messages, manager.preflight("s", messages)


@pytest.mark.req("D-LAD-1", "D-REND-1")
def test_large_results_become_pointers_before_anything_is_summarized():
    """The first strategy leaves pointers that name `read_artifact`, and stops once the prompt fits the budget."""
    recorder = Recorder()
    manager, _, out = session(recorder)
    pointers = [item for item in out if "[Externalized Content - artifact:" in str(item["content"])]
    plan = manager.plan("s")
    assert len(pointers) == len(plan.externalizations) == 8
    assert pointers[0]["role"] == "assistant"
    artifact = plan.externalizations[0].artifact_id
    assert f'read_artifact("{artifact}")' in pointers[0]["content"]
    assert plan.summarizations == ()
    assert "report-0.txt" in manager.read_artifact("s", artifact)
    assert len(recorder.of("compact.externalized")) == 8
    assert {entry.into for entry in plan.ledger if entry.fate == "externalized"} == {
        record.artifact_id for record in plan.externalizations
    }


@pytest.mark.req("K-ACC-4", "D-REH-2")
def test_rehydrated_content_stays_for_all_model_calls_of_the_user_turn():
    """The agent calls three tools before it answers. The content is announced once, stays in place, and is counted."""
    recorder = Recorder()
    manager, messages, _ = session(recorder, rehydration=RehydrationConfig(max_tokens_per_artifact=500))
    artifact = manager.plan("s").externalizations[2].artifact_id
    asked = [*messages, {"role": "user", "content": f"what does {artifact} say?"}]
    first = manager.preflight("s", asked)
    position = next(n for n, item in enumerate(first) if "[Rehydrated" in str(item["content"]))
    for number in range(3):
        asked += tool_pair(900 + number, "found nothing")
        out = manager.preflight("s", asked)
        assert out[: len(first)] == first
        assert out[position]["content"].startswith(f"[Rehydrated Content - artifact:{artifact}")
        assert out == manager.rerender("s", 3 + number)
    assert [event["event"] for event in recorder.events].count("compact.rehydrated") == 1
    tokens = TiktokenEstimator().count_request([CHAT.decode(item, 0) for item in out], model="gpt-5")
    assert manager.remember("s").tokens == tokens


@pytest.mark.req("K-ACC-4")
def test_content_without_room_is_reported_and_not_announced():
    """A budget that the conversation fills leaves no room, so the event says blocked, not rehydrated."""
    recorder = Recorder()
    manager, messages, _ = session(recorder, rehydration=RehydrationConfig(max_tokens_per_artifact=900))
    artifact = manager.plan("s").externalizations[2].artifact_id
    free = manager.cfg.max_context_tokens - manager.cfg.policy.hard_cap_buffer - manager.remember("s").tokens
    question = f"what does {artifact} say? " + "word " * (free - 300)
    out = manager.preflight("s", [*messages, {"role": "user", "content": question}])
    names = [event["event"] for event in recorder.events]
    is_shown = any("[Rehydrated" in str(item["content"]) for item in out)
    assert is_shown == ("compact.rehydrated" in names)
    assert is_shown != ("compact.rehydration_blocked" in names)


@pytest.mark.req("D-REH-1")
def test_naming_an_artifact_rehydrates_it_for_one_turn():
    """An exact id in a message inserts the truncated content before that message, until the next user message."""
    recorder = Recorder()
    manager, messages, _ = session(recorder, rehydration=RehydrationConfig(max_tokens_per_artifact=500))
    artifact = manager.plan("s").externalizations[2].artifact_id
    asked = [*messages, {"role": "user", "content": f"what does {artifact} say?"}]
    out = manager.preflight("s", asked)
    assert out[-1] == asked[-1]
    assert out[-2]["content"].startswith(f"[Rehydrated Content - artifact:{artifact}")
    assert "report-2.txt" in out[-2]["content"]
    assert "tokens truncated" in out[-2]["content"]
    assert recorder.last("compact.rehydrated")["tokens"] <= 500
    after = [*asked, {"role": "assistant", "content": "it says 2"}, {"role": "user", "content": "thank you"}]
    assert not any("Rehydrated" in str(item["content"]) for item in manager.preflight("s", after))
    assert manager.rerender("s", 2) == out


@pytest.mark.req("D-REH-1")
def test_rehydration_is_limited():
    """At most three artifacts per turn, none twice within the cooldown, and none for a partial id."""
    recorder = Recorder()
    manager, messages, _ = session(recorder, window=6000)
    ids = [record.artifact_id for record in manager.plan("s").externalizations]
    ask = [*messages, {"role": "user", "content": " ".join(ids)}]
    manager.preflight("s", ask)
    assert len(recorder.of("compact.rehydrated")) <= 3
    first = len(recorder.of("compact.rehydrated"))
    again = [*ask, {"role": "assistant", "content": "hm"}, {"role": "user", "content": f"again {ids[0]} and {ids[1]}x"}]
    manager.preflight("s", again)
    assert len(recorder.of("compact.rehydrated")) == first


@pytest.mark.req("D-REH-1")
def test_sensitive_content_is_only_read_explicitly():
    """Confidential content is not rehydrated. An event reports it, and reading requires permission."""
    recorder = Recorder()
    durability = {"run": ToolDurabilityPolicy(ToolDurability.ANCHORING, sensitivity="confidential")}
    manager, messages, _ = session(recorder, tool_durability=durability)
    artifact = manager.plan("s").externalizations[0].artifact_id
    out = manager.preflight("s", [*messages, {"role": "user", "content": f"show {artifact}"}])
    assert not any("Rehydrated" in str(item["content"]) for item in out)
    assert recorder.last("compact.rehydration_blocked")["details"]["sensitivity"] == "confidential"
    assert manager.read_artifact("s", artifact) is None
    context = SecurityContext("ann", None, frozenset({"artifact:read:confidential"}))
    assert "report-0.txt" in manager.read_artifact("s", artifact, context=context)


@pytest.mark.req("D-REH-2")
def test_rehydrated_content_is_not_in_the_log():
    """Rehydrated content is part of one prompt and never of the log."""
    turn = TurnContext(4)
    assert not turn.should_skip_aggressive_compaction()
    manager, messages, _ = session()
    artifact = manager.plan("s").externalizations[0].artifact_id
    manager.preflight("s", [*messages, {"role": "user", "content": f"show {artifact}"}])
    log = manager._session("s").thread
    assert not any("Rehydrated" in message.text for message in log)


@pytest.mark.req("D-REH-1")
def test_question_that_matches_a_hint_rehydrates_content():
    """A question that names an argument of the call matches its hint. An unrelated question does not."""
    from compact.planning.rehydration import is_named, matches_hint

    hint = 'read if you need the full output of read_file({"path": "src/app/main.py"})'
    assert matches_hint(hint, "what was in src/app/main.py again?")
    assert not matches_hint(hint, "what was in src/app/other.py again?")
    assert is_named("art-1f", "see art-1f.")
    assert not is_named("art-1f", "see art-1f3")


def read_many_files(renderer, count, **options):
    """Read files one after the other. Return the manager, its events and the last prompt."""
    recorder = Recorder()
    policy = CompactPolicy(
        hard_cap_buffer=200, story_pct=0, keep_recent_turns=1, keep_tool_io_pairs=1, renderer=renderer
    )
    config = CompactConfig("gpt-5", 8_000, policy=policy, exporter=recorder, **options)
    manager = CompactManager(config)
    history = [{"role": "user", "content": "Read them all. Never touch orders_2031."}]
    for number in range(count):
        history += tool_pair(number, f"File {number}: " + f"line {number} of the file is long. " * 130)
        sent = manager.preflight("s", history)
    return manager, recorder, sent


@pytest.mark.req("D-LAD-1", "S-TST-1")
@pytest.mark.parametrize("renderer", ["layered", "inplace", "bridge"])
def test_pointers_never_fill_the_window(renderer):
    """Pointers fold into the summary before they fill the window, and the summary names the newest."""
    manager, recorder, sent = read_many_files(renderer, 80, artifact_store=MemoryArtifactStore())
    records = manager.plan("s").externalizations
    assert len(records) > 60
    assert len(recorder.of("compact.pruned_messages")) < 40
    assert not recorder.of("compact.error")
    assert "orders_2031" in str(sent)
    folded = [record.artifact_id for record in records if record.is_folded]
    assert folded[-1] in str(sent)
    assert manager.read_artifact("s", folded[0]).endswith("is long. ")


@pytest.mark.req("D-REND-1", "D-REH-1")
@pytest.mark.parametrize("renderer", ["layered", "inplace", "bridge"])
def test_summary_names_the_artifacts_of_folded_pointers(renderer):
    """A folded pointer has a line in the summary and in the next one."""
    manager, _, _ = read_many_files(renderer, 8, artifact_store=MemoryArtifactStore())
    history = [*manager._session("s").host_list.items]
    first = manager.plan("s").externalizations[-1].artifact_id
    for round_ in range(2):
        for number in range(4):
            history.append({"role": "user", "content": f"{round_}.{number}: what do you think of it?"})
            history.append({"role": "assistant", "content": f"{round_}.{number}: I think that it is fine."})
        sent = manager.manual_compact("s", history)
        assert any(record.artifact_id == first and record.is_folded for record in manager.plan("s").externalizations)
        assert first in str(sent)


@pytest.mark.req("D-LAD-1")
def test_output_without_a_call_id_is_externalized():
    """Messages of document 000 have no call ids. The tool name in their meta is enough."""
    policy = CompactPolicy(hard_cap_buffer=200, story_pct=0, keep_tool_io_pairs=1, keep_recent_turns=1)
    secret = ToolDurabilityPolicy(ToolDurability.ANCHORING, sensitivity="restricted")
    store = MemoryArtifactStore()
    manager = CompactManager(
        CompactConfig("gpt-5", 6_000, policy=policy, artifact_store=store, tool_durability={"read": secret})
    )
    messages = []
    for number in range(6):
        messages += [Message("user", f"Read {number}."), Message("assistant", "I read it.")]
        messages.append(Message("tool", f"Page {number}. " * 400, {"tool_name": "read"}))
    manager.preflight("s", messages)
    records = manager.plan("s").externalizations
    assert records
    assert {store.get_metadata(record.artifact_id).sensitivity for record in records} == {"restricted"}


class FullStore(MemoryArtifactStore):
    """Fails every write."""

    def store(self, content, metadata):
        raise OSError("no space left on device")


class UnreadableStore(MemoryArtifactStore):
    """Fails every read."""

    def retrieve(self, artifact_id, requester_context=None):
        raise OSError("input/output error")


@pytest.mark.req("D-LAD-1", "D-ENV-1")
def test_failing_store_leaves_the_other_strategies():
    """Non-replayable results stay in the prompt, the rest is summarized, and an event reports the failure."""
    recorder = Recorder()
    paid = ToolDurabilityPolicy(ToolDurability.NON_REPLAYABLE)
    policy = CompactPolicy(hard_cap_buffer=200, story_pct=0, keep_tool_io_pairs=1, keep_recent_turns=1)
    config = CompactConfig(
        "gpt-5", 6_000, policy=policy, exporter=recorder, artifact_store=FullStore(), tool_durability={"search": paid}
    )
    manager = CompactManager(config)
    search = tool_pair(0, "EUR 1042. " * 150)
    search[0]["tool_calls"][0]["function"]["name"] = "search"
    messages = [{"role": "user", "content": "Look at everything."}, *search]
    for number in range(1, 9):
        messages += tool_pair(number, f"report-{number}.txt says {number} " + "detail " * 600)
    out = manager.preflight("s", messages)
    assert recorder.last("compact.error")["fallback"] == "compacted without externalizing"
    assert manager.plan("s").externalizations == ()
    assert manager.plan("s").summarizations
    assert search[1] in out


@pytest.mark.req("D-REH-1")
def test_failed_read_is_reported_as_blocked_rehydration():
    """If the store fails, the call continues without the content and an event reports it."""
    recorder = Recorder()
    manager, messages, _ = session(recorder, store=UnreadableStore())
    artifact = manager.plan("s").externalizations[0].artifact_id
    asked = [*messages, {"role": "user", "content": f"what does {artifact} say?"}]
    assert manager.preflight("s", asked)[-1] == asked[-1]
    assert "input/output error" in recorder.last("compact.rehydration_blocked")["details"]["reason"]


class AsyncStore:
    """A store with async methods."""

    def __init__(self):
        self.inner = MemoryArtifactStore()

    async def store(self, content, metadata):
        return self.inner.store(content, metadata)

    async def get_metadata(self, artifact_id):
        return self.inner.get_metadata(artifact_id)

    async def retrieve(self, artifact_id, requester_context=None):
        return self.inner.retrieve(artifact_id, requester_context)


@pytest.mark.req("D-ART-1", "D-REH-1")
async def test_async_store_works_with_async_methods():
    """Externalization, rehydration and reading await the store."""
    policy = CompactPolicy(hard_cap_buffer=200, story_pct=0, keep_tool_io_pairs=1, externalize_threshold_tokens=300)
    manager = CompactManager(CompactConfig("gpt-5", 6_000, policy=policy, artifact_store=AsyncStore()))
    messages = [{"role": "user", "content": "look at everything"}]
    for number in range(9):
        messages += tool_pair(number, f"report-{number}.txt says {number} " + "detail " * 600)
    await manager.apreflight("s", messages)
    artifact = manager.plan("s").externalizations[0].artifact_id
    asked = [*messages, {"role": "user", "content": f"what does {artifact} say?"}]
    out = await manager.apreflight("s", asked)
    assert "report-0.txt" in out[-2]["content"]
    assert "report-0.txt" in await manager.aread_artifact("s", artifact)


@pytest.mark.req("K-DUR-2")
def test_the_engine_sets_the_lifetime_and_the_key_of_artifacts(tmp_path):
    """`artifact_ttl_seconds` and `artifact_key_id` reach every stored artifact, which expires."""

    class Xor:
        def encrypt(self, data, key_id):
            return bytes(byte ^ len(key_id) for byte in data)

        decrypt = encrypt

    clock = Clock()
    clock.now = datetime.now(UTC)
    store = FileArtifactStore(tmp_path, cipher=Xor(), clock=clock)
    manager, _, _ = session(store=store, artifact_ttl_seconds=3600, artifact_key_id="key-1")
    artifact = manager.plan("s").externalizations[0].artifact_id
    metadata = store.get_metadata(artifact)
    assert (metadata.ttl_seconds, metadata.encryption_key_id) == (3600, "key-1")
    assert "report-0.txt" in manager.read_artifact("s", artifact)
    clock.now += timedelta(hours=2)
    assert manager.read_artifact("s", artifact) is None


@pytest.mark.req("K-DUR-3")
@pytest.mark.parametrize("damage", ["{", '{"metadata": {}}', "content"])
def test_a_corrupt_artifact_is_a_finding(tmp_path, damage):
    """A half-written file, a wrong structure or changed content: a warning to readers, and a blocked rehydration."""
    recorder = Recorder()
    manager, messages, _ = session(recorder, store=FileArtifactStore(tmp_path))
    artifact = manager.plan("s").externalizations[2].artifact_id
    file = next(tmp_path.rglob(f"{artifact}.json"))
    record = json.loads(file.read_text())
    changed = {**record, "content": base64.b64encode(b"something else").decode()}
    file.write_text(json.dumps(changed) if damage == "content" else damage)
    assert manager.read_artifact("s", artifact) is None
    assert recorder.last("compact.warning")["code"] == "artifact_corrupt"
    manager.preflight("s", [*messages, {"role": "user", "content": f"what does {artifact} say?"}])
    assert "is corrupt" in recorder.last("compact.rehydration_blocked")["details"]["reason"]


@pytest.mark.req("K-DUR-2")
def test_plans_and_artifacts_are_flushed_to_disk(tmp_path, monkeypatch):
    """Each write flushes the file and the folder that names it."""
    flushed = []
    fsync = os.fsync

    def spy(descriptor):
        flushed.append(os.fstat(descriptor).st_mode)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    FileArtifactStore(tmp_path / "a").store("content", ArtifactMetadata("t"))
    assert [stat.S_ISDIR(mode) for mode in flushed] == [False, True]
    flushed.clear()
    session(plan_store=FileCompactionStore(tmp_path / "p"))
    assert [stat.S_ISDIR(mode) for mode in flushed] == [False, True]


@pytest.mark.req("K-DUR-3")
@pytest.mark.parametrize("damage", ["", "{", "[]", "\x00\x01"])
def test_a_corrupt_plan_is_replaced_by_one_compaction(tmp_path, damage):
    """Another process finds a damaged file. It reports it, asks the summarizer once, and its plan can be loaded."""
    first, second, recorder = SpySummarizer(), SpySummarizer(), Recorder()
    messages = [Message("user", "start"), *chat_turns(40)]
    small_manager(plan_store=FileCompactionStore(tmp_path), summarizer=first).preflight("s", messages)
    file = next(tmp_path.rglob("00000001.json"))
    file.write_text(damage)
    store = FileCompactionStore(tmp_path)
    manager = small_manager(recorder, plan_store=store, summarizer=second)
    assert len(manager.preflight("s", messages)) < 30
    assert (len(first.seen), len(second.seen)) == (1, 1)
    errors = recorder.of("compact.error")
    assert [event["properties"]["fallback"] for event in errors] == ["replaced by the next plan"]
    plan, version = store.get_current_plan("s")
    assert version == 2
    third = SpySummarizer()
    again = small_manager(recorder, plan_store=FileCompactionStore(tmp_path), summarizer=third)
    assert again.preflight("s", [*messages, Message("user", "go on")])[-1].text == "go on"
    assert third.seen == []
    assert again.plan("s").summary_text == plan.summary_text
