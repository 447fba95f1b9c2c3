"""Every text of an event passes redaction before anything is made of it: figures, ids, kinds, keys and hashes."""

from __future__ import annotations

import base64
import json
import random
import string
from typing import Any

import msgspec
import pytest

from ingest.decoding.door.project_rules import ProjectRules
from ingest.decoding.door.pseudonyms import PREFIX, clean_id, project_key
from ingest.decoding.records import Span, Trace
from ingest.decoding.span_stats import HIDDEN_MODEL
from ingest.http.decode_jobs import Format, decode_events
from ingest.storage.payloads import unpack

SECRET = "ghp_016C7kF5vN2mQ8rT4xZ9bL3wY6dJ1sHa0Pq2"
SECRETS = [
    SECRET,
    "AKIAQYLPMN5HFIQR7XYA",
    "sk-ant-api03-Aa1Bb2Cc3Dd4Ee5Ff6Gg7Hh8Ii9Jj0Kk1Ll2Mm3Nn4Oo5Pp6",
    "xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.Qz86Qz86Qz86Qz86Qz86Qz86Qz86Qz8",
    "postgres://admin:hunter2-url-Qz85@db.internal/prod",
    "password=hunter2-text-Qz82",
]
RULES = ProjectRules(project_key("server", 1))
IDS = ("trace_id", "span_id", "parent_id", "session_id")
SPAN = {"type": "span", "trace_id": "t1", "span_id": "s1", "parent_id": "p1", "session_id": "a1", "kind": "generation"}


def decode(events: Any, body_format: Format = "json", rules: ProjectRules = RULES) -> list[Span | Trace]:
    decoded = decode_events(json.dumps(events).encode(), body_format, 100, rules)
    assert decoded.rejections == []
    return decoded.records


def span_of(event: dict[str, Any], rules: ProjectRules = RULES) -> Span:
    (span,) = decode(event, rules=rules)
    assert isinstance(span, Span)
    return span


def readable(record: Span | Trace) -> str:
    """Return everything that a record has, with its content unpacked."""
    packed = [part for part in (record.data, record.payload) if part] if isinstance(record, Span) else [b"j"]
    content = [unpack(part).decode() for part in packed] if isinstance(record, Span) else [record.metadata.decode()]
    return repr(msgspec.to_builtins(record)) + "".join(content)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "event",
    [
        {"kind": "generation", "data": {"model": "@", "usage": {"input_tokens": 5}}},
        {"kind": "generation", "data": {"gen_ai.request.model": "@"}},
        {"kind": "generation", "data": {"model": "gpt-5", "provider": "@", "usage": {"input_tokens": 5}}},
        {"event": "compact.token_estimate", "properties": {"model": "@", "t_est": 5}},
        {"event": "compact.summary_created", "properties": {"model": "@", "summary_tokens": 5}},
    ],
)
def test_figures_are_those_of_the_redacted_data(event: dict[str, Any], secret: str) -> None:
    """A model whose name is a secret is hidden in the figures too."""
    text = json.dumps({**SPAN, **event}).replace('"@"', json.dumps(secret))
    span = span_of(json.loads(text))
    assert secret not in readable(span)
    assert span.stats.model in {"", "gpt-5", HIDDEN_MODEL}


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("field", IDS)
def test_an_id_with_a_secret_becomes_a_pseudonym(field: str, secret: str) -> None:
    """The same in every request, so that spans still meet. All other ids stay."""
    span = span_of({**SPAN, field: f"run {secret}"})
    assert secret not in readable(span)
    assert str(getattr(span, field)).startswith(PREFIX)
    assert [getattr(span, other) for other in IDS if other != field] == [SPAN[other] for other in IDS if other != field]
    again = span_of({**SPAN, "span_id": "s2", "parent_id": f"run {secret}"})
    assert again.parent_id == getattr(span, field) == clean_id(f"run {secret}", RULES)


@pytest.mark.parametrize("field", ["trace_id", "group_id", "session_id"])
def test_the_ids_of_a_trace_are_replaced_likewise(field: str) -> None:
    (trace,) = decode({"type": "trace", "trace_id": "t1", "group_id": "g1", "session_id": "a1", field: SECRET})
    assert getattr(trace, field) == clean_id(SECRET, RULES) and SECRET not in readable(trace)


@pytest.mark.parametrize("data", [{"session_id": SECRET}, {"session.id": SECRET}, {"gen_ai.conversation.id": SECRET}])
def test_a_session_named_in_the_data_is_the_same_session(data: dict[str, str]) -> None:
    span = span_of({"type": "span", "trace_id": "t1", "span_id": "s1", "data": data})
    assert span.session_id == clean_id(SECRET, RULES) and SECRET not in readable(span)


def test_a_pseudonym_depends_on_the_server_and_the_project() -> None:
    """A person who guesses the id cannot compute the pseudonym, and tenants cannot compare theirs."""
    names = {clean_id(SECRET, ProjectRules(project_key(key, project))) for key in ("one", "two") for project in (1, 2)}
    assert len(names) == 4
    assert clean_id(clean_id(SECRET, RULES), RULES) == clean_id(SECRET, RULES)


