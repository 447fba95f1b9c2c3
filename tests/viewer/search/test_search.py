"""Search finds ids, names, metadata and texts, per project and per role, and survives crashes and moves."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

import pytest
import zstandard
from django.db import connection
from django.utils import timezone
from growth import assert_linear
from people import client_for, create_project, create_session, create_user, data_bytes, own_cell
from retention_runs import expire, expire_later

from ingest.cells import cells_of
from ingest.models import Message, Project, SearchDocument, SearchState, Session, Span, Trace, trace_key
from ingest.storage.database import partitions
from ingest.storage.payloads import pack
from viewer.models import AuditEntry
from viewer.search import indexer, queries
from viewer.search.documents import message_texts
from viewer.search.words import Query, snippet, words_of
from viewer.visibility.public_parts import Visibility

CONTENT, METADATA = Visibility.CONTENT, Visibility.METADATA
SECRET = "the Nightingale ledger of src/auth/login.py"


@pytest.fixture
def ours(db: None) -> Project:
    owner = create_project("ours")
    add_session(owner, "research-grid-storage-0007", SECRET)
    indexer.catch_up(owner.pk)
    return owner


@pytest.fixture
def theirs(db: None) -> Project:
    owner = create_project("theirs")
    add_session(owner, "research-grid-storage-0007", f"{SECRET} and Flamingo")
    indexer.catch_up(owner.pk)
    return owner


def add_session(owner: Project, session_id: str, text: str) -> Session:
    return create_session(owner, session_id=session_id, text=text)


def add_span(session: Session, span_id: str, *, seq: int, **more: Any) -> None:
    """Add a span as the writer does: the session's number rises with it."""
    now = timezone.now()
    for column in more.keys() & {"data", "payload"}:
        more[column] = data_bytes(more[column])
    values = {"kind": "tool", "name": "read_file", "started_at": now, "ended_at": now, **more}
    trace = f"t-{session.session_id}"
    Span.objects.create(
        session_key=session.session_key,
        session_day=session.day,
        trace_id=trace,
        span_id=span_id,
        cell=session.cell,
        seq=seq,
        **values,
    )
    Session.objects.filter(pk=session.pk).update(last_seq=seq)


def result_types(project: Project, text: str, visibility: Visibility = CONTENT, **more: Any) -> list[str]:
    page = queries.search({project.pk: visibility}, text, **more)
    return [result.type for result in page.results]


@pytest.mark.parametrize(
    "text",
    ["research", "grid-sto", "GRID", "0007", "research-grid-storage-0007", "t-research-grid", "storage grid"],
)
def test_everyone_finds_ids_by_prefix(ours: Project, text: str) -> None:
    """Whole ids, their parts and their beginnings are found as they are typed."""
    assert result_types(ours, text, METADATA) == ["session"]


@pytest.mark.parametrize("text", ["nightin", "Nightingale ledger", "src/auth", "login.py", "auth/log", "login"])
def test_texts_are_found_with_the_right_to_view_payloads(ours: Project, text: str) -> None:
    """Words, paths and file names of a conversation are found, with a highlighted snippet."""
    assert result_types(ours, text) == ["span"]
    assert result_types(ours, text, METADATA) == []
    (result,) = queries.search({ours.pk: CONTENT}, text).results
    assert "".join(part.text for part in result.snippet) == SECRET
    assert any(part.is_match for part in result.snippet)


def test_other_projects_do_not_exist(ours: Project, theirs: Project) -> None:
    """The same words in two projects: each finds only its own, also with a prefix of another project's number."""
    for text in ("nightingale", "research"):
        keys = {result.session.project_id for result in queries.search({ours.pk: CONTENT}, text).results}
        assert keys == {ours.pk}
    assert result_types(ours, "flamingo") == []
    both = queries.search({ours.pk: CONTENT, theirs.pk: METADATA}, "nightingale").results
    assert [result.session.project_id for result in both] == [ours.pk]


@pytest.mark.parametrize("text", ["", " ", "a", "'", "' | 1:*", "\\", "a & !b", "(((", "zzzz", "\x7f", "%s", "\u202e"])
def test_any_query_is_valid(ours: Project, text: str) -> None:
    """Operators and quotes of the query language are text."""
    assert result_types(ours, text) == []


