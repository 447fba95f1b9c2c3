"""Data of each earlier landing that changed the storage opens, reads and verifies.

`tests/fixtures/upgrades` has a backup of each, which that commit's own server made of what its own client sent. Two
projects have the same session ids.
"""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from people import client_for, create_user
from scale.plans import database

from ariadne.runtime.backup import DUMP, FILES
from ariadne.runtime.postgres import client_programs
from ingest.archive import transcripts, verification
from ingest.cells import cells_of
from ingest.http import keys
from ingest.models import Project, Session, Span, Transcript
from viewer.audit.anchors import anchor_series
from viewer.models import AuditEntry
from viewer.sessions import queries

FIXTURES = Path(__file__).parents[1] / "fixtures" / "upgrades"
SECRETS = {"ours": "Planted-Ours-7f3a", "theirs": "Planted-Theirs-9c1d"}
PAGES = [
    "/",
    "/transcripts/",
    "/sessions/agent/",
    "/sessions/agent/compactions/1/",
    "/sessions/own-{slug}/",
    "/trends/",
]

pytestmark = pytest.mark.req("A-UPG-1")


@dataclass(frozen=True)
class Landing:
    """The data as the server of that commit returned it, and the files of its backup."""

    expected: dict[str, Any]
    data_dir: Path

    @property
    def projects(self) -> list[Project]:
        return list(Project.objects.filter(slug__in=SECRETS))


@pytest.fixture(scope="module", params=sorted(path.name for path in FIXTURES.iterdir() if path.is_dir()))
def landing(request: pytest.FixtureRequest, postgres: Any, django_db_blocker: Any) -> Iterator[Landing]:
    """A database that is restored from the backup of a landing, and migrated."""
    folder: Path = FIXTURES / request.param
    name = f"landing_{request.param}"
    postgres.create_database(name)
    command = [str(client_programs()[-1].folder / "pg_restore"), "--no-owner", "--dbname", postgres.dsn(name)]
    subprocess.run([*command, str(folder / DUMP)], check=True)
    with database(name, str(postgres.socket_dir)), django_db_blocker.unblock():
        call_command("migrate", verbosity=0)
        yield Landing(json.loads(gzip.decompress((folder / "expected.json.gz").read_bytes())), folder / FILES)
    with psycopg.connect(postgres.dsn("postgres"), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]


def test_every_span_reads_as_before(landing: Landing) -> None:
    """With its data and its payload, in its own project."""
    for project in landing.projects:
        for session_id, spans in landing.expected["spans"][project.slug].items():
            session = Session.objects.get(cell__in=cells_of(project.pk), session_id=session_id)
            for name, (kind, title, status, data, payload) in spans.items():
                span = queries.span(session, name, with_payload=True)
                assert span is not None, name
                row = span.row
                assert (row.kind, row.name, row.status, row.data, span.payload) == (kind, title, status, data, payload)
        count = sum(len(spans) for spans in landing.expected["spans"][project.slug].values())
        assert Span.objects.filter(cell__in=cells_of(project.pk)).count() == count


def test_the_archive_and_the_audit_log_verify(landing: Landing, settings: Any) -> None:
    """Every text, link and entry, and the anchors of versions that wrote some."""
    settings.DATA_DIR = landing.data_dir
    settings.SIGNING_KEY = (landing.data_dir / "signing_key").read_text().strip()
    for project in landing.projects:
        expected = landing.expected["transcripts"][project.slug]
        results = verification.verify_all([project.pk])
        assert [result.faults for result in results if result.faults] == []
        stored = Transcript.objects.filter(cell__in=cells_of(project.pk))
        texts = {f"{row.session_id}/{row.step}": b"".join(transcripts.lines(row)).decode() for row in stored}
        assert texts == expected and len(texts) >= 3
    assert AuditEntry.objects.exists()
    assert anchor_series.verify().problems == []


def test_pages_and_keys_work(landing: Landing) -> None:
    """A member of one project reads its pages, and nothing of the other project. Agents go on with their keys."""
    for project in landing.projects:
        assert keys.is_valid(landing.expected["keys"][project.slug], project)
        client = client_for(create_user("admin", project, name=f"reader-of-{project.slug}"))
        (other,) = set(SECRETS) - {project.slug}
        for page in PAGES:
            response = client.get(page.format(slug=project.slug), follow=True)
            text = b"".join(response) if response.streaming else response.content
            assert response.status_code == 200, page
            assert SECRETS[other] not in text.decode(), page
        spans = client.get("/api/sessions/agent/spans/", {"limit": 100}).json()["results"]
        assert len(spans) == len(landing.expected["spans"][project.slug]["agent"])
        compactions = client.get("/api/sessions/agent/compactions/").json()["results"]
        assert compactions
