"""Users, projects and transcripts in the test database, and clients that are logged in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.utils import timezone

from ingest.archive import transcripts
from ingest.cells import cells_of
from ingest.models import Cell, Project, Session, Span, Trace, Transcript, session_key, trace_key
from ingest.storage.database import partitions
from ingest.storage.payloads import pack, pack_data
from viewer.models import Membership

GROUPS = {"operator": "operators", "developer": "developers", "auditor": "auditors", "admin": "admins"}


def create_user(kind: str, *projects: Project, name: str = "") -> User:
    """Create a member of `projects` in the group of `kind`, or in no group if it is empty."""
    user = User.objects.create_user(name or f"{kind or 'nobody'}-{User.objects.count()}")
    if kind:
        user.groups.add(Group.objects.get(name=GROUPS[kind]))
    for project in projects:
        Membership.objects.create(user=user, project=project)
    return user


def client_for(user: User | None, **options: Any) -> Client:
    client = Client(**options)
    if user is not None:
        client.force_login(user)
    return client


def create_project(slug: str = "ours") -> Project:
    return Project.objects.create(slug=slug, name=slug.title())


def create_transcript(
    owner: Project, *, session: str = "s", step: int = 1, texts: tuple[str, ...] = ("hello", "hi")
) -> Transcript:
    """Archive a transcript as an agent would send it."""
    messages = [{"id": f"m{n}", "role": "user", "content": text} for n, text in enumerate(texts)]
    body = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
    digest = hashlib.sha256(body).hexdigest()
    stored = transcripts.store(project_id=owner.pk, session_id=session, step=step, body=body, sha256=digest)
    return Transcript.objects.get(session_key=stored.session_key, step=step)


Event = tuple[dict[str, Any], dict[str, Any]]
"""The data and the payload of an event."""


def data_bytes(data: Mapping[str, Any]) -> bytes:
    """Return the stored form of a span's data."""
    return pack_data(json.dumps(data).encode())


def add_events(session: Session, events: Mapping[str, Event], *, seq: int = 2) -> None:
    """Add one span per event, given by kind, without the ingest writer."""
    now = timezone.now()
    for number, (kind, (data, payload)) in enumerate(events.items()):
        Span.objects.create(
            cell=session.cell,
            session_key=session.session_key,
            session_day=session.day,
            trace_id=f"t{seq}-{session.session_id}",
            span_id=f"c{number}",
            seq=seq + number,
            kind=kind,
            name=kind,
            started_at=now,
            ended_at=now,
            data=data_bytes(data),
            payload=pack(json.dumps(payload).encode()),
        )


def own_cell(owner: Project) -> int:
    """Return the cell of a project, which has a row as after its first commit."""
    (cell,) = cells_of(owner.pk)
    Cell.objects.get_or_create(cell=cell, defaults={"seq": 0})
    return cell


def create_session(owner: Project, *, session_id: str = "s", text: str = "hello") -> Session:
    """Create a session with one span whose payload contains `text`, without the ingest writer."""
    now = timezone.now()
    session = Session.objects.create(
        session_key=session_key(owner.pk, session_id),
        cell=own_cell(owner),
        session_id=session_id,
        day=now.date(),
        created_at=now,
        last_seq=1,
        span_count=1,
    )
    with connection.cursor() as cursor:
        cursor.execute(partitions.create_statement(now.date()))
    Trace.objects.create(
        cell=session.cell,
        trace_key=trace_key(owner.pk, f"t-{session_id}"),
        trace_id=f"t-{session_id}",
        session_key=session.session_key,
        source=0,
        seq=1,
    )
    Span.objects.create(
        cell=session.cell,
        session_key=session.session_key,
        session_day=session.day,
        trace_id=f"t-{session_id}",
        span_id="a",
        seq=1,
        kind="generation",
        name="call",
        started_at=now,
        ended_at=now,
        payload=pack(json.dumps({"prompt": text}).encode()),
    )
    return session
