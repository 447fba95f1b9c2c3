"""Parts of compaction pages are computed on arrival, stored per project, hidden and deleted with their session."""

from __future__ import annotations

import importlib
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import zstandard
from django.db import connection
from django.test.utils import CaptureQueriesContext
from people import Event, add_events, client_for, create_project, create_session, create_user

from ingest.models import Project, Session, Span
from ingest.storage import retention
from ingest.storage.database import partitions
from ingest.storage.payloads import pack
from viewer.compactions import stored_parts
from viewer.models import CompactionArrivals, CompactionParts

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "/sessions/run/compactions/1/"


def add_compaction(session: Session, secret: str, *, seq: int = 2) -> None:
    """Add a compaction whose summary and lost fact contain a secret."""
    entry = {"id": "m0", "hash": "a" * 64, "role": "user", "tokens": 7, "fate": "summarized", "rule": "old"}
    events: dict[str, Event] = {
        "compact.trigger_decision": ({"triggered": True, "t_est": 90, "max_tokens": 100}, {}),
        "compact.pruned_messages": ({"tokens_after": 40, "fates": {"summarized": 1}}, {"ledger": [entry]}),
        "compact.summary_created": ({"version": 1, "summary_tokens": 12}, {"summary": f"# State\n- {secret} [m0]"}),
        "compact.retention": (
            {"facts_total": 2, "facts_kept": 1},
            {"lost": [{"kind": "id", "text": f"lost {secret}", "source_ids": ["m0"]}]},
        ),
    }
    add_events(session, events, seq=seq)
    Session.objects.filter(pk=session.pk).update(last_seq=seq + len(events))


def create_compaction(project: Project, secret: str) -> Session:
    session = create_session(project, session_id="run")
    add_compaction(session, secret)
    return session


@pytest.fixture
def ours() -> Project:
    project = create_project("ours")
    create_compaction(project, "Nightingale")
    return project


@pytest.fixture
def theirs() -> Project:
    project = create_project("theirs")
    create_compaction(project, "Flamingo")
    return project


def page_of(role: str, project: Project, *, status: int = 200, query: str = "") -> str:
    response = client_for(create_user(role, project)).get(PAGE + query)
    assert response.status_code == status
    return str(response.content.decode())


def stored_texts(project: Project) -> tuple[str, str]:
    row = CompactionParts.objects.get(project_id=project.pk)
    return zstandard.decompress(row.public).decode(), zstandard.decompress(row.content).decode()


def forbid_computing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        pytest.fail("the page computed its parts")

    monkeypatch.setattr(stored_parts, "build", fail)


