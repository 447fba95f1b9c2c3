"""No line of a private key leaves the process, whatever is derived from the messages that contain it.

The keys are real RSA keys. Two tenants compact at the same time, and every sink is searched for both keys.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import sqlite3
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from builders import Recorder, SpySummarizer, chat_turns
from client.chat_endpoint import ChatEndpoint, completion
from compact import (
    AriadneExporter,
    AriadneStorage,
    CompactConfig,
    CompactManager,
    CompactPolicy,
    ConsoleExporter,
    DatabaseStorage,
    FileStorage,
    Message,
    MultiExporter,
    OTLPExporter,
    S3Storage,
)
from compact.adapters.plan_stores import FileCompactionStore
from compact.summarizers import BackgroundSummarizer, DiskSummaryCache, ModelSummarizer
from receiver import Receiver

TENANTS = ("acme", "globex")
STYLES = ("task_state", "decision_log", "code_delta", "brief")
RENDERERS = ("layered", "inplace", "bridge")


@cache
def private_key(tenant: str) -> str:
    """Return a new RSA key in PEM format."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return pem.decode()


def conversation(tenant: str) -> list[dict[str, Any]]:
    """A session in which the key appears whole, split over messages, over parts, in arguments and in tool output."""
    key = private_key(tenant)
    half = key.index("\n", len(key) // 2)
    arguments = json.dumps({"path": "id_rsa", "content": key})
    call = {"id": "c1", "type": "function", "function": {"name": "write_file", "arguments": arguments}}
    output = json.dumps({"path": "id_rsa", "private": key, "ok": True})
    history: list[dict[str, Any]] = [
        {"role": "user", "content": f"Always deploy {tenant} with this key, never with another one:\n{key}Thanks."},
        {"role": "assistant", "content": "I will use it for every deployment."},
        {"role": "user", "content": f"Here is the first half of it again:\n{key[:half]}"},
        {"role": "user", "content": f"{key[half:]}\nand that was the second half."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": output},
        {"role": "user", "content": [{"type": "text", "text": key[:half]}, {"type": "text", "text": key[half:]}]},
    ]
    return [*history, *(message.to_dict() for message in chat_turns(12))]


def leaks(*sources: Any) -> list[str]:
    """Return the lines of any tenant's key in texts, bytes, and all files under paths."""
    blob = "\n".join(text for source in sources for text in _texts(source)).replace("\\n", "\n").replace("\\\\", "\\")
    lines = [line for tenant in TENANTS for line in private_key(tenant).splitlines()[1:-1]]
    return [line for line in lines if line[:24] in blob or (len(line) > 48 and line[-24:] in blob)]


def _texts(source: Any) -> Iterator[str]:
    if isinstance(source, Path):
        for file in sorted(path for path in source.rglob("*") if path.is_file()):
            yield from _texts(file.read_bytes())
    elif isinstance(source, bytes):
        yield source.decode("utf-8", "replace")
        start = source.find(b"\x1f\x8b\x08")
        while start >= 0:
            # A spool file contains compressed bodies with headers between them. A body can contain the three bytes too.
            with contextlib.suppress(zlib.error):
                yield zlib.decompressobj(31).decompress(source[start:]).decode("utf-8", "replace")
            start = source.find(b"\x1f\x8b\x08", start + 3)
    else:
        yield source if isinstance(source, str) else json.dumps(source, default=str)


def compact_both(**options: Any) -> CompactManager:
    """Compact a session of each tenant twice."""
    policy = CompactPolicy(hard_cap_buffer=100, keep_recent_turns=2, **options.pop("policy", {}))
    manager = CompactManager(CompactConfig("gpt-5", 4_000, policy=policy, **options))
    histories = {tenant: conversation(tenant) for tenant in TENANTS}
    for note in ("first", "second"):
        for tenant, history in histories.items():
            manager.manual_compact(tenant, history, note=note)
            # The summary of equal spans with equal room would be cached for both.
            history.append({"role": "user", "content": f"Go on with {tenant}."})
            history += [message.to_dict() for message in chat_turns(8, start=20)]
            history.append({"role": "user", "content": f"Use it again:\n{private_key(tenant)}"})
    return manager


@pytest.mark.req("S-RED-1", "A-PRI-1")
@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("style", STYLES)
def test_no_line_of_a_key_is_in_events_archives_or_plans(style: str, renderer: str, tmp_path: Path) -> None:
    """This covers all templates and layouts, with the files of the archive and of the plan store."""
    recorder, console = Recorder(), io.StringIO()
    compact_both(
        policy={"strategy": style, "renderer": renderer},
        exporter=MultiExporter(recorder, ConsoleExporter(console)),
        storage=FileStorage(tmp_path / "archive"),
        plan_store=FileCompactionStore(tmp_path / "plans"),
    )
    assert len(recorder.of("compact.pruned_messages")) == 4
    assert len(list((tmp_path / "archive").rglob("transcript-*.jsonl"))) == 4
    assert leaks(recorder.events, console.getvalue(), tmp_path) == []
    assert "<REDACTED>" in (tmp_path / "archive/acme/transcript-pre-compact-001.jsonl").read_text()


@pytest.mark.req("S-RED-1")
@pytest.mark.parametrize("ladder", [("clear", "drop"), ("externalize", "summarize"), ("drop",)])
def test_no_line_of_a_key_is_in_the_records_of_other_strategies(ladder: tuple[str, ...], tmp_path: Path) -> None:
    """Preserved fields, the index of dropped spans and pointers are derived from redacted text too."""
    from compact.adapters.artifact_stores import MemoryArtifactStore
    from compact.planning.tool_results.durability import ToolDurability, ToolDurabilityPolicy

    durability = ToolDurabilityPolicy(ToolDurability.ANCHORING, must_preserve_fields=("private", "path"))
    recorder, artifacts = Recorder(), MemoryArtifactStore()
    compact_both(
        policy={"ladder": ladder},
        exporter=recorder,
        plan_store=FileCompactionStore(tmp_path),
        artifact_store=artifacts,
        tool_durability={"write_file": durability},
    )
    assert leaks(recorder.events, tmp_path) == []


@pytest.mark.req("S-RED-1", "A-PRI-1")
@pytest.mark.parametrize("is_background", [False, True])
def test_no_line_of_a_key_is_sent_to_a_model(is_background: bool, tmp_path: Path) -> None:
    """Requests to an endpoint contain placeholders, also on the loopback interface, and the cache on disk too."""
    recorder = Recorder()
    with ChatEndpoint() as endpoint:
        endpoint.respond(completion({"current_task": "deploy", "constraints": ["Always deploy with this key."]}))
        model = ModelSummarizer("small", base_url=endpoint.url, api_key="x", cache=DiskSummaryCache(tmp_path / "cache"))
        summarizer = BackgroundSummarizer(model) if is_background else model
        compact_both(summarizer=summarizer, exporter=recorder)
        assert len(endpoint.requests) >= 4
        assert leaks(endpoint.requests, recorder.events, tmp_path) == []
        assert "REDACTED_1_001" in str(endpoint.requests)


@pytest.mark.req("S-RED-1")
def test_a_model_summarizer_without_a_session_redacts_too() -> None:
    """A caller who passes raw messages gets a summary with the values, but the endpoint does not get them."""
    with ChatEndpoint() as endpoint:
        endpoint.respond(completion({"current_task": "log in with REDACTED_0_001"}))
        model = ModelSummarizer("small", base_url=endpoint.url, api_key="x")
        summary = model.summarize([Message("user", "The password: hunter2-Qz81 is for staging.")], "task_state", ())
        assert "hunter2-Qz81" not in str(endpoint.requests)
    assert "log in with hunter2-Qz81" in summary.text


@pytest.mark.req("S-RED-1")
def test_a_custom_summarizer_gets_redacted_messages_and_can_leak_nothing(tmp_path: Path) -> None:
    """If it returns a key that it knows from elsewhere, the key is in the prompt and nowhere else."""
    recorder = Recorder()
    summarizer = SpySummarizer(f"Deploy with this key:\n{private_key('acme')}", "second", "third", "fourth")
    manager = compact_both(summarizer=summarizer, exporter=recorder, plan_store=FileCompactionStore(tmp_path))
    assert leaks([message.to_dict() for messages in summarizer.seen for message in messages]) == []
    assert leaks(recorder.events, tmp_path) == []
    assert manager.plan("acme") is not None


@pytest.mark.req("S-RED-1", "A-PRI-1")
@pytest.mark.parametrize("is_up", [True, False])
def test_no_line_of_a_key_is_in_requests_or_in_the_spool(is_up: bool, tmp_path: Path) -> None:
    """Events and transcripts are redacted before they are written to disk or sent."""
    with Receiver() as receiver:
        url = receiver.url if is_up else "http://127.0.0.1:1"
        exporter = AriadneExporter(url, "key", spool_dir=tmp_path / "events")
        storage = AriadneStorage(url, "key", spool_dir=tmp_path / "transcripts")
        compact_both(exporter=exporter, storage=storage)
        if is_up:
            assert exporter.flush(10) and storage.flush(10)
            assert len(receiver.requests) > 4
        exporter.close(0.1)
        storage.close(0.1)
        assert leaks(*(request.raw for request in receiver.requests), tmp_path) == []
    assert is_up or any(path.is_file() and path.stat().st_size for path in (tmp_path / "transcripts").rglob("*"))


@pytest.mark.req("S-RED-1", "A-PRI-1")
def test_no_line_of_a_key_is_in_a_database_a_bucket_or_a_span(tmp_path: Path) -> None:
    """The other archives, and OpenTelemetry spans with their payload."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    class Bucket:
        def __init__(self) -> None:
            self.bodies: list[bytes] = []

        def put_object(self, *, Body: bytes, **options: Any) -> None:
            self.bodies.append(Body)

        def get_paginator(self, name: str) -> Any:
            return self

        def paginate(self, **options: Any) -> list[dict[str, Any]]:
            return []

    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    compact_both(
        exporter=OTLPExporter(tracer_provider=provider, include_payload=True),
        storage=DatabaseStorage(lambda: sqlite3.connect(tmp_path / "archive.db")),
    )
    bucket = Bucket()
    storage = S3Storage("bucket", client=bucket)
    compact_both(storage=storage)
    storage.close()
    spans = [span.to_json() for span in memory.get_finished_spans()]
    assert spans and any(b"transcript" in body or b"role" in body for body in bucket.bodies)
    assert leaks(spans, tmp_path, *bucket.bodies) == []


@pytest.mark.req("S-RED-1")
@pytest.mark.parametrize("renderer", RENDERERS)
def test_the_agent_still_has_its_secret_after_a_compaction(renderer: str, tmp_path: Path) -> None:
    """The values are restored in the prompt, and each tenant has its own. The plan on disk has placeholders."""
    recorder = Recorder()
    policy = CompactPolicy(hard_cap_buffer=100, keep_recent_turns=2, renderer=renderer)
    manager = CompactManager(
        CompactConfig("gpt-5", 3_000, policy=policy, exporter=recorder, plan_store=FileCompactionStore(tmp_path))
    )
    prompts = {}
    for tenant in TENANTS:
        rule = f"log in to the {tenant} registry with password: hunter2-{tenant}-Qz81 please."
        # The bridge renderer keeps user messages, so the agent says it.
        history = [Message("user", "go"), Message("assistant", f"TODO: {rule}"), *chat_turns(25)]
        prompt = manager.manual_compact(tenant, history)
        assert history[1] not in prompt
        prompts[tenant] = "\n".join(message.text for message in prompt)
    assert "password: hunter2-acme-Qz81 please" in prompts["acme"] and "globex" not in prompts["acme"]
    assert "password: hunter2-globex-Qz81 please" in prompts["globex"] and "acme" not in prompts["globex"]
    stored = "".join(path.read_text() for path in tmp_path.rglob("*.json"))
    assert "REDACTED_2_001" in stored
    assert "hunter2-" not in stored + json.dumps(recorder.events)


def test_another_process_restores_the_values_from_the_summary_it_is_shown(tmp_path: Path) -> None:
    """The host shows the compacted list to a new process. Its plan has placeholders, and the list has the values."""
    history: list[Message] = [
        Message("user", "Always log in with password: hunter2-Qz81 please."),
        *chat_turns(25),
    ]

    def manager(recorder: Recorder) -> CompactManager:
        policy = CompactPolicy(hard_cap_buffer=100, keep_recent_turns=2)
        store = FileCompactionStore(tmp_path)
        return CompactManager(CompactConfig("gpt-5", 3_000, policy=policy, plan_store=store, exporter=recorder))

    prompt = manager(Recorder()).manual_compact("s", history)
    recorder = Recorder()
    later = manager(recorder)
    shown = later.preflight("s", [*prompt, *chat_turns(1, start=90)])
    assert shown[: len(prompt)] == prompt
    again = later.manual_compact("s", [*shown, *chat_turns(25, start=100)])
    assert "password: hunter2-Qz81 please" in "\n".join(message.text for message in again)
    assert "hunter2-Qz81" not in json.dumps(recorder.events) + "".join(p.read_text() for p in tmp_path.rglob("*.json"))


def test_gzip_bodies_are_searched() -> None:
    """The search itself finds a key in a compressed spool."""
    body = gzip.compress(private_key("acme").encode())
    assert leaks(b"header" + body) != []
    assert leaks(b"\x1f\x8b\x08 by chance" + body) != []
