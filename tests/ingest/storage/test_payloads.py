"""The stored form of payloads: round trips, damaged bytes, rows of earlier versions, and their conversion."""

from __future__ import annotations

import hashlib
import importlib
import json
import random
from datetime import timedelta
from io import StringIO
from typing import Any

import msgspec
import pytest
import zstandard
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from people import create_project, create_session

from ingest.cells import cells_of
from ingest.decoding.records import Span as Record
from ingest.decoding.span_stats import NO_STATS
from ingest.decoding.tool_arguments import arguments_hash
from ingest.models import Session, Span
from ingest.storage import dictionaries, payload_conversion, payloads
from ingest.storage.merge import merge
from viewer.compactions import queries as compaction_queries
from viewer.live.queries import newest_spans
from viewer.mcp import session_texts
from viewer.search import indexer
from viewer.search.queries import search
from viewer.sessions import queries
from viewer.visibility.public_parts import Visibility

from ..conftest import Wire

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["input", "output", "x"]), values), st.integers(0, 300) | st.just(20_000))
def test_a_payload_is_read_as_it_was_written(payload: dict[str, Any], padding: int) -> None:
    """Below and above the size from which payloads are compressed."""
    encoded = msgspec.json.encode({**payload, "padding": "a" * padding})
    for pack in (payloads.pack, payloads.pack_event, payloads.pack_data):
        stored = pack(encoded)
        assert payloads.unpack(stored) == encoded
        assert payloads.size_of(stored) == len(encoded)
        assert len(stored) <= len(encoded) + 1


def test_large_payloads_of_compaction_events_are_compressed_more() -> None:
    """A summary and its structured form repeat each other."""
    chance = random.Random(1)
    words = ["".join(chance.choices("aeinorst", k=chance.randrange(2, 9))) for _ in range(300)]
    lines = [" ".join(chance.choices(words, k=12)) for _ in range(400)]
    payload = json.dumps({"summary": "\n".join(lines), "structured": [{"text": line} for line in lines]}).encode()
    assert len(payloads.pack_event(payload)) < 0.95 * len(payloads.pack(payload))


def test_large_payloads_are_compressed_and_nul_characters_are_replaced() -> None:
    """Text columns, such as those of the search index, cannot contain NUL."""
    assert len(payloads.pack(json.dumps({"text": "all work and no play " * 200}).encode())) < 200
    assert payloads.decode(payloads.pack(b'{"a":"x\\u0000y"}')) == {"a": "x\ufffdy"}


@given(st.binary(max_size=80), st.sampled_from([b"", b"\x01", b"\x02", b"\x02(\xb5/\xfd", b"\x07"]))
def test_damaged_bytes_become_a_message(damaged: bytes, start: bytes) -> None:
    """Whatever the bytes are, reading gives a value. Merging keeps the stored bytes."""
    stored = start + damaged
    value = payloads.decode(stored)
    if start == b"\x07":
        assert value == {
            "unreadable": f"This payload is stored with {len(stored)} bytes that cannot be read. Unknown format 07."
        }
    old, new = (
        Record("t", "s", None, "tool", "", "", 0, 1, payloads.pack(b"{}"), payload, None, NO_STATS)
        for payload in (stored, payloads.pack(b'{"output":1}'))
    )
    if isinstance(value, dict) and "unreadable" in value:
        assert merge(old, new).payload == stored


def test_cut_and_oversized_payloads_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    """A frame that announces more bytes than any body has is not decompressed."""
    stored = payloads.pack(json.dumps({"text": "word " * 100}).encode())
    for damaged in (stored[:-3], stored[:4], stored + b"x", b""):
        assert "cannot be read" in payloads.decode(damaged)["unreadable"]
    announced = zstandard.ZstdCompressor().compress(b"a" * 1000)
    huge = b"\x02" + announced[:4] + bytes([0b11100000]) + (2**60).to_bytes(8, "little") + announced[7:]
    assert "268,435,456" in payloads.decode(huge)["unreadable"]
    assert len([record for record in caplog.records if "payload_unreadable" in record.message]) == 5


def test_data_is_compressed_with_a_dictionary_and_names_it() -> None:
    """Values without a dictionary, as earlier versions wrote them, stay readable."""
    data = {"model": "gpt-5", "trigger": "preflight", "max_tokens": 32000, "triggered": False, "tokens_before": 19735}
    encoded = msgspec.json.encode(data)
    stored = payloads.pack_data(encoded)
    assert zstandard.get_frame_parameters(stored[1:]).dict_id == dictionaries.CURRENT
    assert len(stored) < len(encoded) / 2
    earlier = b"\x02" + zstandard.ZstdCompressor().compress(encoded)
    assert payloads.decode(stored) == payloads.decode(earlier) == data
    assert payloads.decode_fields(stored, ["model", "missing"]) == {"model": "gpt-5"}


