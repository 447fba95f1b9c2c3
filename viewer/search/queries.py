"""Search the sessions of one or more projects.

    page = search({project_id: Visibility.METADATA}, "grid-stor", limit=20)

With `Visibility.CONTENT`, which only `viewer.audit.payload_views` grants, texts of messages, summaries and tool calls
are searched too, and results have snippets of them. The caller then records the view in the audit log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.db import connection

from ingest.cells import cells_of
from ingest.models import Session
from ingest.storage import payloads
from ingest.storage.search_index import SESSION_ITEM
from viewer.kinds import SUMMARY, kind_of
from viewer.rest import BadFilter
from viewer.search.documents import find_message, message_texts, span_texts
from viewer.search.indexer import decode_message
from viewer.search.words import Part, Query, snippet
from viewer.sessions import labels
from viewer.sessions.queries import IN_SESSION, SPAN_COLUMNS, in_session, session_of_span, sessions_of, span_row
from viewer.sessions.spans import SpanRow
from viewer.visibility.public_parts import Visibility

MAX_RESULTS = 100
MIN_CHARS = 2
# Shorter texts are not looked up as the id of a span.
_MIN_ID_CHARS = 8
# More do not fit a bigint.
_MAX_DIGITS = 18
# The number of days that are searched first. Each further step searches four times as many older days.
_FIRST_DAYS = 2
_MATCHES = """
SELECT cell, session_key, session_day, item, seq, trace_id, span_id, message FROM ingest_search
WHERE session_day BETWEEN %s AND %s AND ({conditions}){after}
ORDER BY session_day DESC, seq DESC, item DESC LIMIT %s
"""
# The start of a cursor within the matches that have the identifiers of a query as they are.
_EXACT = "exact."
_CONDITION = "words @@ %s::tsquery"
_HAS_LABEL = (
    " AND EXISTS (SELECT 1 FROM ingest_label l WHERE l.cell = ANY(%s) AND l.cell = ingest_search.cell"
    " AND l.session_key = ingest_search.session_key AND l.key = ANY(%s::text[]) AND l.value = %s)"
)
_SPANS = f"""
SELECT s.session_key, {", ".join(f"s.{name}" for name in SPAN_COLUMNS.split(", "))}, data, {{payload}}
FROM unnest(%s::uuid[], %s::date[], %s::text[], %s::text[]) k (a, b, c, d)
JOIN ingest_span s ON (s.session_key, s.session_day, s.trace_id, s.span_id) = (k.a, k.b, k.c, k.d)
WHERE s.cell = %s
"""  # noqa: S608 - constants


@dataclass(frozen=True, slots=True)
class Result:
    """A session, or a part of one, that matches a query. `snippet` has conversation text only with the right to it."""

    type: str  # session, message, summary or span
    session: Session
    span: SpanRow | None = None
    snippet: list[Part] = field(default_factory=list)

    @property
    def at(self) -> datetime | None:
        if self.span is None:
            return self.session.last_at
        return self.span.ended_at or self.span.started_at


@dataclass(frozen=True, slots=True)
class Page:
    """Results, newest first, and the cursor of the next page."""

    results: list[Result]
    cursor: str | None
    has_content: bool
    """True if snippets contain conversation text, which the caller records in the audit log."""


@dataclass(frozen=True, slots=True)
class _Match:
    cell: int
    session_key: UUID
    day: date
    item: UUID
    seq: int
    trace_id: str | None
    span_id: str | None
    message: bytes | None

    is_exact: bool = False
    """True if the match has the identifiers of the query as they are. Such matches come first."""

    @property
    def cursor(self) -> str:
        return f"{_EXACT if self.is_exact else ''}{self.day:%Y%m%d}.{self.seq}.{self.item.hex}"


def search(
    projects: Mapping[int, Visibility],
    text: str,
    *,
    limit: int = 20,
    cursor: str = "",
    session: UUID | None = None,
    with_labels: Mapping[str, str] | None = None,
) -> Page:
    """Return the sessions, messages, summaries and spans that contain all words of `text`, newest first.

    Those that have its identifiers and paths as they are come before those that have only their parts.

    `projects` has the projects that the reader has access to, each with the part of its sessions that they see. Words
    match as prefixes. `cursor` is that of the previous page. `session` limits the search to one session, and
    `with_labels` to sessions with these values by kind, such as `{"environment": "production"}`.
    """
    query = Query.parse(text)
    after = _parse_cursor(cursor.removeprefix(_EXACT))
    if not projects or sum(map(len, query.terms)) < MIN_CHARS:
        return Page([], None, has_content=False)
    find = partial(_find, projects, query, session=session, with_labels=with_labels or {})
    matches = _find_exact_first(find, query, limit + 1, after, is_exact=cursor.startswith(_EXACT))
    next_cursor = matches[limit - 1].cursor if len(matches) > limit else None
    results = list(_results(projects, query, matches[:limit]))
    if after is None and session is None and not with_labels:
        results = [*_exact_span(projects, text.strip(), results), *results]
    return Page(results, next_cursor, any(_has_content(projects, result) for result in results))


def _find_exact_first(
    find: Callable[..., list[_Match]],
    query: Query,
    limit: int,
    after: tuple[date, int, UUID] | None,
    *,
    is_exact: bool,
) -> list[_Match]:
    """Return exact matches and then the others. `is_exact` is True if the page before ended with exact ones."""
    matches = find(limit, after, only_exact=True) if query.has_names and (after is None or is_exact) else []
    if len(matches) < limit:
        matches += find(limit - len(matches), None if is_exact else after, only_exact=False)
    return matches


def _has_content(projects: Mapping[int, Visibility], result: Result) -> bool:
    return result.span is not None and projects[result.session.project_id] is Visibility.CONTENT


def _find(
    projects: Mapping[int, Visibility],
    query: Query,
    limit: int,
    after: tuple[date, int, UUID] | None,
    *,
    session: UUID | None,
    with_labels: Mapping[str, str],
    only_exact: bool,
) -> list[_Match]:
    """Return the newest matches. Older days are only read if the newer ones have too few.

    With `only_exact`, identifiers match as they are, and otherwise only what such a search does not find.
    """
    oldest, newest = _days_with_sessions(projects)
    if after is not None:
        newest = min(newest, after[0])
    condition = f"(cell = ANY(%s) AND {_CONDITION}{_HAS_LABEL * len(with_labels)})"
    parameters: list[Any] = []
    for project_id, visibility in projects.items():
        with_content = visibility is Visibility.CONTENT
        words = query.tsquery(project_id, with_content=with_content, only_exact=only_exact)
        parameters += [cells_of(project_id), words]
        for kind, value in with_labels.items():
            parameters += [cells_of(project_id), labels.visible_keys(kind, value, visibility), value]
    conditions = " OR ".join([condition] * len(projects))
    extra = ""
    extra_parameters: list[Any] = []
    if after is not None:
        extra, extra_parameters = " AND (session_day, seq, item) < (%s, %s, %s)", list(after)
    if session is not None:
        extra, extra_parameters = f"{extra} AND session_key = %s", [*extra_parameters, session]
    statement = _MATCHES.format(conditions=conditions, after=extra)
    matches: list[_Match] = []
    days = _FIRST_DAYS
    with connection.cursor() as cursor:
        while newest >= oldest and len(matches) < limit:
            first = max(oldest, newest - timedelta(days=days - 1))
            cursor.execute(statement, [first, newest, *parameters, *extra_parameters, limit - len(matches)])
            matches += [_match(row, is_exact=only_exact) for row in cursor.fetchall()]
            newest, days = first - timedelta(days=1), days * 4
    return matches


def _match(row: Sequence[Any], *, is_exact: bool) -> _Match:
    cell, key, day, item, seq, trace_id, span_id, message = row
    return _Match(cell, key, day, item, seq, trace_id, span_id, None if message is None else bytes(message), is_exact)


def _days_with_sessions(projects: Iterable[int]) -> tuple[date, date]:
    """Return the first and the last day with sessions of these projects. A clock that was ahead leaves later ones."""
    days = [
        day
        for cell in cells_of(*projects)
        for order in ("day", "-day")
        for day in Session.objects.filter(cell=cell).order_by(order).values_list("day", flat=True)[:1]
    ]
    return min(days, default=date.max), max(days, default=date.min)


def _results(projects: Mapping[int, Visibility], query: Query, matches: Sequence[_Match]) -> Iterator[Result]:
    sessions = sessions_of({match.cell for match in matches}, {match.session_key for match in matches})
    with_content = any(visibility is Visibility.CONTENT for visibility in projects.values())
    spans = _read_spans([match for match in matches if match.item != SESSION_ITEM], with_payload=with_content)
    stored = _read_messages(matches) if with_content else {}
    for match in matches:
        # The session may have been deleted, or the span moved to another one, since the index was written.
        session = sessions.get(match.session_key)
        row = spans.get((match.session_key, match.trace_id, match.span_id))
        if session is not None and match.item == SESSION_ITEM:
            yield Result("session", session, snippet=_name_parts(session, query))
        elif session is not None and row is not None:
            yield _span_result(match, session, *row, query, projects[session.project_id], stored)


def _span_result(
    match: _Match,
    session: Session,
    span: SpanRow,
    payload: Any,
    query: Query,
    visibility: Visibility,
    stored: Mapping[tuple[int, bytes], list[str]],
) -> Result:
    """Return what a reader sees of a span, or of a message in it."""
    type_ = "message" if match.message else "summary" if span.kind == SUMMARY else "span"
    seen = span.as_seen(visibility)
    if visibility is not Visibility.CONTENT:
        return Result(type_, session, seen, [Part(kind_of(seen.kind).label, is_match=False)])
    return Result(type_, session, seen, snippet(_texts(match, span, payload, stored), query))


def _texts(match: _Match, span: SpanRow, payload: Any, stored: Mapping[tuple[int, bytes], list[str]]) -> Iterable[str]:
    """Return the texts that a match was indexed from."""
    if match.message is None:
        return span_texts(span, payload)
    if (texts := stored.get((match.cell, match.message))) is not None:
        return texts
    message = find_message(payload, match.message)
    return message_texts(message) if message is not None else []


def _name_parts(session: Session, query: Query) -> list[Part]:
    """Return the id of a session with its matches highlighted."""
    parts, position = [], 0
    for start, stop in query.matches(session.session_id):
        if start >= position:
            parts += [Part(session.session_id[position:start], is_match=False)]
            parts += [Part(session.session_id[start:stop], is_match=True)]
            position = stop
    parts.append(Part(session.session_id[position:], is_match=False))
    return [part for part in parts if part.text]


def _read_spans(
    matches: Sequence[_Match], *, with_payload: bool
) -> dict[tuple[UUID, str | None, str | None], tuple[SpanRow, Any]]:
    keys: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for match in matches:
        keys[match.cell].append((match.session_key, match.day, match.trace_id, match.span_id))
    statement = _SPANS.format(payload="payload" if with_payload else "NULL")
    rows: list[tuple[Any, ...]] = []
    with connection.cursor() as cursor:
        for cell, cell_keys in keys.items():
            cursor.execute(statement, [*map(list, zip(*cell_keys, strict=True)), cell])
            rows += cursor.fetchall()
    return {(row[0], row[1], row[2]): (span_row(row[1:12]), payloads.decode(row[12])) for row in rows}


def _read_messages(matches: Sequence[_Match]) -> dict[tuple[int, bytes], list[str]]:
    hashes = [match.message for match in matches if match.message is not None]
    if not hashes:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT cell, hash, body, size FROM ingest_message WHERE cell = ANY(%s) AND hash = ANY(%s)",
            [list({match.cell for match in matches}), hashes],
        )
        return {(row[0], bytes(row[1])): decode_message(row[2], row[3]) for row in cursor.fetchall()}


def _exact_span(projects: Mapping[int, Visibility], name: str, results: Sequence[Result]) -> list[Result]:
    """Return the session of the span with exactly this id, unless the index has it. Most spans are not in the index."""
    if " " in name or len(name) < _MIN_ID_CHARS or any(r.span and r.span.span_id == name for r in results):
        return []
    session = session_of_span(projects, name)
    if session is None:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {SPAN_COLUMNS}, data FROM ingest_span WHERE {IN_SESSION} AND span_id = %s LIMIT 1",  # noqa: S608
            [*in_session(session), name],
        )
        row = cursor.fetchone()
    if row is None:
        return []
    span = span_row(row).as_seen(projects[session.project_id])
    return [Result("span", session, span, [Part(name, is_match=True)])]


def _parse_cursor(text: str) -> tuple[date, int, UUID] | None:
    if not text:
        return None
    try:
        day, seq, item = text.split(".")
        if len(seq) > _MAX_DIGITS:
            raise ValueError(seq)
        return datetime.strptime(day, "%Y%m%d").date(), int(seq), UUID(item)
    except ValueError:
        raise BadFilter("cursor", "Invalid cursor. Use the value from `next`.") from None
