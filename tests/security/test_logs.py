"""The lines that an operator reads: one for each denied or malformed request, and tracebacks only for defects."""

from __future__ import annotations

import logging

import httpx
import pytest
from conftest import ServerFactory
from django.conf import settings
from django.db import OperationalError
from django.test import Client
from live_server import Server
from people import client_for, create_project, create_user
from psycopg_pool import PoolTimeout
from reader import client_of

from ariadne.runtime.log_format import LineFormatter, RequestLimit
from viewer.audit import log

FORMATTER = LineFormatter(settings.LOGGING["formatters"]["line"]["format"])


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return "\n".join(FORMATTER.format(record) for record in caplog.records).splitlines()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "status"), [("/audit/", 403), ("/sessions/unknown/", 404), ("/audit/?before=x", 403), ("/a%0Ab/", 404)]
)
def test_a_denied_page_is_one_line(caplog: pytest.LogCaptureFixture, path: str, status: int):
    response = client_for(create_user("operator", create_project())).get(path)
    assert response.status_code == status
    assert len(lines(caplog)) == 1


@pytest.mark.django_db
def test_an_unknown_host_is_one_line(caplog: pytest.LogCaptureFixture):
    assert Client(headers={"Host": "evil.example"}).get("/login/").status_code == 400
    assert 1 <= len(lines(caplog)) <= 2 and not any("Traceback" in line for line in lines(caplog))


@pytest.mark.django_db
@pytest.mark.parametrize("error", [OperationalError("the connection is closed\n"), PoolTimeout("no free connection")])
def test_a_page_without_a_database_is_one_line_and_503(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    """All connections are in use, or the database closed them. The line says which."""
    client = client_for(create_user("auditor", create_project()))
    client.raise_request_exception = False

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(log, "visible_entries", fail)
    response = client.get("/audit/")
    assert response.status_code == 503 and int(response["Retry-After"]) > 0
    assert [str(error).strip() in line for line in lines(caplog)] == [True]


def test_a_defect_has_a_traceback():
    try:
        raise RuntimeError("a defect")
    except RuntimeError as error:
        record = logging.LogRecord("x", logging.ERROR, "f.py", 1, "failed %s", ("a\nb\x1b[31m",), None)
        record.exc_info = (type(error), error, error.__traceback__)
    text = FORMATTER.format(record)
    assert "failed a\\nb\\x1b[31m" in text.splitlines()[0]
    assert "RuntimeError: a defect" in text


def test_the_log_of_a_server_has_one_line_for_a_denied_page(server: Server):
    with client_of(server, "operator") as client:
        before = len(server.log)
        assert client.get("/audit/").status_code == 403
    new = [line for line in server.log[before:].splitlines() if "/audit/" in line or "Traceback" in line]
    assert len(new) == 1 and "Forbidden" in new[0]


@pytest.mark.req("A-FLT-1")
def test_wrong_tokens_by_the_thousand_are_few_lines(start_server: ServerFactory):
    """The server stays ready, an agent can send, and one token is not known from another."""
    server = start_server("tokens")
    with httpx.Client(base_url=server.url, timeout=60) as client:
        answers = {
            client.get("/api/sessions/", headers={"Authorization": f"Bearer arip_{number:043}"}).text
            for number in range(300)
        }
        assert len(answers) == 1 and "Invalid API token" in answers.pop()
        keys = [client.post("/ingest", json={}, headers={"Authorization": f"Bearer ari_{n:043}"}) for n in range(300)]
        assert {(key.status_code, key.text) for key in keys} == {(401, keys[0].text)}
        event = {"event": "compact.warning", "session_id": "kept", "ts": 1_763_500_000, "message": "x"}
        assert client.post("/ingest", json=event, headers=server.headers).status_code == 200
        assert client.get("/readyz").status_code == 200
    assert 1 <= server.log.count("Unauthorized: /api/sessions/") <= RequestLimit.LINES


def test_requests_without_a_line_are_counted(monkeypatch: pytest.MonkeyPatch):
    """The next line after the minute says how many. Defects, and lines that are of no request, are not limited."""
    limit, clock = RequestLimit(), [1_000.0]
    monkeypatch.setattr("ariadne.runtime.log_format.time.monotonic", lambda: clock[0])

    def write(status: int | None) -> str:
        record = logging.LogRecord("django.request", logging.WARNING, "f.py", 1, "line", (), None)
        if status is not None:
            record.status_code = status
        return record.getMessage() if limit.filter(record) else ""

    for status, expected in ((404, RequestLimit.LINES), (401, RequestLimit.LINES), (500, 200), (None, 200)):
        assert len([line for line in (write(status) for _ in range(200)) if line]) == expected
    clock[0] += RequestLimit.SECONDS
    assert f"{200 - RequestLimit.LINES} requests with status 404" in write(404)
    assert write(404) == "line"
