"""The REST API of a real server: sessions, trees, tokens, spans and errors."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from agent_session import Session, play, send
from django.db import OperationalError
from django.test import RequestFactory
from live_server import Server
from reader import client_of

from viewer.middleware import server_error


@pytest.fixture(scope="module")
def api(server: Server) -> Iterator[httpx.Client]:
    with client_of(server, "operator") as client:
        yield client


@pytest.fixture(scope="module")
def name(server: Server) -> str:
    session_id = f"api-{uuid.uuid4().hex[:8]}"
    send(server.ingest_url, server.ingest_key, play(session_id, turns=18))
    return session_id


def read(api: httpx.Client, path: str, **query: Any) -> Any:
    response = api.get(f"/api/{path}", params=query)
    assert response.status_code == 200, response.text
    return response.json()


def test_a_session_is_found_by_id_and_by_key(api: httpx.Client, name: str) -> None:
    (row,) = read(api, "sessions/", q=name)["results"]
    assert (row["id"], row["turn_count"], row["compaction_count"]) == (name, 18, 1)
    assert read(api, f"sessions/{name}/")["key"] == read(api, f"sessions/{row['key']}/")["key"] == row["key"]
    assert read(api, f"sessions/{name}/")["traces"][0]["name"] == "Billing migration"


def test_pages_contain_each_span_once(api: httpx.Client, name: str) -> None:
    ids: list[str] = []
    url = f"/api/sessions/{name}/spans/?limit=37"
    while url:
        page = api.get(url).json()
        ids += [span["id"] for span in page["results"]]
        url = page["next"]
    assert len(ids) == len(set(ids)) == read(api, f"sessions/{name}/")["span_count"]
    assert all("payload" not in span for span in page["results"])


def test_pages_of_sessions_have_the_requested_size(server: Server, api: httpx.Client) -> None:
    """`next` is a URL, and null on the last page."""
    names = [f"paged-{uuid.uuid4().hex[:8]}" for _ in range(3)]
    events = [{"type": "span", "trace_id": each, "span_id": "s", "data": {"session_id": each}} for each in names]
    send(server.ingest_url, server.ingest_key, events)
    first = read(api, "sessions/", q="paged-", limit=2)
    last = api.get(first["next"]).json()
    assert [len(first["results"]), len(last["results"]), last["next"]] == [2, 1, None]
    assert {row["id"] for row in first["results"] + last["results"]} == set(names)


@pytest.mark.req("P-SEC-1")
def test_http_basic_works_and_failures_are_locked_out(server: Server) -> None:
    """Failed attempts count toward the same lockout as those of the login page."""
    login = server.logins["operator"]
    url = f"{server.url}/api/sessions/"
    assert httpx.get(url, auth=(login["username"], login["password"])).status_code == 200
    statuses = [httpx.get(url, auth=("guessed", f"wrong {n}")).status_code for n in range(6)]
    assert (statuses[0], statuses[-1]) == (401, 429)
    assert httpx.get(url, auth=("ariadne", server.ingest_key)).status_code == 401


def test_the_tree_has_every_span_in_columns(api: httpx.Client, name: str) -> None:
    tree = read(api, f"sessions/{name}/tree/")
    spans = tree["spans"]
    assert tree["traces"][0]["name"] == "Billing migration"
    assert spans.pop("trace") is None
    assert {len(column) for column in spans.values()} == {read(api, f"sessions/{name}/")["span_count"]}
    (first,) = read(api, f"sessions/{name}/spans/", limit=1)["results"]
    started = datetime.fromtimestamp(spans["start"][spans["id"].index(first["span_id"])] / 1000, UTC)
    assert abs(started - datetime.fromisoformat(first["started_at"])) < timedelta(milliseconds=1)


def test_an_unchanged_tree_returns_304(server: Server, api: httpx.Client) -> None:
    session = Session(f"etag-{uuid.uuid4().hex[:8]}")
    send(server.ingest_url, server.ingest_key, [session.trace(), *session.play_turn()])
    path = f"/api/sessions/{session.session_id}/tree/"
    headers = {"If-None-Match": api.get(path).headers["ETag"]}
    assert api.get(path, headers=headers).status_code == 304
    send(server.ingest_url, server.ingest_key, session.play_turn())
    assert api.get(path, headers=headers).status_code == 200


def test_the_tree_has_the_trace_of_each_span_if_there_are_several(server: Server, api: httpx.Client) -> None:
    session = f"traces-{uuid.uuid4().hex[:8]}"
    events = [
        {
            "type": "span",
            "trace_id": f"{session}-{n}",
            "span_id": "s",
            "name": 'a"\x1e',
            "data": {"session_id": session},
        }
        for n in range(2)
    ]
    send(server.ingest_url, server.ingest_key, events)
    spans = read(api, f"sessions/{session}/tree/")["spans"]
    assert sorted(spans["trace"]) == [f"{session}-0", f"{session}-1"]
    assert spans["name"] == ["[hidden]"] * 2
    with client_of(server, "developer") as developer:
        assert read(developer, f"sessions/{session}/tree/")["spans"]["name"] == ['a"\x1e'] * 2


@pytest.mark.req("K-UI-1")
def test_tokens_have_every_check_with_its_limits_and_sentence(api: httpx.Client, name: str) -> None:
    tokens = read(api, f"sessions/{name}/tokens/")
    assert len(tokens["results"]) == 18
    assert all(sum(check["parts"]) == check["before"] for check in tokens["results"])
    assert {(c["window"], c["cap_tokens"], c["trigger_tokens"]) for c in tokens["results"]} == {
        (128_000, 126_500, 108_800)
    }
    (compaction,) = read(api, f"sessions/{name}/compactions/")["results"]
    assert (compaction["n"], compaction["step"], compaction["pruned_count"]) == (1, 1, 36)
    assert compaction["sentence"].startswith("Compacted: 113,500 of 128,000 tokens (88.7%)")
    check = next(check for check in tokens["results"] if not check["is_compaction"])
    assert check["margin"] == check["trigger_tokens"] - check["before"]


@pytest.mark.req("P-SEC-1")
def test_a_payload_needs_the_right(server: Server, api: httpx.Client, name: str) -> None:
    (span, *_) = read(api, f"sessions/{name}/spans/", kind="generation")["results"]
    plain = read(api, f"spans/{span['id']}/")
    assert plain["has_payload"] and plain["payload"] == {"output": "[hidden]"} and plain["hidden"] == ["payload.output"]
    assert read(api, f"spans/{span['span_id']}/", session=name)["id"] == span["id"]
    assert api.get(f"/api/spans/{span['id']}/", params={"payload": "1"}).status_code == 403
    with client_of(server, "developer") as developer:
        assert "invoices" in json.dumps(read(developer, f"spans/{span['id']}/")["payload"])
        assert "payload" not in read(developer, f"spans/{span['id']}/", payload=0)
    (summary, *_) = read(api, f"sessions/{name}/spans/", kind="compact.summary_created")["results"]
    assert read(api, f"spans/{summary['id']}/")["payload"]["summary"] == "[hidden]"


def test_span_ids_may_contain_colons(server: Server, api: httpx.Client) -> None:
    session = Session(f"colons-{uuid.uuid4().hex[:8]}")
    event = {**session.span("tool", "odd"), "trace_id": "urn:trace:1" + session.trace_id, "span_id": "urn:span:1"}
    trace = {**session.trace(), "trace_id": event["trace_id"]}
    send(server.ingest_url, server.ingest_key, [trace, event])
    assert read(api, f"spans/{event['trace_id']}:{event['span_id']}/")["name"] == "odd"


@pytest.mark.parametrize("path", ["sessions/none/", "sessions/none/tree/", "spans/none/", "sessions/none/tokens/"])
def test_a_missing_object_returns_404(api: httpx.Client, path: str) -> None:
    assert api.get(f"/api/{path}").status_code == 404


@pytest.mark.parametrize("query", ["after=x", "after=-1", "limit=1e9", "after=99999999999999999999"])
def test_an_invalid_parameter_is_rejected_by_name(api: httpx.Client, name: str, query: str) -> None:
    response = api.get(f"/api/sessions/{name}/spans/?{query}")
    assert response.status_code == 400
    assert query.split("=", maxsplit=1)[0] in response.text


def test_an_invalid_cursor_is_rejected(api: httpx.Client) -> None:
    assert api.get("/api/sessions/?before=x").status_code == 400


def test_the_ledger_can_be_downloaded_as_json_and_csv(api: httpx.Client, name: str) -> None:
    as_json = api.get(f"/sessions/{name}/compactions/1/ledger.json")
    assert len(as_json.json()) == 64
    assert "attachment" in as_json.headers["Content-Disposition"]
    as_csv = api.get(f"/sessions/{name}/compactions/1/ledger.csv").content.decode("utf-8-sig").splitlines()
    assert as_csv[0] == "number,id,hash,role,tokens,fate,rule,into,inferred"
    assert len(as_csv) == 65
    # The numbers are those of the page.
    assert (as_json.json()[0]["number"], as_csv[-1].split(",")[0]) == (1, "64")


@pytest.mark.parametrize(
    "extension", ["bat", "hta", "CSV", "csv%0d%0aX-Forged:1", 'csv"; filename="x.bat', "csv%0a", "json.js"]
)
def test_a_ledger_has_no_other_formats(api: httpx.Client, name: str, extension: str) -> None:
    assert api.get(f"/sessions/{name}/compactions/1/ledger.{extension}").status_code == 404


def test_the_schema_is_served(server: Server, api: httpx.Client) -> None:
    assert "/api/sessions/{session}/tokens/" in api.get("/api/schema/").text


@pytest.mark.parametrize(
    ("error", "path", "status", "retry"),
    [
        (OperationalError("gone"), "/api/sessions/", 503, "5"),
        (OperationalError("gone"), "/sessions/s/", 503, "5"),
        (ValueError("ours"), "/api/sessions/", 500, None),
    ],
)
def test_an_unavailable_database_returns_503(error: Exception, path: str, status: int, retry: str | None) -> None:
    """The response has Retry-After, and is JSON for the API. Other exceptions return 500."""
    try:
        raise error
    except type(error):
        response = server_error(RequestFactory().get(path))
    assert (response.status_code, response.headers.get("Retry-After")) == (status, retry)
    assert response.headers["Content-Type"].startswith("application/json") == path.startswith("/api/")