def test_a_missing_dictionary_is_a_message_and_never_an_empty_value(caplog: pytest.LogCaptureFixture) -> None:
    """For example a row that a newer version wrote, read after a downgrade. Merging leaves its bytes alone."""
    samples = [json.dumps({"number": number, "text": f"sample {number * 7}"}).encode() for number in range(2_000)]
    unknown = zstandard.train_dictionary(1_024, samples, dict_id=7)
    stored = b"\x02" + zstandard.ZstdCompressor(dict_data=unknown).compress(samples[0])
    for value in (payloads.decode(stored), payloads.decode_data(stored), payloads.decode_fields(stored, ["number"])):
        assert "needs the compression dictionary 7" in value["unreadable"]
    assert "payload_unreadable" in caplog.text
    old, new = (
        Record("t", "s", None, "tool", "", "", 0, ended_us, data, None, None, NO_STATS)
        for ended_us, data in ((5, stored), (None, payloads.pack(b'{"a":1}')))
    )
    assert merge(old, new).data == stored


def test_released_dictionaries_are_never_changed() -> None:
    """Stored values cannot be read without the exact bytes. A new dictionary gets the next number."""
    digests = {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in dictionaries.FOLDER.iterdir()}
    assert digests == {"1": "9bf4f5a34fee6acc7066872f4140e779a7a5c47c4c8b2955ed25b47945740afa"}
    assert all(dictionaries.load(int(number)).dict_id() == int(number) for number in digests)


def test_large_payloads_are_left_out_by_their_real_size() -> None:
    stored = payloads.pack(json.dumps({"text": "a" * 5_000}).encode())
    assert payloads.decode_up_to(stored, 5_100) == {"text": "a" * 5_000}
    assert payloads.decode_up_to(stored, 4_000) is None
    assert payloads.decode_up_to(None, 10) is None


ARGUMENTS: list[Any] = [
    "plain",
    '{"path": "a.py"}',
    "",
    'Zoë \u2028 \x7f \x1f \t\n"quoted" \\ /',
    7,
    True,
    [1, "two", None, {"b": 1, "a": 2}],
    {"path": "a.py"},
    {"bb": 1, "a": {"zz": [], "y": {}}, "é": 1.5, "c": None},
]


@pytest.mark.django_db
@pytest.mark.parametrize("value", ARGUMENTS, ids=repr)
def test_the_hash_of_arguments_is_that_of_rows_of_earlier_versions(value: Any) -> None:
    """A session may have rows of both. The expression computes the hash from the jsonb column."""
    columns = "SELECT NULL::bigint AS arguments_hash, %s::jsonb AS payload, %s::jsonb AS data"
    statement = f"SELECT {queries.ARGUMENTS_HASH} FROM ({columns}) s"
    for payload, data in (
        ({"arguments": value}, {}),
        (None, {"input.value": value}),
        ({"input": None}, {"input": value}),
    ):
        with connection.cursor() as cursor:
            cursor.execute(statement, [json.dumps(payload), json.dumps(data)])
            assert cursor.fetchone()[0] == arguments_hash("tool", data, payload)
    assert arguments_hash("generation", {}, {"arguments": value}) is None


def add_spans(session: Session, secret: str, form: str) -> None:
    """Add a compaction between two equal tool calls, and an answer. Each payload contains `secret`."""
    now = timezone.now() - timedelta(minutes=10)
    parts: list[tuple[str, str, Any]] = [
        ("t1", "tool", {"arguments": {"path": secret, "b": 1}}),
        ("c", "compact.pruned_messages", {"ledger": [], "after": [], "note": secret}),
        ("t2", "tool", {"arguments": {"b": 1, "path": secret}}),
        ("g", "generation", {"input": "first?", "output": [{"role": "assistant", "content": f"It is {secret}."}]}),
    ]
    for number, (span_id, kind, payload) in enumerate(parts):
        encoded = json.dumps(payload).encode()
        is_old = form == "jsonb" or (form == "both" and number == 0)
        data = {"triggered": True, "model": "gpt-5", "turn": number}
        columns = {"payload": payload, "data": data} if is_old else {
            "packed_payload": payloads.pack(encoded), "packed_data": payloads.pack_data(json.dumps(data).encode()),
            "arguments_hash": arguments_hash(kind, {}, payload),
        }  # fmt: skip
        Span.objects.create(
            session_key=session.session_key, session_day=session.day, trace_id="t", span_id=span_id, seq=number + 2,
            cell=session.cell, kind=kind, name=kind, started_at=now + timedelta(minutes=number),
            **columns,
        )  # fmt: skip
    session.last_seq, session.span_count = 5, 5
    session.save()