def test_messages_are_found_once_per_session(ours: Project) -> None:
    """A prompt repeats the messages of the one before. Stored and inline messages are found, each once."""
    session = add_session(ours, "chat", "x")
    long = {"content": "albatross " + "word " * 60, "role": "user"}
    text = json.dumps(long, sort_keys=True, separators=(",", ":")).encode()
    digest = hashlib.sha256(text).digest()
    Message.objects.create(
        cell=session.cell, hash=digest, day=session.day, size=len(text), body=zstandard.compress(text)
    )
    prompt = [{"$message": digest.hex()}, {"role": "user", "content": "a short cormorant"}]
    for turn in range(3):
        add_span(session, f"g{turn}", seq=10 + turn, kind="generation", name="chat gpt-5", payload={"input": prompt})
        indexer.catch_up(ours.pk)
    for word in ("albatross", "cormorant"):
        (result,) = queries.search({ours.pk: CONTENT}, word).results
        assert (result.type, result.span and result.span.span_id) == ("message", "g0")
        assert word in "".join(part.text for part in result.snippet if part.is_match)


def test_summaries_and_changed_spans_are_found(ours: Project) -> None:
    """A summary is its own type of result. A span that changes is read again, and its old words disappear."""
    session = add_session(ours, "summed", "x")
    add_span(session, "s", seq=5, kind="compact.summary_created", name="", payload={"summary": "Decided on Kestrel"})
    indexer.catch_up(ours.pk)
    assert result_types(ours, "kestrel") == ["summary"]
    assert result_types(ours, "kestrel", METADATA) == []
    Span.objects.filter(session_key=session.session_key, span_id="s").update(
        seq=6, payload=pack(b'{"summary": "now Merlin"}')
    )
    Session.objects.filter(pk=session.pk).update(last_seq=6)
    indexer.catch_up(ours.pk)
    assert (result_types(ours, "kestrel"), result_types(ours, "merlin")) == ([], ["summary"])


def test_metadata_and_public_names_are_found_by_everyone(ours: Project) -> None:
    """Trace names, environments and tool call ids. Names that may contain what a user said are content."""
    session = add_session(ours, "named", "x")
    Trace.objects.create(
        cell=session.cell,
        trace_key=trace_key(ours.pk, "t9"),
        trace_id="t9",
        session_key=session.session_key,
        source=2,
        seq=7,
        name="nightly import",
        metadata={"deployment.environment": "staging-eu", "note": "Jane Puffin asked"},
    )
    add_span(session, "tool1", seq=8, data={"gen_ai.tool.call.id": "call_Xy12"})
    add_span(session, "hid", seq=9, kind="span", name="What is Jane Puffin's salary?")
    indexer.catch_up(ours.pk)
    for text in ("nightly", "staging", "read_file"):
        assert result_types(ours, text, METADATA) == ["session"], text
    assert result_types(ours, "call_xy12", METADATA) == ["span"]
    assert result_types(ours, "puffin", METADATA) == []
    assert result_types(ours, "puffin") == ["span"]


def test_any_span_is_found_by_its_id(ours: Project) -> None:
    """Spans without texts are not in the index and are looked up."""
    session = add_session(ours, "plain", "x")
    add_span(session, "4bf92f3577b34da6", seq=9, kind="custom", name="")
    assert result_types(ours, "4bf92f3577b34da6", METADATA) == ["span"]


def test_pages_have_no_gaps_and_no_repetitions(ours: Project) -> None:
    """Keyset pages of any size return every result once."""
    session = add_session(ours, "many", "x")
    for number in range(25):
        add_span(session, f"p{number}", seq=20 + number, payload={"output": f"pelican number {number}"})
    indexer.catch_up(ours.pk)
    seen, cursor = [], ""
    for _ in range(10):
        page = queries.search({ours.pk: CONTENT}, "pelican", limit=7, cursor=cursor)
        seen += [result.span.span_id for result in page.results if result.span]
        if page.cursor is None:
            break
        cursor = page.cursor
    assert seen == [f"p{number}" for number in reversed(range(25))]