@pytest.mark.parametrize(
    "text",
    [
        "4bf92f3577b34da6a3ce929d0e0e4736",
        "00f067aa0ba902b7",
        "trace_4bf92f3577b34da6a3ce929d0e0e4736",
        "span_4bf92f3577b34da6a3ce929d",
        "5f3b1c52-6c1f-4d0e-9f43-2f9c0f7d9a11",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "V1StGXR8_Z5jdHi6B-myT",
        "1234567890123456789",
        "1767225600000",
        "1512085950.000216",
        "chatcmpl-9aBcDeFgHiJkLmNoPqRsTuVwXyZ01",
        "toolu_01A09q90qw90lq917835lq9",
        "call_62136355aBcDeFgHiJkLmNoP",
        "resp_67ccd2bed1ec8190b14f964abc0542670bb6a6b452d3795b",
        "user-42/session-7",
        "/home/ada/projects/tokens/session.jsonl",
        "Größe 7",
        "日本語",
        "refund agent, order 1234",
        "password-reset-flow-7",
        "planted-a1b2c3d4:t",
    ],
)
def test_harmless_ids_stay(text: str) -> None:
    span = span_of({**SPAN, **dict.fromkeys(IDS, text)})
    assert [getattr(span, field) for field in IDS] == [text] * 4


def test_random_ids_stay() -> None:
    """Ids of the usual generators never look like a secret."""
    rng = random.Random(7)
    texts = {str(rng.getrandbits(63)) for _ in range(500)} | {rng.randbytes(16).hex() for _ in range(500)}
    for length in (12, 16, 20, 21, 22, 24, 26, 27, 32):
        texts |= {"".join(rng.choices(string.ascii_letters + string.digits, k=length)) for _ in range(100)}
        texts |= {"".join(rng.choices(string.ascii_lowercase + string.digits + "-_", k=length)) for _ in range(100)}
    texts |= {base64.urlsafe_b64encode(rng.randbytes(16)).decode() for _ in range(200)}
    changed = [text for text in sorted(texts) if clean_id(text, RULES) != text]
    assert len(changed) <= 3, changed


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("prefix", ["", "compact."])
def test_a_kind_has_no_secret(prefix: str, secret: str) -> None:
    kind = prefix + secret
    for event in ({"type": "span", "kind": kind}, {"type": "span", "name": kind}, {"event": kind}):
        span = span_of({"trace_id": "t1", "span_id": "s1", **event})
        assert secret.lower() not in readable(span).lower()


@pytest.mark.parametrize("field", ["name", "kind"])
def test_a_secret_is_found_before_a_text_is_shortened(field: str) -> None:
    """Half a key is not recognized."""
    span = span_of({**SPAN, field: "x" * 80 + " " + "y" * 400 + " " + SECRET})
    assert SECRET[:8] not in readable(span) and len(span.name) < 600 and len(span.kind) < 200


def test_the_keys_of_counts_have_no_secret() -> None:
    """Names of rules stay, also those that are names of secrets."""
    counts = {f"token {SECRET}": 1, "password": 2, "api_key": 3}
    span = span_of({**SPAN, "event": "compact.archival_queued", "data": {"redactions": counts}})
    stored = json.loads(unpack(span.data))["redactions"]
    assert SECRET not in readable(span) and {"password": 2, "api_key": 3}.items() <= stored.items()
    assert sum(stored.values()) == 6


def test_a_hash_of_a_secret_is_not_an_id() -> None:
    """A flat event without an id gets a hash of its content, which only the server can compute if there is a secret."""
    event = {"event": "tool", "session_id": "a1", "ts": 1.0, "properties": {"note": "password=hunter2-Qz82"}}
    ids = {span_of(event, ProjectRules(project_key(key, 1))).span_id for key in ("one", "two", "two")}
    assert len(ids) == 2
    harmless = {**event, "properties": {"note": "nothing"}}
    assert len({span_of(harmless, ProjectRules(project_key(key, 1))).span_id for key in ("one", "two")}) == 1


def otlp(text: str) -> dict[str, Any]:
    """A request with a text in every position of OTLP that is a string and not an id in hexadecimal digits."""

    def attributes(*keys: str) -> list[dict[str, Any]]:
        values: list[dict[str, Any]] = [{"key": key, "value": {"stringValue": text}} for key in keys]
        nested = {
            "kvlistValue": {"values": [{"key": text, "value": {"arrayValue": {"values": [{"stringValue": text}]}}}]}
        }
        return [*values, {"key": "nested", "value": nested}, {"key": text, "value": {"intValue": "1"}}]

    span = {
        "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
        "spanId": "00f067aa0ba902b7",
        "name": text,
        "startTimeUnixNano": "1767225600000000000",
        "attributes": attributes("gen_ai.request.model", "session.id", "gen_ai.operation.name", "user.id", "note"),
        "status": {"code": 2, "message": text},
        "events": [
            {"name": text, "attributes": attributes("note")},
            {"name": f"compact.{text}", "attributes": attributes("session.id", "model")},
            {"name": "exception", "attributes": attributes("exception.message", "exception.type")},
        ],
        "links": [{"traceId": "4bf92f3577b34da6a3ce929d0e0e4737", "spanId": "00", "attributes": attributes("note")}],
        "traceState": text,
    }
    scope = {"name": text, "version": text, "attributes": attributes("note")}
    scope_spans = {"scope": scope, "spans": [span], "schemaUrl": text}
    resource = {"attributes": attributes("service.name", "deployment.environment")}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope_spans], "schemaUrl": text}]}


@pytest.mark.parametrize("secret", SECRETS)
def test_no_position_of_otlp_stores_a_secret(secret: str) -> None:
    records = decode(otlp(secret), "otlp_json")
    assert len(records) == 3
    assert [record for record in records if secret.lower() in readable(record).lower()] == []
    sessions = {record.session_id for record in records if isinstance(record, Span)}
    assert sessions == {clean_id(secret, RULES)}
