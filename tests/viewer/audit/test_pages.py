"""The audit log as a page, as CSV and over REST."""

from __future__ import annotations

import csv
import io

import pytest
from people import client_for, create_project, create_transcript, create_user

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
