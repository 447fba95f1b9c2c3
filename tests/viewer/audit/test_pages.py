"""The audit log as a page, as CSV and over REST."""

from __future__ import annotations

import csv
import io

import pytest
from people import archived, person, project, signed_in

from viewer import csv_file
from viewer.audit import log
from viewer.audit.log import Action, Origin
from viewer.models import AuditEntry

pytestmark = pytest.mark.django_db


@pytest.mark.req("K-UI-3")
def test_filters_find_the_line():
    """By person, action, outcome, day and text, on the page and over REST alike."""
    ours = project()
    client = signed_in(person("auditor", ours))
    log.record(
        Origin(None, "zoë", "192.0.2.7"), Action.BUNDLE_DOWNLOAD, project_id=ours.pk, target="run-1", reason="why not"
    )
    log.record(Origin(None, "bob", "192.0.2.8"), Action.DENIED, project_id=ours.pk, target="run-2", denied=True)
    day = AuditEntry.objects.latest("position").at.date()
    for query, found in [
        ("actor=zo", ["zoë"]),
        ("action=bundle.download", ["zoë"]),
        ("outcome=denied&q=run-", ["bob"]),
        ("q=192.0.2.7", ["zoë"]),
        ("q=why+not", ["zoë"]),
        (f"since={day}&until={day}&q=run-", ["bob", "zoë"]),
        ("until=2000-01-01", []),
    ]:
        results = client.get(f"/api/audit/?{query}").json()["results"]
        assert [row["actor"] for row in results] == found, query
        page = client.get(f"/audit/?{query}").content.decode()
        assert page.count('data-testid="audit-row"') == len(found), query


def test_the_log_is_read_in_pages():
    """Each line once."""
    ours = project()
    client = signed_in(person("auditor", ours))
    for number in range(7):
        log.record(Origin(None, "x"), Action.PAYLOAD_VIEW, project_id=ours.pk, target=str(number))
    first = client.get("/api/audit/?action=payload.view&limit=4").json()
    second = client.get(first["next"]).json()
    assert [row["target"] for row in first["results"] + second["results"]] == list("6543210")
    assert second["next"] is None


@pytest.mark.parametrize(
    "query", ["action=all", "outcome=maybe", "before=-1", "before=9999999999999999999999", "limit=0"]
)
def test_a_filter_that_makes_no_sense_is_refused(query: str):
    """With 400 and the name of the field."""
    client = signed_in(person("auditor", project()))
    response = client.get(f"/api/audit/?{query}")
    assert response.status_code == 400 and query.split("=", maxsplit=1)[0] in response.json()


DANGEROUS = ['=HYPERLINK("http://evil","x")', "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "  =1+1", "＝1+1"]


@pytest.mark.req("P-SEC-1")
def test_csv_runs_nothing_in_a_spreadsheet():
    """A cell that begins like a formula is text; everything else is as it was; the export itself is logged."""
    ours = project()
    client = signed_in(person("auditor", ours))
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
def test_every_formula_is_disarmed(text: str):
    """Cell by cell."""
    assert csv_file.escape(text) == f"'{text}"


@pytest.mark.req("K-UI-3")
def test_refusals_are_in_the_log():
    """A right that is missing, and a guess at another project's transcript."""
    ours, theirs = project("ours"), project("theirs")
    transcript = archived(theirs)
    signed_in(person("operator", ours, name="olga")).get("/transcripts/")
    signed_in(person("auditor", ours, name="ada")).get(f"/api/transcripts/{transcript.session_key}.1/download/")
    lines = AuditEntry.objects.filter(action="access.denied").order_by("-position")[:2]
    assert [(line.actor, line.detail["status"]) for line in lines] == [("ada", 404), ("olga", 403)]
    assert all(line.outcome == "denied" for line in lines)
