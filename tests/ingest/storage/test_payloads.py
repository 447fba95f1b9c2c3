"""The stored form of payloads: round trips, damaged bytes, rows of earlier versions, and their conversion."""

from __future__ import annotations

import hashlib
import json
import random
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
import pytest
import zstandard
from django.apps import apps
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from people import create_project, create_session, data_bytes

from ingest.cells import cells_of
from ingest.decoding.records import Span as Record
from ingest.decoding.span_stats import NO_STATS
from ingest.decoding.tool_arguments import arguments_hash
from ingest.models import Session, Span
from ingest.storage import dictionaries, payloads
from ingest.storage.merge import merge
from viewer.compactions import queries as compaction_queries
from viewer.live.queries import newest_spans
from viewer.mcp import session_texts
from viewer.search import indexer
from viewer.search.queries import search
from viewer.sessions import queries
from viewer.visibility.public_parts import Visibility

SUMMARY = "compact.summary_created"
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
    for pack in (payloads.pack, partial(payloads.pack, kind="compact.check"), payloads.pack_data):
        stored = pack(encoded)
        assert payloads.unpack(stored) == encoded
        assert payloads.size_of(stored) == len(encoded)
        assert len(stored) <= len(encoded) + 1


def large_summary() -> dict[str, Any]:
    chance = random.Random(1)
    words = ["".join(chance.choices("aeinorst", k=chance.randrange(2, 9))) for _ in range(300)]
    lines = [" ".join(chance.choices(words, k=12)) for _ in range(400)]
    return {"summary": "\n".join(lines), "structured": [{"text": line} for line in lines]}


def test_large_payloads_of_compaction_events_are_compressed_more() -> None:
    """A summary and its structured form repeat each other."""
    payload = json.dumps(large_summary()).encode()
    assert len(payloads.pack(payload, SUMMARY)) < 0.95 * len(payloads.pack(payload))


def test_a_merged_payload_is_stored_like_one_that_came_whole() -> None:
    """The summary of a compaction arrives in two versions of its event."""
    whole = large_summary()
    parts = [payloads.pack(msgspec.json.encode({name: value}), SUMMARY) for name, value in whole.items()]
    one, other = (
        Record("t", "s", None, SUMMARY, "", "", 0, end, payloads.pack_data(b"{}"), payload, None, NO_STATS)
        for end, payload in zip((2, 1), parts, strict=True)
    )
    assert merge(one, other).payload == payloads.pack(msgspec.json.encode(whole), SUMMARY)


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


@pytest.mark.parametrize("value", ARGUMENTS, ids=repr)
def test_the_hash_of_arguments_ignores_the_order_of_keys_and_where_they_are(value: Any) -> None:
    """Tracers send arguments in the payload or in the data, and under several names."""
    expected = arguments_hash("tool", {}, {"arguments": value})
    assert expected is not None
    assert arguments_hash("tool", {"input.value": in_reverse(value)}, None) == expected
    assert arguments_hash("tool", {"input": value}, {"input": None}) == expected
    assert arguments_hash("tool", {}, {"arguments": [value, 1]}) != expected
    assert arguments_hash("generation", {}, {"arguments": value}) is None


def in_reverse(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: in_reverse(value[key]) for key in reversed(value)}
    return [in_reverse(item) for item in value] if isinstance(value, list) else value


def add_spans(session: Session, secret: str) -> None:
    """Add a compaction between two equal tool calls, and an answer. Each payload contains `secret`."""
    now = timezone.now() - timedelta(minutes=10)
    parts: list[tuple[str, str, Any]] = [
        ("t1", "tool", {"arguments": {"path": secret, "b": 1}}),
        ("c", "compact.pruned_messages", {"ledger": [], "after": [], "note": secret}),
        ("t2", "tool", {"arguments": {"b": 1, "path": secret}}),
        ("g", "generation", {"input": "first?", "output": [{"role": "assistant", "content": f"It is {secret}."}]}),
    ]
    for number, (span_id, kind, payload) in enumerate(parts):
        data = {"triggered": True, "model": "gpt-5", "turn": number}
        Span.objects.create(
            session_key=session.session_key, session_day=session.day, trace_id="t", span_id=span_id, seq=number + 2,
            cell=session.cell, kind=kind, name=kind, started_at=now + timedelta(minutes=number),
            payload=payloads.pack(json.dumps(payload).encode()), data=data_bytes(data),
            arguments_hash=arguments_hash(kind, {}, payload),
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
def test_every_reader_understands_the_stored_form() -> None:
    """Two projects with the same session id. Neither reads what belongs to the other."""
    secrets = {"ours": "Planted-Sesame", "theirs": "Planted-Barley"}
    for slug, secret in secrets.items():
        add_spans(create_session(create_project(slug), session_id="run"), secret)
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


def _project(slug: str) -> Any:
    return apps.get_model("ingest", "Project").objects.get(slug=slug)
