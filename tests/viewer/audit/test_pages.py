"""The audit log as a page, as CSV and over REST."""

from __future__ import annotations

import csv
import io
import json

import pytest
from people import client_for, create_project, create_session, create_transcript, create_user

from viewer import csv_file
from viewer.audit import log
from viewer.audit.log import Action, Origin
from viewer.models import AuditEntry

pytestmark = pytest.mark.django_db


@pytest.mark.req("K-UI-3")
def test_filters_select_entries():
    """By actor, action, outcome, day and text, on the page and over REST."""
    ours = create_project()
    client = client_for(create_user("auditor", ours))
    log.record(
        Origin(None, "zoë", "192.0.2.7"), Action.BUNDLE_DOWNLOAD, project_id=ours.pk, target="run-1", reason="why not"
    )
    log.record(
        Origin(None, "bob", "192.0.2.8"),
        Action.DENIED,
        project_id=ours.pk,
        target="run-2",
        outcome=AuditEntry.Outcome.DENIED,
    )
    day = AuditEntry.objects.latest("position").at.date()
    for query, actors in [
        ("actor=zo", ["zoë"]),
        ("action=bundle.download", ["zoë"]),
        ("outcome=denied&q=run-", ["bob"]),
        ("q=192.0.2.7", ["zoë"]),
        ("q=why+not", ["zoë"]),
        (f"since={day}&until={day}&q=run-", ["bob", "zoë"]),
        ("until=2000-01-01", []),
    ]:
        results = client.get(f"/api/audit/?{query}").json()["results"]
        assert [row["actor"] for row in results] == actors, query
        page = client.get(f"/audit/?{query}").content.decode()
        assert page.count('data-testid="audit-row"') == len(actors), query


def test_pages_contain_each_entry_once():
    ours = create_project()
    client = client_for(create_user("auditor", ours))
    for number in range(7):
        log.record(Origin(None, "x"), Action.PAYLOAD_VIEW, project_id=ours.pk, target=str(number))
    first = client.get("/api/audit/?action=payload.view&limit=4").json()
    second = client.get(first["next"]).json()
    assert [row["target"] for row in first["results"] + second["results"]] == list("6543210")
    assert second["next"] is None


@pytest.mark.parametrize(
    "query", ["action=all", "outcome=maybe", "before=-1", "before=9999999999999999999999", "limit=0"]
)
def test_an_invalid_filter_is_rejected(query: str):
    """The response is 400 and names the parameter."""
    client = client_for(create_user("auditor", create_project()))
    response = client.get(f"/api/audit/?{query}")
    assert response.status_code == 400 and query.split("=", maxsplit=1)[0] in response.json()


DANGEROUS = ['=HYPERLINK("http://evil","x")', "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "  =1+1", "＝1+1"]


@pytest.mark.req("P-SEC-1")
def test_csv_contains_no_formulas():
    """Cells that look like formulas are escaped. Other cells are unchanged, and the export is logged."""
    ours = create_project()
    client = client_for(create_user("auditor", ours))
    for text in [*DANGEROUS, "plain", 'quote "and", comma']:
        log.record(
            Origin(None, "mallory", agent=text), Action.PAYLOAD_VIEW, project_id=ours.pk, target=text, reason=text
        )
    data = client.get("/audit/csv/?actor=mallory").getvalue().decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(data)))
    assert len(rows) == len(DANGEROUS) + 2
    for row in rows:
        assert not any(cell.lstrip()[:1] in set("=+-@＝") for cell in row.values() if cell)
    assert {"plain", 'quote "and", comma'} <= {row["target"] for row in rows}
    assert all(isinstance(json.loads(row["detail"]), dict) for row in rows)
    exported = AuditEntry.objects.latest("position")
    assert (exported.action, exported.detail["filters"]) == ("audit.export", {"actor": "mallory"})


@pytest.mark.parametrize("text", DANGEROUS)
def test_every_formula_is_escaped(text: str):
    assert csv_file.escape(text) == f"'{text}"