def test_an_interrupted_index_continues(ours: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that fails in the middle leaves no trace, and the next run indexes everything once."""
    session = add_session(ours, "crash", "x")
    for number in range(30):
        add_span(session, f"c{number}", seq=50 + number, payload={"output": f"osprey {number}"})
    monkeypatch.setattr(indexer, "_SPANS", 8)
    write = indexer.search_index.write
    calls = []

    def fail_once(*arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise ConnectionError("killed")
        write(*arguments)

    monkeypatch.setattr(indexer.search_index, "write", fail_once)
    with pytest.raises(ConnectionError):
        indexer.catch_up(ours.pk)
    indexer.catch_up(ours.pk)
    assert len(queries.search({ours.pk: CONTENT}, "osprey", limit=100).results) == 30
    count = SearchDocument.objects.filter(session_key=session.session_key).count()
    SearchState.objects.all().delete()
    indexer.catch_up(ours.pk)
    assert SearchDocument.objects.filter(session_key=session.session_key).count() == count


def test_a_span_that_moved_is_found_in_its_new_session(ours: Project) -> None:
    """The old entry is not shown, although the old session still exists."""
    old, new = add_session(ours, "before", "x"), add_session(ours, "after", "x")
    add_span(old, "m", seq=30, payload={"output": "a wandering heron"})
    indexer.catch_up(ours.pk)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE ingest_span SET session_key = %s, seq = 31 WHERE session_key = %s AND span_id = 'm'",
            [new.session_key, old.session_key],
        )
    Session.objects.filter(pk=new.pk).update(last_seq=31)
    indexer.catch_up(ours.pk)
    results = queries.search({ours.pk: CONTENT}, "heron").results
    assert [result.session.session_id for result in results] == ["after"]


def test_retention_deletes_words_with_their_sessions(ours: Project, theirs: Project) -> None:
    """Row by row while another project keeps the day, and with the partition afterward."""
    day = timezone.now().date() - timezone.timedelta(days=40)
    for owner in (ours, theirs):
        key = uuid.uuid4()
        Session.objects.create(
            session_key=key,
            cell=own_cell(owner),
            session_id="old-bittern",
            day=day,
            created_at=timezone.now(),
            last_seq=9,
        )
        with connection.cursor() as cursor:
            cursor.execute(partitions.create_statement(day))
        indexer.catch_up(owner.pk)
    Project.objects.filter(pk=ours.pk).update(retention_days=30)
    assert result_types(ours, "bittern") == ["session"]
    expire()
    assert (result_types(ours, "bittern"), result_types(theirs, "bittern")) == ([], ["session"])
    assert SearchDocument.objects.filter(cell__in=cells_of(ours.pk), session_day=day).count() == 0
    Project.objects.filter(pk=theirs.pk).update(retention_days=30)
    expire_later(days=1)
    assert SearchDocument.objects.filter(session_day=day).count() == 0


@pytest.mark.parametrize(("role", "sees"), [("operator", False), ("developer", True), ("auditor", True)])
def test_the_api_shows_each_role_what_it_may_see(ours: Project, theirs: Project, role: str, sees: bool) -> None:
    """Operators find ids only. Views of texts are recorded once per hour and project."""
    client = client_for(create_user(role, ours))
    by_id = client.get("/api/search/", {"q": "grid-storage"}).json()
    assert [row["session"] for row in by_id["results"]] == ["research-grid-storage-0007"]
    by_text, *_ = [client.get("/api/search/", {"q": "nightingale"}).json() for _ in range(3)]
    assert [row["type"] for row in by_text["results"]] == (["span"] if sees else [])
    assert by_text["searched"] == ("content" if sees else "metadata")
    assert all(row["project_id"] == ours.pk for row in by_text["results"])
    assert AuditEntry.objects.filter(action="search.view", project_id=ours.pk).count() == int(sees)
    assert client.get("/api/search/", {"q": "grid", "project": "theirs"}).status_code == 400
    for cursor in ("x", f"20261117.{'9' * 30}.{'0' * 32}", "99991301.1.00"):
        assert client.get("/api/search/", {"q": "grid", "cursor": cursor}).status_code == 400


def test_a_project_that_requires_a_reason_searches_metadata(ours: Project) -> None:
    """Search cannot ask for a reason for each session."""
    Project.objects.filter(pk=ours.pk).update(requires_view_reason=True)
    answer = client_for(create_user("developer", ours)).get("/api/search/", {"q": "nightingale"}).json()
    assert (answer["results"], answer["searched"]) == ([], "metadata")


def test_words_of_identifiers() -> None:
    """Identifiers, paths and addresses count as a whole and in parts."""
    words = words_of(["Fix src/Auth/login_form.py: see jane@example.com, v1.2.3 (ERR-42)."])
    assert {"src/auth/login_form.py", "login_form.py", "login", "form", "py", "jane", "example.com", "err-42"} <= words
    assert {"1.2.3", "v1.2.3"} & words == {"v1.2.3"}


HOSTILE_TEXTS = {
    "combining marks in the wrong order": "\u0301\u0316",
    "characters that represent a phrase": "\ufdfa",
    "characters that represent a word": "\u33af",
    "letters and separators outside ASCII": "é—",
    "letters without a separator": "漢字",
    "paths": "a/",
    "separators": "/:",
    "beginnings of searched words": "queue ",
}


def ordinary_text(size: int) -> str:
    line = "Step {0}: login_form.py reads the file src/part{0}.py, then continues at café {0}.\n"
    return "".join(line.format(number) for number in range(size // 60))[:size]


@pytest.mark.req("A-LIN-1")
@pytest.mark.parametrize("case", HOSTILE_TEXTS)
def test_hostile_text_is_indexed_and_cut_in_linear_time(case: str) -> None:
    """The search index reads texts from agents, and results show parts of them. Sizes are bytes, as in a request."""
    unit = HOSTILE_TEXTS[case]
    # Not in the texts, so that each is searched to its end.
    query = Query.parse(".".join(f"queue{number}" for number in range(9)))

    def hostile(size: int) -> str:
        return "a" + unit * (size // len(unit.encode()))

    assert_linear(lambda text: words_of([text]), hostile, ordinary=ordinary_text)
    assert_linear(lambda text: snippet([text], query), hostile, ordinary=ordinary_text)


def test_a_snippet_is_cut_around_the_first_match() -> None:
    """Long texts are cut on both sides, and all matches in the window are highlighted."""
    text = "before " * 50 + "needle one\n\nneedle two " + "after " * 100
    parts = snippet([text], Query.parse("needle"))
    assert [part.text for part in parts if part.is_match] == ["needle", "needle"]
    assert parts[0].text.startswith("…") and parts[-1].text.endswith("…")
    assert sum(len(part.text) for part in parts) < 250


def test_the_marks_of_a_summary_are_not_searched() -> None:
    """They tell a model that the text is a summary. Every summary has them, so they would match all of them."""
    text = "<COMPACT-SUMMARY v4>\n[Summary v1.0 task_state]\n## Goals\n- Ship the ledger"
    assert message_texts({"role": "user", "content": text}) == ["## Goals\n- Ship the ledger"]


@pytest.mark.parametrize("limit", [1, 2, 20])
def test_an_exact_identifier_comes_before_its_parts(db: None, limit: int) -> None:
    """Each page continues the one before, and nothing is shown twice."""
    ours, theirs = create_project("ours"), create_project("theirs")
    add_session(ours, "exact", "The value is secret_key_base in config.")
    for number in range(3):
        add_session(ours, f"parts-{number}", f"The secret {number} is a key, the base of it.")
    add_session(theirs, "other", "Flamingo has a secret_key_base too.")
    for owner in (ours, theirs):
        indexer.catch_up(owner.pk)
    names, cursor = [], ""
    while cursor is not None:
        page = queries.search({ours.pk: CONTENT}, "secret_key_base", limit=limit, cursor=cursor)
        names += [result.session.session_id for result in page.results]
        cursor = page.cursor
    assert names[0] == "exact" and sorted(names) == ["exact", "parts-0", "parts-1", "parts-2"]
