"""The lines that an operator reads: one for each denied or malformed request, and tracebacks only for defects."""

from __future__ import annotations

import logging

import pytest
from django.conf import settings
from django.db import OperationalError
from django.test import Client
from live_server import Server
from people import client_for, create_project, create_user
from psycopg_pool import PoolTimeout
from reader import client_of

from ariadne.runtime.log_format import LineFormatter
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
