"""Anchors prove what the audit log and the archive contained, whatever someone does to the database later."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from people import client_for, create_project, create_transcript, create_user
from wait import wait_until

from ariadne.runtime.jobs import Jobs, every
from ingest.archive import transcripts
from ingest.models import AnchorMark, ChainLink, Project, Transcript
from viewer.audit import log, signing
from viewer.audit.anchors import anchor_file, anchor_series
from viewer.audit.log import Action, Origin
from viewer.models import AuditEntry

pytestmark = pytest.mark.django_db
TABLES = ("viewer_auditentry", "ingest_chainlink", "ingest_transcript", "ingest_content")


@pytest.fixture
def ours() -> Project:
    """A project with three transcripts and ten audit entries."""
    project = create_project()
    for step in (1, 2, 3):
        create_transcript(project, session="s", step=step, texts=(f"text {step}",))
    for number in range(10):
        log.record(Origin(number, f"user{number}"), Action.LOGIN, project_id=project.pk)
    return project


def run_sql(*statements: str) -> None:
    """Change tables with triggers disabled, as their owner could."""
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        for statement in statements:
            cursor.execute(statement)
        for table in TABLES:
            cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


def rewrite_log(change: Callable[[AuditEntry], None] | None = None, *, without: int | None = None) -> None:
    """Replace the log with a changed one that has valid positions and hashes."""
    entries = [entry for entry in AuditEntry.objects.order_by("position") if entry.position != without]
    run_sql("DELETE FROM viewer_auditentry")
    previous = ""
    for position, entry in enumerate(entries):
        if change:
            change(entry)
        entry.position, entry.previous = position, previous
        entry.hash = previous = log.entry_hash(entry)
        entry.save(force_insert=True)


def forge_entry() -> None:
    """Insert an entry in the middle and compute all later hashes again."""
    entries = list(AuditEntry.objects.order_by("position"))
    forged = AuditEntry.objects.get(position=4)
    forged.actor, forged.action = "mallory", "transcript.download"
    entries.insert(4, forged)
    run_sql("DELETE FROM viewer_auditentry")
    previous = ""
    for position, entry in enumerate(entries):
        entry.position, entry.previous = position, previous
        entry.hash = previous = log.entry_hash(entry)
        entry.save(force_insert=True)


def change_actor(entry: AuditEntry) -> None:
    entry.actor = "another user"


def replace_transcript() -> None:
    """Store other texts under the same steps, with a chain that is valid in itself."""
    project = Project.objects.get()
    run_sql("DELETE FROM ingest_chainlink", "DELETE FROM ingest_transcript", "DELETE FROM ingest_content")
    for step in (1, 2, 3):
        create_transcript(project, session="s", step=step, texts=(f"forged {step}",))


TAMPERINGS: dict[str, Callable[[], None]] = {
    "an entry was changed": lambda: run_sql("UPDATE viewer_auditentry SET actor = 'x' WHERE position = 4"),
    "an entry in the middle was deleted": lambda: run_sql("DELETE FROM viewer_auditentry WHERE position = 4"),
    "two entries were exchanged": lambda: run_sql(
        "UPDATE viewer_auditentry SET position = position + 100 WHERE position IN (4, 5)",
        "UPDATE viewer_auditentry SET position = 109 - position WHERE position > 100",
    ),
    "the newest entries were cut off": lambda: run_sql("DELETE FROM viewer_auditentry WHERE position > 6"),
    "all entries were deleted": lambda: run_sql("DELETE FROM viewer_auditentry"),
    "a changed log was hashed again": lambda: rewrite_log(change_actor),
    "an entry was deleted and the log hashed again": lambda: rewrite_log(without=4),
    "an entry was forged and the log hashed again": forge_entry,
    "the newest link was cut off": lambda: run_sql(
        "DELETE FROM ingest_chainlink WHERE step = 3", "DELETE FROM ingest_transcript WHERE step = 3"
    ),
    "all transcripts were deleted": lambda: run_sql(
        "DELETE FROM ingest_chainlink", "DELETE FROM ingest_transcript", "DELETE FROM ingest_content"
    ),
    "transcripts were replaced with a valid chain": replace_transcript,
}


@pytest.mark.req("K-UI-3", "A-ARC-2")
@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_every_tampering_is_found_if_an_anchor_exists(ours: Project, tampering: str):
    """Also after the server wrote another anchor, which must not confirm the change."""
    anchor_series.write()
    assert anchor_series.verify().status == "anchored"
    TAMPERINGS[tampering]()
    assert anchor_series.verify().status == "failed", tampering
    anchor_series.write()
    assert anchor_series.verify().status == "failed", f"{tampering}, then anchored again"
    with pytest.raises(CommandError, match="Verification failed"):
        call_command("verify_archive", stdout=StringIO())


def test_without_an_anchor_nothing_is_said_to_be_proven(ours: Project):
    """An intact log is `not_anchored`, on the page and in the command."""
    report = anchor_series.verify()
    assert (report.status, report.problems) == ("not_anchored", [])
    assert "Not anchored yet." in report.sentence
    out = StringIO()
    call_command("verify_archive", stdout=out)
    assert "Not anchored yet." in out.getvalue() and "Verified" not in out.getvalue()
    page = client_for(create_user("auditor", ours)).post("/audit/verify/", follow=True).content.decode()
    assert "Not anchored yet." in page


def test_the_report_names_the_anchor_and_what_came_after_it(ours: Project):
    anchor = anchor_series.write()
    log.record(Origin(1, "ann"), Action.LOGIN)
    create_transcript(ours, session="later")
    report = anchor_series.verify()
    assert report.sentence == (
        f"Verified up to anchor 1 of {anchor.until:%Y-%m-%d %H:%M:%S} UTC. "
        "1 audit entry and 1 transcript link after it are intact, but not anchored yet."
    )
    page = client_for(create_user("auditor", ours)).get("/audit/").content.decode()
    assert "Anchor 1 was written at" in page and "Not anchored yet: 2 audit entries and" in page


@pytest.mark.req("A-ARC-2")
def test_a_restored_backup_is_found(ours: Project):
    """The database of an older backup, with the anchors of today."""
    anchor_series.write()
    old = list(AuditEntry.objects.order_by("position")), list(ChainLink.objects.all())
    mark = AnchorMark.objects.get()
    log.record(Origin(1, "ann"), Action.LOGIN)
    create_transcript(ours, session="later")
    anchor_series.write()
    run_sql(
        "DELETE FROM viewer_auditentry WHERE position > 9", "DELETE FROM ingest_chainlink WHERE session_id = 'later'"
    )
    run_sql("DELETE FROM ingest_transcript WHERE session_id = 'later'")
    AnchorMark.objects.all().delete()
    mark.save(force_insert=True)
    assert (list(AuditEntry.objects.order_by("position")), list(ChainLink.objects.all())) == old
    assert any("older backup" in problem for problem in anchor_series.verify().problems)


@pytest.mark.req("A-ARC-2")
@pytest.mark.parametrize("kept", [0, 1])
def test_a_shortened_anchor_file_is_found(ours: Project, data_dir: Path, kept: int):
    """The database knows the number of the newest anchor. A missing file is a finding."""
    for _ in range(2):
        anchor_series.write()
    file = data_dir / "anchors.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:kept])) if kept else file.unlink()
    assert any("missing from the anchor file" in problem for problem in anchor_series.verify().problems)


DAMAGES = {
    "half a line": b'{"version":"ariadne-anchor/2","numb',
    "no JSON": b"\xff\x00garbage",
    "another object": b'{"hello": 1}',
    "a list": b"[]",
    "no time": b'{"version":"ariadne-anchor/2","signature":"AAAA","time":"never","number":1}',
    "bad signature text": b'{"version":"ariadne-anchor/2","signature":"?","time":"2026-01-01T00:00:00Z"}',
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_a_finding_and_not_a_crash(ours: Project, data_dir: Path, damage: str):
    """Pages, the API and the next anchor work, and the finding stays until someone looks at the file."""
    anchor_series.write()
    with (data_dir / "anchors.jsonl").open("ab") as file:
        file.write(DAMAGES[damage])
    client = client_for(create_user("auditor", ours))
    assert client.get("/audit/").status_code == 200
    assert "Line 2 of the anchor file is damaged." in client.post("/audit/verify/", follow=True).content.decode()
    key = Transcript.objects.filter(step=1).get().session_key
    answer = client.post(f"/api/transcripts/{key}.1/verify/").json()
    assert answer["status"] == "failed" and "Line 2 of the anchor file is damaged." in answer["faults"]
    anchor_series.write()
    problems = anchor_series.verify().problems
    assert problems == ["Line 2 of the anchor file is damaged."]


def test_a_changed_anchor_is_found(ours: Project, data_dir: Path):
    """Its signature and the link of the next anchor do not match."""
    anchor_series.write()
    anchor_series.write()
    lines = (data_dir / "anchors.jsonl").read_text().splitlines()
    changed = lines[0].replace('"links":3', '"links":2')
    (data_dir / "anchors.jsonl").write_text("\n".join([changed, lines[1], ""]))
    problems = anchor_series.verify().problems
    assert "Anchor 1 is not signed by this server." in problems
    assert "Anchor 2 does not link to the previous anchor in the file." in problems


def test_anchors_of_a_retired_key_are_valid(ours: Project, settings):
    """The old public key must be configured as retired."""
    anchor_series.write()
    old = signing.public_key()
    settings.SIGNING_KEY = base64.b64encode(bytes(range(32))).decode()
    assert any("not signed" in problem for problem in anchor_series.verify().problems)
    settings.RETIRED_SIGNING_KEYS = [old]
    assert anchor_series.verify().problems == []
    published = signing.describe_keys()
    assert published["public_key"] != old
    assert [key["public_key"] for key in published["retired"]] == [old]


def test_an_anchor_is_on_disk_before_it_counts(ours: Project, data_dir: Path, monkeypatch):
    """One write, then fsync of the file and of its new folder entry. The mark in the database comes last."""
    calls: list[str] = []
    write, fsync = os.write, os.fsync
    monkeypatch.setattr(os, "write", lambda fd, data: calls.append("write") or write(fd, data))
    monkeypatch.setattr(os, "fsync", lambda fd: calls.append("fsync") or fsync(fd))
    monkeypatch.setattr(AnchorMark.objects, "create", lambda **_: calls.append("mark"))
    anchor_series.write()
    assert calls == ["write", "fsync", "fsync", "mark"]
    assert (data_dir / "anchors.jsonl").stat().st_mode & 0o777 == 0o600


def test_an_anchor_that_cannot_be_written_is_no_anchor(ours: Project, data_dir: Path):
    (data_dir / "anchors.jsonl").mkdir()
    with pytest.raises(OSError):
        anchor_series.write()
    assert not AnchorMark.objects.exists()


def test_links_stay_in_order_if_the_clock_is_set_back(ours: Project):
    """A link that is added after an anchor is later than it, so the anchor still matches."""
    anchor = anchor_series.write()
    AnchorMark.objects.update(until=anchor.until + timedelta(days=1))  # as if the clock had been a day ahead
    create_transcript(ours, session="after")
    newest = ChainLink.objects.get(session_id="after")
    assert newest.time > anchor.until + timedelta(days=1)
    assert anchor_series.verify().status == "anchored"


def test_anchors_continue_over_deletions(ours: Project):
    """A tombstone is a new link, so a legitimate deletion is no finding."""
    anchor_series.write()
    transcripts.delete([Transcript.objects.get(step=2)], reason="requested", by="ann")
    anchor_series.write()
    assert anchor_series.verify().status == "anchored"
    first, second = anchor_file.read()[0]
    assert (first.root.count, second.root.count) == (3, 4)


def test_two_projects_share_an_anchor_and_not_its_contents(ours: Project, data_dir: Path):
    """An anchor contains counts and hashes. An auditor sees nothing of the other project."""
    theirs = create_project("theirs")
    create_transcript(theirs, session="their-secret-session", texts=("their secret text",))
    anchor_series.write()
    content = (data_dir / "anchors.jsonl").read_text()
    assert "secret" not in content and set(json.loads(content)) == {
        *("version", "number", "time", "links", "root", "audit_position", "audit_hash", "previous"),
        *("public_key", "signature"),
    }
    page = client_for(create_user("auditor", ours)).get("/audit/").content.decode()
    assert "Anchor 1" in page and "secret" not in page


@pytest.mark.django_db(transaction=True)
def test_one_of_many_processes_writes_the_anchor(data_dir: Path):
    """Ten threads find that an anchor is due at the same time."""
    project = create_project("busy")
    create_transcript(project)

    def write(_: int) -> bool:
        try:
            return anchor_series.write_if_due(timedelta(hours=1)) is not None
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=5) as threads:
        written = list(threads.map(write, range(10)))
    assert sum(written) == 1
    assert len(anchor_file.read()[0]) == 1


@pytest.mark.django_db(transaction=True)
def test_an_anchor_waits_for_links_that_are_not_committed(data_dir: Path):
    """Otherwise a link with an earlier time would appear after the anchor, and look like tampering."""
    project = create_project("slow")
    with ThreadPoolExecutor(max_workers=1) as thread:

        def write() -> int:
            try:
                return anchor_series.write().root.count
            finally:
                connection.close()

        with transaction.atomic():
            create_transcript(project, session="slow")
            pending = thread.submit(write)
            with pytest.raises(TimeoutError):
                pending.result(timeout=0.3)
        assert pending.result(timeout=10) == 1
    assert anchor_series.verify().problems == []


@pytest.mark.req("A-ARC-2")
@pytest.mark.django_db(transaction=True)
async def test_a_server_anchors_when_it_starts_and_when_it_stops(data_dir: Path):
    """Nothing is left to anchor then, so a restart adds no anchor."""

    def anchor_jobs() -> Jobs:
        write = partial(anchor_series.write_if_due, timedelta(hours=1))
        return Jobs(every(60, "anchors", write, at_stop=anchor_series.write_if_changed))

    async with anchor_jobs():
        assert await asyncio.to_thread(wait_until, (data_dir / "anchors.jsonl").exists)
        await asyncio.to_thread(_add_entry)
    assert [anchor.number for anchor in anchor_file.read()[0]] == [1, 2]
    async with anchor_jobs():
        pass
    assert [anchor.number for anchor in anchor_file.read()[0]] == [1, 2]


def _add_entry() -> None:
    try:
        log.record(Origin(1, "ann"), Action.LOGIN)
    finally:
        connection.close()


@pytest.mark.req("K-UI-3")
def test_a_restored_backup_is_accepted_with_a_reason(ours: Project, data_dir: Path):
    """The old file stays, the restart is in the audit log, and verification mentions it. Tampering is found again."""
    anchor_series.write()
    log.record(Origin(1, "ann"), Action.LOGIN)
    anchor_series.write()
    run_sql("DELETE FROM viewer_auditentry WHERE position > 6")
    old = (data_dir / "anchors.jsonl").read_bytes()
    with pytest.raises(CommandError, match="Enter a reason"):
        call_command("restart_anchors", reason=" ")
    assert anchor_series.verify().status == "failed"
    output = StringIO()
    call_command("restart_anchors", reason="disk failure, backup of Monday", stdout=output)
    assert "Anchor 3 starts a new series." in output.getvalue()
    report = anchor_series.verify()
    assert report.status == "anchored" and "restarted the series with anchor 3" in report.sentence
    (kept,) = data_dir.glob("anchors-until-2-*.jsonl")
    assert kept.read_bytes() == old
    entry = AuditEntry.objects.get(action="anchor.restart")
    assert entry.reason == "disk failure, backup of Monday" and entry.detail["file"] == kept.name
    assert any("does not match anchor" in problem for problem in entry.detail["problems"])
    log.record(Origin(1, "ann"), Action.LOGIN)
    assert anchor_series.write().number == 4
    with pytest.raises(CommandError, match="nothing to restart"):
        call_command("restart_anchors", reason="again")
    run_sql("DELETE FROM viewer_auditentry WHERE position > 7")
    assert anchor_series.verify().status == "failed"
