"""Verification detects changes to the archive and reports nothing else."""

from __future__ import annotations

import hashlib
import json

import pytest
from django.db import connection

from ingest.archive import transcripts, verification
from ingest.cells import cells_of
from ingest.models import Project, Transcript, session_key

pytestmark = pytest.mark.django_db

KEY = session_key(1, "s")
(CELL,) = cells_of(1)


@pytest.fixture(autouse=True)
def three_steps() -> None:
    """Archive three steps of one session, each with the messages of the previous one and two more."""
    Project.objects.create(pk=1, slug="p", name="P")
    for step in (1, 2, 3):
        messages = [{"id": f"m{n}", "role": "user", "content": f"message {n}"} for n in range(step * 2)]
        body = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
        transcripts.store(project_id=1, session_id="s", step=step, body=body, sha256=hashlib.sha256(body).hexdigest())


def tamper(*statements: str) -> tuple[str, ...]:
    """Change tables with triggers disabled, as their owner could, and return the faults that are found."""
    tables = ("ingest_transcript", "ingest_content", "ingest_chainlink")
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        for statement in statements:
            cursor.execute(statement)
        for table in tables:
            cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
    return verification.verify_session(CELL, KEY).faults


@pytest.mark.req("K-UI-3")
def test_an_unchanged_archive_has_no_faults():
    """With and without tombstones."""
    assert verification.verify_session(CELL, KEY).faults == ()
    transcripts.delete([Transcript.objects.get(step=2)], reason="requested", by="ann")
    result = verification.verify_session(CELL, KEY)
    assert (result.faults, result.stored, result.deleted) == ((), 2, 1)


@pytest.mark.req("K-UI-3")
@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (["DELETE FROM ingest_transcript WHERE step = 2"], "step 2 is missing"),
        (["DELETE FROM ingest_transcript WHERE step = 3"], "step 3 is missing"),
        (["DELETE FROM ingest_transcript WHERE step = 2", "DELETE FROM ingest_chainlink WHERE step = 2"], "missing"),
        (["UPDATE ingest_transcript SET sha256 = repeat('0', 64) WHERE step = 1"], "not the transcript"),
        (["UPDATE ingest_transcript SET redactions = '{\"email\": 3}' WHERE step = 1"], "manifest"),
        (["UPDATE ingest_transcript SET hashes = substring(hashes FROM 33) WHERE step = 3"], "step 3 was changed"),
        (
            ["UPDATE ingest_transcript SET hashes = substring(hashes FROM 33 FOR 32) || substring(hashes FROM 1 FOR 32)"
             " WHERE step = 1"],
            "step 1 was changed",
        ),
        (["UPDATE ingest_transcript SET ids = '[\"m1\", \"m0\"]' WHERE step = 1"], "step 1 was changed"),
        (["UPDATE ingest_content SET body = (SELECT body FROM ingest_content ORDER BY hash LIMIT 1)"], "has a message"),
        (["DELETE FROM ingest_content"], "has a message"),
        (["UPDATE ingest_chainlink SET manifest = '{}' WHERE step = 2"], "(step 2) was changed"),
        (["UPDATE ingest_chainlink SET time = time - interval '1 day' WHERE step = 1"], "(step 1) was changed"),
        (
            ["UPDATE ingest_chainlink SET position = position + 10",
             "UPDATE ingest_chainlink SET position = CASE position WHEN 10 THEN 1 WHEN 11 THEN 0 ELSE 2 END"],
            "does not follow",
        ),
        (["UPDATE ingest_transcript SET step = 9 WHERE step = 3"], "step 9 is not in the chain"),
    ],
)  # fmt: skip
def test_removal_change_and_reordering_are_detected(statements: list[str], expected: str):
    """The description names the step."""
    assert any(expected in fault for fault in tamper(*statements)), verification.verify_session(CELL, KEY).faults


def test_a_session_without_transcripts_is_verified_by_its_links():
    """All its transcripts were deleted from the table, and the chain still lists them."""
    assert tamper("DELETE FROM ingest_transcript")
    results = [result for result in verification.verify_all([1]) if result.session_key == KEY]
    assert len(results) == 1 and len(results[0].faults) == 3