def read_all(session: Session, secret: str) -> dict[str, Any]:
    """Read the payloads of a session in every way that pages, search and exports do."""
    session_texts._indexes.clear()
    indexer.catch_up(session.project_id)
    ((compaction, _),) = queries.spans_with_arguments(session, ["t:c"])
    start = compaction.started_at
    assert start is not None
    span = queries.span(session, "t:g", with_payload=True)
    rows = sorted((row for row, _ in queries.spans_with_arguments(session, ["t:t1", "t:g"])), key=lambda row: row.key)
    results = search({session.project_id: Visibility.CONTENT}, secret, limit=20).results
    return {
        "span": (span.has_payload, span.payload) if span else None,
        "arguments": sorted(queries.spans_with_arguments(session, ["t:t1", "t:t2"]), key=lambda item: item[0].key),
        "payload": compaction_queries.payload(session, rows[0]),
        "payloads": compaction_queries.payloads(session, rows),
        "repeats": compaction_queries.repeated_calls(session, Visibility.CONTENT, start, None),
        "hidden repeats": compaction_queries.repeated_calls(session, Visibility.METADATA, start, None),
        "conversation": compaction_queries.conversation(session, start, None),
        "found": sorted((result.type, result.span.span_id if result.span else "") for result in results),
        "data": [span.data for span in queries.spans_page(session, Visibility.CONTENT, after=1, limit=9)],
        "live": [span.data for _, span in newest_spans(session.project_id, Visibility.CONTENT, limit=9)],
        "texts": [source.text for source in session_texts._sources(session)],
    }


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("form", ["packed", "jsonb", "both"])
def test_every_reader_understands_both_forms(form: str) -> None:
    """Two projects with the same session id. Neither reads what belongs to the other, before and after conversion."""
    secrets = {"ours": "Planted-Sesame", "theirs": "Planted-Barley"}
    for slug, secret in secrets.items():
        add_spans(create_session(create_project(slug), session_id="run"), secret, form)
    sessions = {slug: Session.objects.get(cell__in=cells_of(row.pk)) for slug in secrets for row in [_project(slug)]}
    before = {slug: read_all(sessions[slug], secret) for slug, secret in secrets.items()}
    for slug, secret in secrets.items():
        readings = before[slug]
        assert readings["span"] == (
            True,
            {"input": "first?", "output": [{"role": "assistant", "content": f"It is {secret}."}]},
        )
        assert [text for _, text in readings["arguments"]] == [json.dumps({"b": 1, "path": secret})] * 2
        (repeat,) = readings["repeats"]
        assert (repeat.before.span_id, repeat.again.span_id, repeat.times) == ("t1", "t2", 1)
        assert secret in repeat.arguments
        assert secret not in repr(readings["hidden repeats"])
        assert [utterance.text for utterance in readings["conversation"]] == ["first?", f"It is {secret}."]
        assert [data["turn"] for data in readings["data"]] == [0, 1, 2, 3]
        assert ("span", "t1") in readings["found"] and secret in " ".join(readings["texts"])
        other = secrets["theirs" if slug == "ours" else "ours"]
        assert other not in repr(readings)
    out = StringIO()
    call_command("pack_payloads", stdout=out)
    assert out.getvalue().strip() == f"{ {'packed': 0, 'jsonb': 8, 'both': 2}[form] } spans converted"
    assert not Span.objects.filter(payload__isnull=False).exists()
    assert not Span.objects.filter(data__isnull=False).exists()
    assert {slug: read_all(sessions[slug], secret) for slug, secret in secrets.items()} == before
    assert sum(payload_conversion.convert()) == 0


def _project(slug: str) -> Any:
    return apps.get_model("ingest", "Project").objects.get(slug=slug)