@pytest.mark.req("K-UI-3")
def test_denied_requests_are_logged():
    """A missing right, and a transcript of another project."""
    ours, theirs = create_project("ours"), create_project("theirs")
    transcript = create_transcript(theirs)
    client_for(create_user("operator", ours, name="olga")).get("/transcripts/")
    client_for(create_user("auditor", ours, name="ada")).get(f"/api/transcripts/{transcript.session_key}.1/download/")
    entries = AuditEntry.objects.filter(action="access.denied").order_by("-position")[:2]
    assert [(entry.actor, entry.detail["status"]) for entry in entries] == [("ada", 404), ("olga", 403)]
    assert all(entry.outcome == "denied" for entry in entries)


@pytest.mark.req("K-UI-3")
def test_a_mistyped_address_is_not_found_and_another_projects_object_is_denied():
    """Both get a 404. Only the log tells them apart."""
    ours, theirs = create_project("ours"), create_project("theirs")
    create_session(theirs, session_id="their-run")
    client = client_for(create_user("auditor", ours, name="ada"))
    for path in ("/sessions/their-run/", "/api/sessions/their-run/tree/", "/sessions/mistyped/", "/api/sessions/nope/"):
        assert client.get(path).status_code == 404
    entries = AuditEntry.objects.filter(target__startswith="GET /").order_by("position")
    assert [(entry.action, entry.outcome) for entry in entries] == [
        *[("access.denied", "denied")] * 2,
        *[("address.not_found", "not_found")] * 2,
    ]


@pytest.mark.req("K-UI-3")
def test_entries_are_filtered_by_person_session_and_time():
    """Sessions by id and by key. Times by day and by minute, in UTC or with a zone."""
    ours = create_project("ours")
    create_session(ours, session_id="run-7")
    ann, bob = (client_for(create_user("developer", ours, name=name)) for name in ("ann", "bob"))
    for client in (ann, bob):
        client.get("/api/spans/t-run-7:a/")
    auditor = client_for(create_user("auditor", ours, name="ada"))
    view = AuditEntry.objects.filter(action="payload.view", actor="ann").get()

    def actors(**query: str) -> list[str]:
        return [entry["actor"] for entry in auditor.get("/api/audit/", query).json()["results"]]

    assert actors(session="run-7") == actors(session=view.detail["session_key"]) == ["bob", "ann"]
    assert actors(session="run-7", actor="ann") == ["ann"]
    assert actors(session="run") == []
    minute = view.at.strftime("%Y-%m-%dT%H:%M")
    assert "ann" in actors(since=minute, until=minute) and "ann" in actors(since=f"{minute}Z", until=f"{minute}:00Z")
    assert actors(until="2020-01-01T10:00") == [] == actors(since="2999-01-01")
    assert auditor.get("/api/audit/", {"since": "yesterday"}).status_code == 400
    page = auditor.get("/audit/", {"session": "run-7", "actor": "ann"}).content.decode()
    assert page.count('data-testid="audit-row"') == 1 and view.at.strftime("%Y-%m-%d %H:%M:%S UTC") in page


@pytest.mark.req("K-UI-3")
def test_json_export_has_the_filtered_entries_and_is_logged():
    ours = create_project("ours")
    log.record(Origin(1, '=cmd("x")'), Action.KEY_CREATE, project_id=ours.pk, target="run-1")
    client = client_for(create_user("auditor", ours, name="ada"))
    response = client.get("/audit/json/", {"action": "key.create"})
    (entry,) = json.loads(response.getvalue())
    assert (entry["actor"], entry["target"]) == ('=cmd("x")', "run-1") and entry["at"].endswith("Z")
    assert json.loads(client.get("/audit/json/", {"actor": "nobody"}).getvalue()) == []
    exported = AuditEntry.objects.filter(action="audit.export").earliest("position")
    assert (exported.detail["format"], exported.detail["filters"]) == ("json", {"action": "key.create"})


def test_an_auditor_sees_no_entries_of_another_project():
    ours, theirs = create_project("ours"), create_project("theirs")
    log.record(Origin(1, "eve"), Action.KEY_CREATE, project_id=theirs.pk, target="their-secret-key")
    client = client_for(create_user("auditor", ours))
    for path in ("/audit/", "/audit/csv/", "/audit/json/", "/api/audit/"):
        response = client.get(path)
        body = response.getvalue() if response.streaming else response.content
        assert b"their-secret-key" not in body.replace(path.encode(), b"").replace(b'value="their-secret-key"', b"")
