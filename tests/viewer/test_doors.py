"""Every address × every kind of person × every method: who gets in, who is sent away, and how.

The table is complete by test: an address that is not in it fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from people import archived, person, project, session_with_span, signed_in

from ingest.http import keys
from ingest.models import IngestKey, Project, session_key
from viewer.accounts import api_tokens
from viewer.accounts.access import Right
from viewer.accounts.roles import ROLES
from viewer.models import AuditEntry

pytestmark = pytest.mark.django_db

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
SAFE = frozenset({"GET", "HEAD"})
SECRET = "the text that agents sent"
NAME, SPAN = "guarded-session", "t-guarded-session:a"
OPEN, LOGIN = "open", "login"


@dataclass(frozen=True)
class Door:
    """An address, what it takes to pass, and the methods it knows. `has_object`: it names something of a project."""

    path: str
    needs: Right | str
    methods: frozenset[str] = SAFE
    has_object: bool = False


POST, BOTH = frozenset({"POST"}), SAFE | {"POST"}
DOORS = {
    "session-list": Door("/", Right.SESSIONS),
    "session-detail": Door("/sessions/{session}/", Right.SESSIONS, has_object=True),
    "inspector": Door("/sessions/{session}/inspector/?span={span}", Right.SESSIONS, has_object=True),
    "payload": Door("/sessions/{session}/payload/?span={span}", Right.PAYLOAD, has_object=True),
    "compaction-detail": Door("/sessions/{session}/compactions/1/", Right.SESSIONS, has_object=True),
    "what-if": Door("/sessions/{session}/compactions/1/what-if/", Right.SESSIONS, has_object=True),
    "rework": Door("/sessions/{session}/compactions/1/regrets/", Right.SESSIONS, has_object=True),
    "ledger-file": Door("/sessions/{session}/compactions/1/ledger.csv", Right.SESSIONS, has_object=True),
    "message": Door("/sessions/{session}/messages/00/", Right.PAYLOAD, has_object=True),
    "tail": Door("/tail/", Right.TAIL),
    "compare": Door("/compare/", Right.SESSIONS),
    "transcript-list": Door("/transcripts/", Right.TRANSCRIPTS),
    "transcript-detail": Door("/transcripts/{key}/1/", Right.TRANSCRIPTS, has_object=True),
    "transcript-download": Door("/transcripts/{key}/1/download/", Right.TRANSCRIPTS, has_object=True),
    "transcript-verify": Door("/transcripts/{key}/1/verify/", Right.TRANSCRIPTS, POST, has_object=True),
    "transcript-delete": Door("/transcripts/{key}/1/delete/", Right.MANAGE, POST, has_object=True),
    "audit-log": Door("/audit/", Right.AUDIT),
    "audit-csv": Door("/audit/csv/", Right.AUDIT),
    "audit-verify": Door("/audit/verify/", Right.AUDIT, POST),
    "key-list": Door("/keys/", Right.KEYS, BOTH),
    "project-list": Door("/projects/", Right.MANAGE),
    "project-detail": Door("/projects/ours/", Right.MANAGE, has_object=True),
    "project-keep": Door("/projects/ours/keep/", Right.MANAGE, POST, has_object=True),
    "member-add": Door("/projects/ours/members/", Right.MANAGE, POST, has_object=True),
    "token-list": Door("/tokens/", LOGIN, BOTH),
    "signing-key": Door("/.well-known/ariadne-signing-key", OPEN),
    "login": Door("/login/", OPEN, BOTH),
    "logout": Door("/logout/", OPEN, POST),
    "schema": Door("/api/schema/", OPEN),
    "api-sessions": Door("/api/sessions/", Right.SESSIONS),
    "api-session": Door("/api/sessions/{session}/", Right.SESSIONS, has_object=True),
    "api-spans": Door("/api/sessions/{session}/spans/", Right.SESSIONS, has_object=True),
    "api-tree": Door("/api/sessions/{session}/tree/", Right.SESSIONS, has_object=True),
    "api-tokens": Door("/api/sessions/{session}/tokens/", Right.SESSIONS, has_object=True),
    "api-compactions": Door("/api/sessions/{session}/compactions/", Right.SESSIONS, has_object=True),
    "api-span": Door("/api/spans/{span}/", Right.SESSIONS, has_object=True),
    "api-transcripts": Door("/api/transcripts/", Right.TRANSCRIPTS),
    "api-transcript": Door("/api/transcripts/{key}.1/", Right.TRANSCRIPTS, has_object=True),
    "api-transcript-download": Door("/api/transcripts/{key}.1/download/", Right.TRANSCRIPTS, has_object=True),
    "api-transcript-bundle": Door("/api/transcripts/{key}.1/bundle/", Right.TRANSCRIPTS, has_object=True),
    "api-transcript-verify": Door("/api/transcripts/{key}.1/verify/", Right.TRANSCRIPTS, POST, has_object=True),
    "api-audit": Door("/api/audit/", Right.AUDIT),
}
# Keys and tokens belong to people as well as projects: test_key_pages and
# test_project_pages have their doors.
ELSEWHERE = {"key-rotate", "key-revoke", "token-revoke", "member-remove"}


def addresses(patterns: list[URLPattern | URLResolver], prefix: str = "") -> Iterator[tuple[str, str]]:
    for pattern in patterns:
        path = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from addresses(pattern.url_patterns, path)
        else:
            yield str(pattern.name), path


def test_the_table_has_every_address():
    """A new address must say who may pass."""
    named = {name for name, path in addresses(get_resolver().url_patterns) if not path.startswith("admin/")}
    assert named - ELSEWHERE == set(DOORS)


@pytest.fixture
def ours() -> Project:
    owner = project("ours")
    session_with_span(owner, session_id=NAME, text=SECRET)
    archived(owner, session=NAME, texts=(SECRET, "x"))
    return owner


def path_of(door: Door, owner: Project) -> str:
    return door.path.format(session=NAME, span=SPAN, key=session_key(owner.pk, NAME))


def knock(client: Client, method: str, path: str) -> HttpResponse:
    response = client.generic(method, path)
    if response.streaming:
        response.getvalue()
    return response


PEOPLE = ("anonymous", "", "operator", "developer", "auditor", "admin", "superuser")


def rights_of(kind: str) -> frozenset[Right]:
    if kind == "superuser":
        return frozenset(Right)
    return ROLES.get(f"{kind}s", frozenset())


def someone(kind: str, owner: Project) -> User | None:
    if kind == "anonymous":
        return None
    return User.objects.create_superuser("root") if kind == "superuser" else person(kind, owner)


@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize("kind", PEOPLE)
def test_each_person_passes_their_own_doors_and_no_other(kind: str, ours: Project):
    """Strangers go to the login or get 401, people without the right 403, people with it what they came for."""
    client = signed_in(someone(kind, ours))
    wrong = []
    for name, door in DOORS.items():
        if name == "logout":
            continue
        for method in METHODS:
            response = knock(client, method, path_of(door, ours))
            expected = expectation(door, kind, method, is_api=door.path.startswith("/api/"))
            if name in {"compaction-detail", "what-if", "rework", "ledger-file"} and expected == {200}:
                expected = {404}  # the session has none
            if name == "project-list" and expected == {200}:
                expected = {302}  # there is one alone
            if name == "login" and kind != "anonymous":
                expected = {302, 405}
            if response.status_code not in expected:
                wrong.append(f"{kind or 'nobody'} {method} {door.path}: {response.status_code}, not {expected}")
    assert not wrong, "\n".join(wrong)


def expectation(door: Door, kind: str, method: str, *, is_api: bool) -> set[int]:
    is_known = method in door.methods
    if door.needs == OPEN:
        return {200} if is_known else {200, 405}
    if kind == "anonymous":
        return {401} if is_api else {302}
    if door.needs != LOGIN and door.needs not in rights_of(kind):
        return {403}
    if method == "OPTIONS" and is_api:
        return {200}
    if not is_known:
        return {405}
    return {200} if method in SAFE else {200, 302}


@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize("kind", ["operator", "developer", "auditor", "admin"])
def test_another_projects_objects_do_not_exist(kind: str, ours: Project):
    """404 by every address that names one, whatever one may do at home; and lists do not show them."""
    client = signed_in(person(kind, project("theirs")))
    # Lists first: afterwards the log rightly shows the addresses that were tried.
    for door in sorted(DOORS.values(), key=lambda door: door.has_object):
        if door.needs == LOGIN or door.needs not in rights_of(kind):
            continue
        path = path_of(door, ours)
        response = client.get(path) if "GET" in door.methods else client.post(path)
        body = response.getvalue() if response.streaming else response.content
        if door.has_object:
            assert response.status_code == 404, f"{kind} {path}: {response.status_code}"
        assert NAME.encode() not in body.replace(path.encode(), b"")


@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize("kind", ["", "operator"])
def test_no_address_shows_the_texts_without_the_right(kind: str, ours: Project):
    """Not as HTML, not as JSON, not in a header, whatever is asked for."""
    client = signed_in(person(kind, ours))
    extra = ("?payload=1", f"?span={SPAN}", "?show=text", "?fragment=rows", f"?span={SPAN}&payload=1")
    for door in DOORS.values():
        path = path_of(door, ours)
        for query in ("", *extra):
            response = client.get(path.split("?")[0] + query if query else path)
            body = response.getvalue() if response.streaming else response.content
            assert SECRET.encode() not in body, path + query
            assert SECRET not in str(response.headers)


@pytest.mark.req("P-SEC-1")
def test_a_token_opens_no_door_that_its_scopes_do_not_name(ours: Project):
    """And no page at all: pages are for people."""
    admin = person("admin", ours)
    for scope in api_tokens.SCOPES:
        _, text = api_tokens.create(admin, label=scope, scopes=[scope])
        for door in DOORS.values():
            if door.needs in {OPEN, LOGIN} or "GET" not in door.methods:
                continue
            response = Client().get(path_of(door, ours), headers={"Authorization": f"Bearer {text}"})
            if response.streaming:
                response.getvalue()
            is_api = door.path.startswith("/api/")
            is_text = door.path.endswith(("/download/", "/bundle/"))
            allowed = {200} if door.needs == scope and not is_text else {403}
            assert response.status_code in (allowed if is_api else {302}), f"{scope} {door.path} {response.status_code}"


@pytest.mark.req("P-SEC-1")
def test_the_text_of_a_transcript_needs_both_rights(ours: Project):
    """To know of transcripts is one right, to have their texts another; neither alone gives a download."""
    auditor = person("auditor", ours)
    path = path_of(DOORS["api-transcript-download"], ours)
    for scopes, status in (
        ([Right.TRANSCRIPTS], 403),
        ([Right.PAYLOAD], 403),
        ([Right.TRANSCRIPTS, Right.PAYLOAD], 200),
    ):
        _, text = api_tokens.create(auditor, label="t", scopes=scopes)
        response = Client().get(path, headers={"Authorization": f"Bearer {text}"})
        body = response.getvalue() if response.streaming else response.content
        assert response.status_code == status and (SECRET.encode() in body) == (status == 200)
    auditors = Group.objects.get(name="auditors")
    auditors.permissions.remove(Permission.objects.get(codename="view_payload"))
    for name in ("transcript-download", "transcript-detail", "api-transcript-bundle"):
        response = signed_in(auditor).get(path_of(DOORS[name], ours) + "?show=text")
        assert SECRET.encode() not in response.content
        assert response.status_code == (200 if name == "transcript-detail" else 403)


@pytest.mark.req("P-SEC-1")
def test_an_ingest_key_opens_no_reading_door(ours: Project):
    """It writes, and sees nothing."""
    text = keys.create(ours, label="k")
    for door in DOORS.values():
        if door.needs == OPEN or "GET" not in door.methods:
            continue
        response = Client().get(path_of(door, ours), headers={"Authorization": f"Bearer {text}"})
        assert response.status_code in {302, 401}, door.path


@pytest.mark.req("P-SEC-1")
def test_every_change_needs_a_csrf_token(ours: Project):
    """A page of somebody else's cannot make a logged-in browser act."""
    user = person("admin", ours)
    keys.create(ours, label="k", created_by=user)
    api_tokens.create(user, label="t", scopes=[Right.TAIL])
    pk, token = IngestKey.objects.get().pk, user.api_tokens.get().pk
    paths = [path_of(door, ours) for door in DOORS.values() if "POST" in door.methods]
    for path in [*paths, f"/keys/{pk}/rotate/", f"/keys/{pk}/revoke/", f"/tokens/{token}/revoke/"]:
        client = signed_in(user, enforce_csrf_checks=True)
        assert client.post(path, {"reason": "x", "label": "x", "project": "ours"}).status_code == 403, path
    assert keys.active().count() == 1