def test_a_page_reads_what_was_stored_on_arrival(
    ours: Project, theirs: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two projects have a session of the same name. Each reader sees the stored parts of their own."""
    stored_parts.store_arrivals()
    forbid_computing(monkeypatch)
    page = page_of("developer", ours)
    assert "Nightingale" in page and "<mark>lost Nightingale</mark>" in page
    assert "Flamingo" not in page
    assert "Flamingo" in page_of("developer", theirs)


def test_content_is_stored_apart_and_only_for_its_own_project(ours: Project, theirs: Project) -> None:
    stored_parts.store_arrivals()
    for project, own, other in ((ours, "Nightingale", "Flamingo"), (theirs, "Flamingo", "Nightingale")):
        public, content = stored_texts(project)
        assert own in content and other not in content
        assert own not in public and other not in public


@pytest.mark.parametrize("is_stored", [True, False])
def test_readers_without_the_right_never_get_content(ours: Project, theirs: Project, *, is_stored: bool) -> None:
    """Not from a stored row, whose content is not even read, and not if their own request computes it."""
    if is_stored:
        stored_parts.store_arrivals()
    with CaptureQueriesContext(connection) as queries:
        page = page_of("operator", ours)
    assert "Nightingale" not in page and "Flamingo" not in page
    assert "1 of 2 facts kept (50%)" in page and '<h2 id="flow-title">' in page
    if is_stored:
        assert not any('"viewer_compactionparts"."content"' in query["sql"] for query in queries.captured_queries)
    assert "Nightingale" in page_of("developer", ours)


def test_the_first_view_stores_what_no_process_has_stored(ours: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    first = page_of("operator", ours)
    forbid_computing(monkeypatch)
    client = client_for(create_user("developer", ours))
    assert "Nightingale" in client.get(PAGE).content.decode()
    assert "Nightingale" not in first


def test_parts_of_changed_spans_are_computed_again(ours: Project) -> None:
    stored_parts.store_arrivals()
    changed = Span.objects.filter(project_id=ours.pk, kind="compact.summary_created")
    changed.update(packed_payload=pack(b'{"summary": "# State\\n- Kingfisher"}'), seq=20)
    Session.objects.filter(project_id=ours.pk).update(last_seq=20)
    page = page_of("developer", ours)
    assert "Kingfisher" in page and "• Nightingale" not in page


def test_parts_of_other_code_are_computed_again(ours: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored HTML does not outlive the code and the templates that made it."""
    stored_parts.store_arrivals()
    before = CompactionParts.objects.get().version
    monkeypatch.setattr(stored_parts, "_code_digest", lambda: "another release")
    page_of("developer", ours)
    assert CompactionParts.objects.get().version != before


@pytest.mark.parametrize("role", ["developer", "operator"])
@pytest.mark.parametrize(
    ("kind", "replaced"),
    [
        ("compact.pruned_messages", "The client didn't report one"),
        ("compact.summary_created", "First summary of this session"),
        ("compact.retention", "The client didn't list the lost facts"),
    ],
)
def test_a_damaged_payload_is_a_message_and_not_an_empty_part(
    ours: Project, theirs: Project, role: str, kind: str, replaced: str
) -> None:
    """Nothing is stored for it, so that the page is right again once the payload is."""
    damaged = Span.objects.filter(project_id=ours.pk, kind=kind)
    (intact,) = damaged.values_list("packed_payload", flat=True)
    damaged.update(packed_payload=b"\x07" + bytes(intact)[1:])
    stored_parts.store_arrivals()
    assert [row.project_id for row in CompactionParts.objects.all()] == [theirs.pk]
    page = page_of(role, ours)
    assert f"{len(intact)} bytes that cannot be read" in page and replaced not in page
    damaged.update(packed_payload=intact)
    client = client_for(create_user("developer", ours))
    assert "cannot be read" not in client.get(PAGE).content.decode()
    assert "cannot be read" not in page_of("developer", theirs)


def test_a_damaged_summary_is_not_compared_with_the_next_one(ours: Project, theirs: Project) -> None:
    session = Session.objects.get(project_id=ours.pk)
    add_compaction(session, "Kingfisher", seq=10)
    Span.objects.filter(project_id=ours.pk, kind="compact.summary_created", seq__lt=10).update(packed_payload=b"\x07")
    page = client_for(create_user("developer", ours)).get("/sessions/run/compactions/2/").content.decode()
    assert "the previous summary can't be read" in page and "Kingfisher" in page
    assert "First summary" not in page and "Flamingo" not in page


def test_only_new_compactions_are_computed(ours: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    stored_parts.store_arrivals()
    forbid_computing(monkeypatch)
    stored_parts.store_arrivals()
    # A change without a compaction.
    Session.objects.filter(project_id=ours.pk).update(last_seq=50)
    stored_parts.store_arrivals()
    assert CompactionArrivals.objects.get(project_id=ours.pk).seq == 50


def test_a_compaction_that_cannot_be_computed_does_not_stop_others(
    ours: Project, theirs: Project, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    build = stored_parts.build

    def fail_for_ours(sources: Any, payloads: Any) -> Any:
        if "Nightingale" in str(payloads):
            raise ValueError("an odd character")
        return build(sources, payloads)

    monkeypatch.setattr(stored_parts, "build", fail_for_ours)
    stored_parts.store_arrivals()
    assert [row.project_id for row in CompactionParts.objects.all()] == [theirs.pk]
    assert "compaction_parts_failed" in caplog.text and "Nightingale" not in caplog.text


def test_parts_expire_with_their_session(ours: Project, theirs: Project) -> None:
    """So do parts of sessions whose spans have moved elsewhere. The other project keeps its own."""
    stored_parts.store_arrivals()
    CompactionParts.objects.create(
        session_key=uuid.uuid4(), number=1, project_id=ours.pk, version="", public=b"", content=b"moved"
    )
    day = datetime.now(UTC).date() - timedelta(days=40)
    with connection.cursor() as cursor:
        cursor.execute(partitions.create_statement(day))
    Span.objects.filter(project_id=ours.pk).update(session_day=day)
    Session.objects.filter(project_id=ours.pk).update(day=day)
    Project.objects.filter(pk=ours.pk).update(retention_days=30)
    retention.run()
    assert [row.project_id for row in CompactionParts.objects.all()] == [theirs.pk]


def test_an_upgrade_starts_with_the_next_compaction(ours: Project, theirs: Project) -> None:
    """Compactions from before are stored when a user opens them, so an upgrade does not compute all of them."""
    migration = importlib.import_module("viewer.migrations.0006_compaction_parts")
    with connection.cursor() as cursor:
        cursor.execute(migration.START_AT_NOW)
    stored_parts.store_arrivals()
    assert not CompactionParts.objects.exists()
    assert "Flamingo" in page_of("developer", theirs)
    assert CompactionParts.objects.get().project_id == theirs.pk
    assert CompactionArrivals.objects.count() == 2


def test_a_long_summary_is_shown_in_full_only_on_request(theirs: Project) -> None:
    """The page has the first 300 lines and says how many are missing. A person without the right sees none."""
    ours = create_project("ours")
    create_compaction(ours, "\n".join(f"- Valve V-{number} is closed." for number in range(1_000)))
    page = page_of("developer", ours)
    assert "Valve V-298 " in page and "Valve V-299 " not in page
    assert "701 of 1,001 lines are not shown" in page
    page = page_of("auditor", ours, query="?lines=all")
    assert "Valve V-999 " in page and "hidden-lines" not in page
    assert "Valve V-" not in page_of("operator", ours, query="?lines=all")
    assert "Valve V-" not in page_of("developer", theirs, query="?lines=all")