@pytest.mark.django_db(transaction=True)
def test_a_conversion_continues_after_a_stop_and_leaves_changed_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch is committed. A row that got a new number since it was read has new content."""
    monkeypatch.setattr(payload_conversion, "_BATCH", 2)
    session = create_session(create_project("ours"), session_id="run")
    add_spans(session, "Planted-Sesame", "jsonb")
    batches = payload_conversion.convert()
    assert next(batches) == 2
    batches.close()
    assert Span.objects.filter(payload__isnull=False).count() == 2
    read = payload_conversion._convert_row

    def change_while_reading(row: Any) -> Any:
        Span.objects.filter(span_id="t2").update(seq=99, payload={"arguments": "newer"})
        return read(row)

    monkeypatch.setattr(payload_conversion, "_convert_row", change_while_reading)
    assert sum(payload_conversion.convert()) == 1
    assert Span.objects.get(span_id="t2").payload == {"arguments": "newer"}
    monkeypatch.undo()
    assert sum(payload_conversion.convert()) == 1
    assert payloads.decode(bytes(Span.objects.get(span_id="t2").packed_payload or b"")) == {"arguments": "newer"}


def test_new_data_is_merged_with_a_row_of_an_earlier_version(wire: Wire, name: str) -> None:
    """The stored payload is jsonb. The end of the span adds to it, and the row then has the new form only."""
    span = {"type": "span", "trace_id": name, "span_id": "a", "kind": "tool", "group_id": name}
    wire.send({**span, "started_at": "2026-11-16T04:00:00Z"})
    wire.rows(
        "UPDATE ingest_span SET payload = %s::jsonb, packed_payload = NULL, data = %s::jsonb, packed_data = NULL"
        " WHERE trace_id = %s RETURNING 1",
        json.dumps({"arguments": {"path": "a.py"}, "output": "old"}),
        json.dumps({"model": "gpt-5", "turn": 1}),
        name,
    )
    end = {**span, "ended_at": "2026-11-16T04:00:01Z", "payload": {"output": "done"}, "data": {"turn": 2}}
    wire.send(end)
    (row,) = wire.rows("SELECT * FROM ingest_span WHERE trace_id = %s", name)
    assert row["payload"] is None and row["data"] == {"model": "gpt-5", "turn": 2}
    assert payloads.decode(row["packed_payload"]) == {"arguments": {"path": "a.py"}, "output": "done"}
    assert row["arguments_hash"] == arguments_hash("tool", {}, {"arguments": {"path": "a.py"}})
    wire.send(end)
    assert wire.rows("SELECT seq FROM ingest_span WHERE trace_id = %s", name) == [{"seq": row["seq"]}]


@pytest.mark.django_db(transaction=True)
def test_columns_are_added_to_partitions_and_not_removed_while_they_have_payloads() -> None:
    """Going back would lose the payloads, so it is refused. Rows of earlier versions stay readable."""
    session = create_session(create_project("ours"), session_id="run", text="Planted-Sesame")
    migration = importlib.import_module("ingest.migrations.0018_packed_payload")
    with pytest.raises(RuntimeError, match="would delete the payloads"), connection.schema_editor() as editor:
        migration.refuse_to_lose_payloads(apps, editor)
    Span.objects.filter(session_key=session.session_key).update(packed_payload=None, payload={"prompt": "old"})
    with connection.schema_editor() as editor:
        migration.refuse_to_lose_payloads(apps, editor)
        editor.execute(migration.BACKWARD)
        editor.execute(migration.FORWARD)
    span = queries.span(session, "a", with_payload=True)
    assert span is not None and span.payload == {"prompt": "old"}


@pytest.mark.django_db(transaction=True)
def test_packed_data_is_not_removed_while_a_span_needs_it() -> None:
    """Rows of earlier versions, and partitions that exist already, stay readable."""
    session = create_session(create_project("ours"), session_id="run", text="Planted-Sesame")
    migration = importlib.import_module("ingest.migrations.0020_packed_data")
    spans = Span.objects.filter(session_key=session.session_key)
    spans.update(packed_data=payloads.pack_data(b'{"turn": 3}'), data=None)
    with pytest.raises(RuntimeError, match="would delete the data"), connection.schema_editor() as editor:
        migration.refuse_to_lose_data(apps, editor)
    spans.update(packed_data=None, data={"turn": 4})
    with connection.schema_editor() as editor:
        migration.refuse_to_lose_data(apps, editor)
        editor.execute(migration.BACKWARD)
        editor.execute(migration.FORWARD)
    span = queries.span(session, "a", with_payload=False)
    assert span is not None and span.row.data == {"turn": 4}
    # The partition existed before the column, and accepts rows of the new form.
    spans.update(packed_data=payloads.pack_data(b'{"turn": 5}'), data=None)
    span = queries.span(session, "a", with_payload=False)
    assert span is not None and span.row.data == {"turn": 5}
