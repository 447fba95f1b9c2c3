"""Projects with several cells: commits, readers and commands give the same as with one cell."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from people import create_project, create_transcript, create_user
from retention_runs import expire_later

from ingest import cells
from ingest.archive import verification
from ingest.cells import cells_of
from ingest.http.decode_jobs import decode_events
from ingest.models import Cell, Label, Project, Session, Span, Trace, Trend, Usage, session_key
from ingest.storage.database.transactions import Transactions
from ingest.storage.figures.table import STORED
from ingest.storage.sequence import set_cell_count
from viewer.accounts.access import get_session, user_grant
from viewer.live import queries as live_queries
from viewer.search import indexer
from viewer.search.queries import search
from viewer.sessions import queries, session_list
from viewer.trends import queries as trends
from viewer.trends.periods import last
from viewer.visibility.public_parts import Visibility

pytestmark = pytest.mark.django_db(transaction=True)
Events = list[dict[str, Any]]
START = datetime(2026, 11, 18, 8, tzinfo=UTC)
SECRETS = {"ours": "Planted-Sesame", "theirs": "Planted-Barley", "plain": "Planted-Rye"}


@pytest.fixture(autouse=True)
def known_counts() -> Iterator[None]:
    """Forget the numbers of cells of the projects of this test, whose ids other tests use again."""
    yield
    cells._counts.clear()


def events_of(slug: str, seed: int, *, prefix: str = "") -> Events:
    """Return spans of grouped, named, unnamed and mixed traces, in random order, of which some come twice.

    The prefix is part of the names of traces and sessions.
    """
    chance = random.Random(seed)
    events: Events = []
    for number in range(24):
        trace, session = f"{prefix}t{number}", f"{prefix}session-{number % 9}"
        kind = ("grouped", "named", "unnamed", "mixed")[number % 4]
        for place in range(6):
            at = START + timedelta(minutes=chance.randrange(300))
            data: dict[str, Any] = {"model": "gpt-5", "usage": {"input_tokens": 10 + place, "output_tokens": 1}}
            named = (kind == "named" and place % 2) or (kind == "grouped" and place == 3)
            if named or kind == "mixed":
                data["session_id"] = f"{prefix}session-{place}" if kind != "named" else session
            text = {"role": "user", "content": f"{SECRETS[slug]} of {trace} " + "x" * 300}
            span = {"type": "span", "trace_id": trace, "span_id": f"s{place}", "kind": "generation", "data": data}
            events.append({**span, "started_at": at.isoformat(), "payload": {"input": [text]}})
            if place % 3:
                events.append({**span, "ended_at": (at + timedelta(seconds=9)).isoformat(), "status": "ok"})
        if kind == "grouped":
            metadata = {"environment": f"environment-{slug}"}
            events.append(
                {"type": "trace", "trace_id": trace, "name": trace, "group_id": session, "metadata": metadata}
            )
    events += chance.sample(events, len(events) // 4)
    chance.shuffle(events)
    return events


def parts_of(slug: str) -> list[Events]:
    """Return three parts of the same sessions, each with new sessions of its own."""
    events = events_of(slug, 3)
    return [events[number::3] + events_of(slug, number, prefix=f"part-{number}-") for number in range(3)]


def write(project: Project, events: Events, seed: int) -> None:
    """Write events in small commits of two processes."""
    chance, queue = random.Random(seed), list(events)

    async def run() -> None:
        processes = (Transactions(), Transactions())
        while queue:
            batch = [queue.pop() for _ in range(min(len(queue), chance.randrange(1, 12)))]
            decoded = decode_events(json.dumps(batch).encode(), "json", 100)
            assert not decoded.rejections
            await chance.choice(processes).run([(project.pk, decoded.records)])
        for process in processes:
            await process.disconnect()

    asyncio.run(run())


def content(project: Project) -> dict[str, Any]:
    """Return everything that is stored of a project, without keys, numbers and the secret of its own texts."""
    own = {"cell__in": cells_of(project.pk)}
    result: dict[str, Any] = {}
    for session in Session.objects.filter(**own):
        assert session.session_id not in result, "a session is in two cells"
        spans = Span.objects.filter(cell=session.cell, session_key=session.session_key, session_day=session.day)
        full = [queries.span(session, f"{s.trace_id}:{s.span_id}", with_payload=True) for s in spans]
        rows = sorted((s.row.key, s.row.status, repr(s.payload)) for s in full if s is not None)
        figures = {figure.name: getattr(session, figure.column) for figure in STORED if figure.name != "worst_check"}
        key = {"cell": session.cell, "session_key": session.session_key}
        labels = Label.objects.filter(**key).values_list("value", flat=True)
        result[session.session_id] = {
            "spans": [(name, status, payload.replace(SECRETS[project.slug], "")) for name, status, payload in rows],
            "figures": figures,
            "labels": sorted(value.split("-")[0] for value in labels),
            "usage": sorted(Usage.objects.filter(**key).values_list("hour", "call_count", "input_tokens")),
            # A mixed trace is in each cell that has spans of it.
            "traces": sorted(Trace.objects.filter(**key).exclude(name="").values_list("trace_id", "name")),
        }
        other = {secret for slug, secret in SECRETS.items() if slug != project.slug}
        assert not any(secret in repr(rows) for secret in other)
    hours: dict[Any, int] = {}
    for hour, errors in Trend.objects.filter(**own).values_list("hour", "errors"):
        hours[hour] = hours.get(hour, 0) + errors
    return {**result, "hours": hours}


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[Any]:
    """Return the sessions and parts that differ, with both values."""
    parts = [
        (name, part, one.get(name, {}).get(part), other.get(name, {}).get(part))
        for name in one.keys() | other.keys()
        for part in one.get(name, {}).keys() | other.get(name, {}).keys()
    ]
    return [part for part in parts if part[2] != part[3]]


@pytest.fixture
def projects() -> dict[str, Project]:
    return {slug: create_project(slug) for slug in SECRETS}


@pytest.mark.parametrize("count", [1, 2, 8])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_project_with_several_cells_stores_what_one_cell_would(
    projects: dict[str, Project], count: int, seed: int
) -> None:
    """In any order, with replays, and for two tenants with the same ids. Each session is in one cell."""
    for slug in ("ours", "theirs"):
        set_cell_count(projects[slug].pk, count)
    for slug, project in projects.items():
        write(project, events_of(slug, seed), seed)
    expected = content(projects["plain"])
    assert len(expected) > 9
    for slug in ("ours", "theirs"):
        assert differences(content(projects[slug]), expected) == []
        used = Session.objects.filter(cell__in=cells_of(projects[slug].pk)).values_list("cell", flat=True)
        assert len(set(used)) > 1 or count == 1


def test_a_project_that_grows_keeps_its_sessions_where_they_are(projects: dict[str, Project]) -> None:
    """Also if the processes that write do not know the new number. Nothing is lost or stored twice."""
    ours, plain = projects["ours"], projects["plain"]
    before: dict[str, int] = {}
    for number, (count, events) in enumerate(zip((1, 2, 8), parts_of("ours"), strict=True)):
        set_cell_count(ours.pk, count)
        cells.learn([(ours.pk, 1)])
        write(ours, events, number)
        now = dict(Session.objects.filter(cell__in=cells_of(ours.pk)).values_list("session_id", "cell"))
        kept = {name: cell for name, cell in before.items() if name in now}
        assert kept.items() <= now.items()
        assert len(set(now.values())) > number
        before = now
    for number, events in enumerate(parts_of("plain")):
        write(plain, events, number)
    assert differences(content(ours), content(plain)) == []


@pytest.mark.parametrize("count", [1, 2, 8])
def test_readers_merge_the_cells_of_a_project(projects: dict[str, Project], count: int) -> None:
    """Lists, search, trends, the tail and sessions by name find the own project, and nothing of the other one."""
    for slug in ("ours", "theirs"):
        set_cell_count(projects[slug].pk, count)
        write(projects[slug], events_of(slug, 4), 4)
        indexer.catch_up(projects[slug].pk)
    cells._counts.clear()
    write(projects["plain"], events_of("plain", 4), 4)
    indexer.catch_up(projects["plain"].pk)
    expected = search({projects["plain"].pk: Visibility.CONTENT}, SECRETS["plain"], limit=100).results
    for slug in ("ours", "theirs"):
        project = projects[slug]
        grant = user_grant(create_user("developer", project))
        assert len(cells_of(project.pk)) == count
        stored = list(Session.objects.filter(cell__in=cells_of(project.pk)).order_by("-last_seq"))
        seen: list[Session] = []
        cursor = ""
        while True:
            filters = session_list.SessionFilter.from_query({"before": cursor})
            page, next_cursor = session_list.sessions_page([project.pk], filters, limit=4)
            seen += page
            if next_cursor is None:
                break
            cursor = next_cursor
        assert seen == stored
        labeled = session_list.SessionFilter(labels={"environment": f"environment-{slug}"})
        page, _ = session_list.sessions_page({project.pk: Visibility.CONTENT}, labeled)
        own_labels = Label.objects.filter(cell__in=cells_of(project.pk)).values_list("cell", "session_key")
        assert {session.pk for session in page} == set(own_labels)
        results = search({project.pk: Visibility.CONTENT}, SECRETS[slug], limit=100).results
        assert {result.session.project_id for result in results} == {project.pk}
        assert len(results) == len(expected)
        other = SECRETS["theirs" if slug == "ours" else "ours"]
        assert search({project.pk: Visibility.CONTENT}, other, limit=10).results == []
        for session in stored:
            assert get_session(grant, session.session_id) == session
        seq = queries.last_seq(project.pk)
        changed = live_queries.sessions_after(project.pk, 0)
        spans = live_queries.spans_between(changed, 0, seq, Visibility.CONTENT, limit=10_000)
        assert len(spans) == sum(session.span_count for session in stored)
        assert [span.seq for _, span in spans] == sorted(span.seq for _, span in spans)
        month = last("30d", START + timedelta(days=1))
        assert trends.cost_series([project.pk], month)


def test_a_cursor_of_several_cells_waits_for_commits_in_progress(projects: dict[str, Project]) -> None:
    """A number that was taken before is committed before, and one that is taken later is higher."""
    ours = projects["ours"]
    set_cell_count(ours.pk, 2)
    first, second = cells_of(ours.pk)
    Cell.objects.filter(cell=second).update(seq=2**52)
    settled = queries.last_seq(ours.pk)
    write(ours, events_of("ours", 5), 5)
    newest = Session.objects.filter(cell=first).order_by("last_seq").first()
    assert newest is not None and newest.last_seq > settled


def test_transcripts_are_in_the_cell_of_their_session(projects: dict[str, Project]) -> None:
    """Whichever comes first, also if the project grows in between."""
    ours = projects["ours"]
    create_transcript(ours, session="session-1", texts=("one",))
    set_cell_count(ours.pk, 8)
    write(ours, events_of("ours", 6), 6)
    create_transcript(ours, session="session-2", texts=("two",))
    for name in ("session-1", "session-2"):
        session = Session.objects.get(cell__in=cells_of(ours.pk), session_key=session_key(ours.pk, name))
        (result,) = [r for r in verification.verify_all([ours.pk]) if r.session_key == session.session_key]
        assert (result.faults, result.stored) == ((), 1)
        assert verification.verify_session(session.cell, session.session_key).stored == 1


def test_commands_go_through_all_cells(projects: dict[str, Project]) -> None:
    for slug, count in (("ours", 8), ("theirs", 1)):
        call_command("cells", grow=slug, count=count, stdout=StringIO())
        write(projects[slug], events_of(slug, 7), 7)
    expected = {slug: content(projects[slug]) for slug in ("ours", "theirs")}
    Session.objects.update(turn_count=99, check_count=99)
    call_command("recount", stdout=StringIO())
    assert {slug: content(projects[slug]) for slug in ("ours", "theirs")} == expected
    with pytest.raises(CommandError, match="8 cells"):
        call_command("cells", grow="ours", count=2, stdout=StringIO())


def test_retention_deletes_all_cells_of_a_deleted_project(projects: dict[str, Project]) -> None:
    """Also in a process that never knew how many it had. The sessions of the other project stay."""
    for slug in ("ours", "theirs"):
        set_cell_count(projects[slug].pk, 8)
        write(projects[slug], events_of(slug, 8), 8)
    expected = content(projects["theirs"])
    projects["ours"].delete()
    cells._counts.clear()
    expire_later(days=2)
    assert {cells.project_of(cell) for cell in Session.objects.values_list("cell", flat=True)} == {
        projects["theirs"].pk
    }
    cells.learn([(projects["theirs"].pk, 8)])
    assert content(projects["theirs"]) == expected


def test_the_archive_of_a_project_is_verified_in_all_cells(projects: dict[str, Project]) -> None:
    """Also in a new process, which `verify_archive` is."""
    set_cell_count(projects["ours"].pk, 8)
    for number in range(8):
        create_transcript(projects["ours"], session=f"session-{number}", texts=("one",))
    cells._counts.clear()
    output = StringIO()
    call_command("verify_archive", project="ours", stdout=output)
    assert "Checked 8 transcripts and 0 tombstones of 8 sessions." in output.getvalue()
