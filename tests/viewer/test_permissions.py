"""Access to every address, for every role and every method.

A test fails if an address is missing from the table.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from people import client_for, create_project, create_session, create_transcript, create_user
from routes import LOGIN, OPEN, ROUTES, SAFE, SUPERUSER, Route

from ingest.cells import cells_of
from ingest.http import keys
from ingest.models import IngestKey, Project, session_key
from viewer.accounts import api_tokens
from viewer.accounts.access import Right
from viewer.accounts.roles import ROLES
from viewer.models import AlertRule, AuditEntry, Bookmark, Comment

pytestmark = pytest.mark.django_db

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
SECRET = "the text that agents sent"
NAME, SPAN = "guarded-session", "t-guarded-session:a"


# Keys, tokens and memberships also belong to users. See test_key_pages, test_project_pages and
# test_redaction_pages.
_RULES = {"alert-rule", "alert-toggle", "alert-test", "alert-secret", "alert-delete"}  # test_alert_pages
_RULES |= {"api-alert-rules", "api-alert-rule"}  # test_alert_api
_COMMENTS = {"comment-edit", "comment-delete", "api-comments", "api-comment", "api-bookmark"}  # test_comments
_OF_COMPACTIONS = {"compaction-detail", "compaction-of-span", "what-if", "rework", "ledger-file", "ledger-previews"}
TESTED_ELSEWHERE = (
    _RULES | _COMMENTS | {"key-rotate", "key-revoke", "token-revoke", "member-remove", "redaction-remove"}
)


def routes(patterns: list[URLPattern | URLResolver], prefix: str = "") -> Iterator[tuple[str, str]]:
    for pattern in patterns:
        path = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, path)
        else:
            yield str(pattern.name), path


def test_the_table_has_every_address():
    """A new address must declare the right it needs."""
    names = {name for name, path in routes(get_resolver().url_patterns) if not path.startswith("admin/")}
    assert names - TESTED_ELSEWHERE == set(ROUTES)


@pytest.fixture
def ours() -> Project:
    owner = create_project("ours")
    create_session(owner, session_id=NAME, text=SECRET)
    create_transcript(owner, session=NAME, texts=(SECRET, "x"))
    return owner


def path_of(route: Route, owner: Project) -> str:
    return route.path.format(session=NAME, span=SPAN, key=session_key(owner.pk, NAME))


def call(client: Client, method: str, path: str) -> HttpResponse:
    response = client.generic(method, path)
    if response.streaming:
        response.getvalue()
    return response


ROLE_NAMES = ("anonymous", "", "operator", "developer", "auditor", "admin", "superuser")


def rights_of(role: str) -> frozenset[Right | str]:
    if role == "superuser":
        return frozenset({*Right, SUPERUSER})
    return ROLES.get(f"{role}s", frozenset())


def user_of(role: str, owner: Project) -> User | None:
    if role == "anonymous":
        return None
    return User.objects.create_superuser("root") if role == "superuser" else create_user(role, owner)


@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize("role", ROLE_NAMES)
def test_each_role_has_access_only_to_its_routes(role: str, ours: Project):
    """Anonymous users are sent to the login or get 401. Users without the right get 403."""
    client = client_for(user_of(role, ours))
    problems = []
    for name, route in ROUTES.items():
        if name == "logout":
            continue
        for method in METHODS:
            response = call(client, method, path_of(route, ours))
            expected = expected_statuses(route, role, method, is_api=route.path.startswith("/api/"))
            if name in _OF_COMPACTIONS and expected == {200}:
                expected = {404}  # the session has no compaction
            if name == "project-list" and expected == {200}:
                expected = {302}  # to the only project
            if name == "redaction-add" and method == "POST" and Right.MANAGE in rights_of(role):
                expected = {400}  # the form is empty
            if name == "login" and role != "anonymous":
                expected = {302, 405}
            if response.status_code not in expected:
                problems.append(f"{role or 'no role'} {method} {route.path}: {response.status_code}, not {expected}")
    assert not problems, "\n".join(problems)


def expected_statuses(route: Route, role: str, method: str, *, is_api: bool) -> set[int]:
    is_known = method in route.methods
    if route.right == OPEN:
        return {200} if is_known else {200, 405}
    if role == "anonymous":
        return {401} if is_api else {302}
    if route.right != LOGIN and route.right not in rights_of(role):
        return {403}
    if method == "OPTIONS" and is_api:
        return {200}
    if not is_known:
        return {405}
    return {200} if method in SAFE else {200, 302}


@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize("role", ["operator", "developer", "auditor", "admin"])
def test_objects_of_other_projects_do_not_exist(role: str, ours: Project):
    """Every address that names one returns 404, and lists do not contain them."""
    client = client_for(create_user(role, create_project("theirs")))
    # Lists first: afterward the audit log contains the requested addresses.
    for route in sorted(ROUTES.values(), key=lambda route: route.has_object):
        if route.right == LOGIN or route.right not in rights_of(role):
            continue
        path = path_of(route, ours)
        response = client.get(path) if "GET" in route.methods else client.post(path)
        body = response.getvalue() if response.streaming else response.content
        if route.has_object:
            assert response.status_code == 404, f"{role} {path}: {response.status_code}"
        assert NAME.encode() not in body.replace(path.encode(), b"")


@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize("role", ["anonymous", "", "operator", "developer", "auditor", "admin"])
def test_rules_and_comments_of_other_projects_do_not_exist(role: str, ours: Project):
    """Every address that names one, with every method. Other tests cover those of the own project."""
    owner = create_user("admin", ours)
    rule = AlertRule.objects.create(project=ours, name=SECRET, kind="silence", threshold=1, created_by=owner)
    comment = Comment.objects.create(
        cell=cells_of(ours.pk)[0], session_key=session_key(ours.pk, NAME), author=owner, text=SECRET
    )
    client = client_for(user_of(role, create_project("theirs")))
    problems = []
    for name in sorted(_RULES | _COMMENTS):
        if name == "api-alert-rules":
            continue  # has no object
        target = NAME if name in {"api-comments", "api-bookmark"} else rule.pk if name in _RULES else comment.id
        for method in METHODS:
            response = call(client, method, reverse(name, args=[target]))
            allowed = {302, 401} if role == "anonymous" else {403, 404, 405}
            is_description = method == "OPTIONS" and response.status_code == 200
            if SECRET.encode() in response.content or not (is_description or response.status_code in allowed):
                problems.append(f"{role or 'no role'} {method} {name}: {response.status_code}")
    assert not problems, "\n".join(problems)
    assert AlertRule.objects.get().is_enabled
    assert Comment.objects.get().text == SECRET
    assert not Bookmark.objects.exists()


@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize("role", ["", "operator"])
def test_no_route_returns_texts_without_the_right(role: str, ours: Project):
    """Not as HTML, JSON or header, with any query."""
    client = client_for(create_user(role, ours))
    extra = ("?payload=1", f"?span={SPAN}", "?show=text", "?fragment=rows", f"?span={SPAN}&payload=1")
    for route in ROUTES.values():
        path = path_of(route, ours)
        for query in ("", *extra):
            response = client.get(path.split("?")[0] + query if query else path)
            body = response.getvalue() if response.streaming else response.content
            assert SECRET.encode() not in body, path + query
            assert SECRET not in str(response.headers)


@pytest.mark.req("P-SEC-1")
def test_a_token_has_access_only_to_routes_of_its_scopes(ours: Project):
    """Pages do not accept tokens."""
    admin = create_user("admin", ours)
    for scope in api_tokens.SCOPES:
        _, text = api_tokens.create(admin, label=scope, scopes=[scope])
        for route in ROUTES.values():
            if route.right in {OPEN, LOGIN} or "GET" not in route.methods:
                continue
            response = Client().get(path_of(route, ours), headers={"Authorization": f"Bearer {text}"})
            if response.streaming:
                response.getvalue()
            is_api = route.path.startswith("/api/")
            is_text = route.path.endswith(("/download/", "/bundle/"))
            allowed = {200} if route.right == scope and not is_text else {403}
            expected = allowed if is_api else {302}
            assert response.status_code in expected, f"{scope} {route.path} {response.status_code}"


@pytest.mark.req("P-SEC-1")
def test_the_text_of_a_transcript_needs_both_rights(ours: Project):
    """A download needs the rights to view transcripts and payloads."""
    auditor = create_user("auditor", ours)
    path = path_of(ROUTES["api-transcript-download"], ours)
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
        response = client_for(auditor).get(path_of(ROUTES[name], ours) + "?show=text")
        assert SECRET.encode() not in response.content
        assert response.status_code == (200 if name == "transcript-detail" else 403)


@pytest.mark.req("P-SEC-1")
def test_an_ingest_key_cannot_read(ours: Project):
    text = keys.create(ours, label="k")
    for route in ROUTES.values():
        if route.right == OPEN or "GET" not in route.methods:
            continue
        response = Client().get(path_of(route, ours), headers={"Authorization": f"Bearer {text}"})
        assert response.status_code in {302, 401}, route.path


@pytest.mark.req("P-SEC-1")
def test_every_change_needs_a_csrf_token(ours: Project):
    """A page of another site cannot act with a user's cookies."""
    user = create_user("admin", ours)
    keys.create(ours, label="k", created_by=user)
    api_tokens.create(user, label="t", scopes=[Right.TAIL])
    pk, token = IngestKey.objects.get().pk, user.api_tokens.get().pk
    paths = [path_of(route, ours) for route in ROUTES.values() if "POST" in route.methods]
    for path in [*paths, f"/keys/{pk}/rotate/", f"/keys/{pk}/revoke/", f"/tokens/{token}/revoke/"]:
        client = client_for(user, enforce_csrf_checks=True)
        assert client.post(path, {"reason": "x", "label": "x", "project": "ours"}).status_code == 403, path
    assert keys.active().count() == 1