@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize(("kind", "status"), [("operator", 403), ("developer", 200), ("auditor", 200)])
def test_the_api_gives_a_payload_only_with_the_right_and_writes_it_down(kind: str, status: int, ours: Project):
    """Whoever has none gets the span without it, and is refused where they ask for it by `payload=1`."""
    client = signed_in(person(kind, ours))
    assert (SECRET in client.get(f"/api/spans/{SPAN}/").content.decode()) == (status == 200)
    assert SECRET not in client.get(f"/api/spans/{SPAN}/?payload=0").content.decode()
    response = client.get(f"/api/spans/{SPAN}/?payload=1")
    assert response.status_code == status and (SECRET in response.content.decode()) == (status == 200)
    logged = AuditEntry.objects.latest("position").action
    assert logged == ("payload.view" if status == 200 else "access.denied")


BAD_NAMES = [
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/",
    "....//",
    "s'; DROP TABLE ingest_session; --",
    "s%00",
    "%ff%fe",
    "s%0d%0aSet-Cookie:%20a=b",
    "00000000-0000-0000-0000-000000000000",
    "x" * 5000,
    "\u202esnaps",
    "{{7*7}}",
    "<script>alert(1)</script>",
]


@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_is_only_a_name(name: str, ours: Project):
    """Traversal, SQL, NUL, line breaks, templates and markup in ids: 404 or 400, never a 500, never a header."""
    client = signed_in(person("admin", ours))
    for prefix in ("/sessions/", "/api/sessions/", "/api/spans/", "/api/transcripts/", "/transcripts/"):
        for suffix in ("/", "/download/"):
            response = client.get(prefix + name + suffix)
            assert response.status_code in {400, 404}, f"{prefix}{name}{suffix}: {response.status_code}"
            assert "Set-Cookie" not in response.headers
            assert b"<script>alert" not in response.content


SQL = ["' OR '1'='1", "'; DROP TABLE viewer_auditentry; --", "\\", "1) OR (1=1", "%"]


@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize("text", SQL)
def test_sql_in_a_filter_is_only_text(text: str, ours: Project):
    """It finds nothing it should not, and breaks nothing."""
    client = signed_in(person("auditor", ours))
    names = ("q", "actor", "model", "state", "kind", "status", "before", "after", "since", "until", "limit", "session")
    for path in (
        "/",
        "/transcripts/",
        "/audit/",
        "/api/sessions/",
        "/api/transcripts/",
        "/api/audit/",
        f"/api/sessions/{NAME}/spans/",
    ):
        for name in names:
            assert client.get(path, {name: text}).status_code in {200, 400}, f"{path}?{name}={text}"
    assert client.get("/api/audit/", {"q": text}).json()["results"] == []
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM viewer_auditentry")


def test_wildcards_of_sql_are_ordinary_letters_in_a_search(ours: Project):
    """`%` finds a percent sign, not everything."""
    client = signed_in(person("auditor", ours))
    assert client.get("/api/transcripts/", {"q": "%"}).json()["results"] == []
    assert len(client.get("/api/transcripts/", {"q": "DED-sess"}).json()["results"]) == 1