@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize(("role", "status"), [("operator", 403), ("developer", 200), ("auditor", 200)])
def test_a_payload_needs_the_right_and_is_logged(role: str, status: int, ours: Project):
    """Other users get the span with a hidden payload, and 403 with `payload=1`. One entry covers all views."""
    client = client_for(create_user(role, ours))
    assert (SECRET in client.get(f"/api/spans/{SPAN}/").content.decode()) == (status == 200)
    assert SECRET not in client.get(f"/api/spans/{SPAN}/?payload=0").content.decode()
    response = client.get(f"/api/spans/{SPAN}/?payload=1")
    assert response.status_code == status and (SECRET in response.content.decode()) == (status == 200)
    entries = list(AuditEntry.objects.exclude(action="login").order_by("position").values_list("action", "target"))
    denied = ("access.denied", f"GET /api/spans/{SPAN}/")
    assert entries == [("payload.view", NAME) if status == 200 else denied]


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
def test_names_cannot_inject_anything(name: str, ours: Project):
    """Path traversal, SQL, NUL, line breaks, templates and markup in ids return 400 or 404."""
    client = client_for(create_user("admin", ours))
    for prefix in ("/sessions/", "/api/sessions/", "/api/spans/", "/api/transcripts/", "/transcripts/"):
        for suffix in ("/", "/download/"):
            response = client.get(prefix + name + suffix)
            assert response.status_code in {400, 404}, f"{prefix}{name}{suffix}: {response.status_code}"
            assert "Set-Cookie" not in response.headers
            assert b"<script>alert" not in response.content


SQL = ["' OR '1'='1", "'; DROP TABLE viewer_auditentry; --", "\\", "1) OR (1=1", "%"]


@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize("text", SQL)
def test_filters_cannot_inject_sql(text: str, ours: Project):
    client = client_for(create_user("auditor", ours))
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


def test_sql_wildcards_are_escaped_in_a_search(ours: Project):
    """`%` matches a percent sign, not everything."""
    client = client_for(create_user("auditor", ours))
    assert client.get("/api/transcripts/", {"q": "%"}).json()["results"] == []
    assert len(client.get("/api/transcripts/", {"q": "DED-sess"}).json()["results"]) == 1
