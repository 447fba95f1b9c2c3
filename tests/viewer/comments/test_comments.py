"""Comments, mentions and bookmarks: roles, two projects, and text that stays text."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from people import client_for, create_project, create_session, create_user
from retention_runs import expire

from ingest.models import Project, RedactionRule, Session
from ingest.storage.database import partitions
from viewer.accounts import api_tokens
from viewer.accounts.access import Right
from viewer.comments import queries
from viewer.comments.texts import mentioned_names, split_mentions
from viewer.models import AuditEntry, Bookmark, Comment, Membership, Mention

db = pytest.mark.django_db
SPAN = "t-s:a"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("@ana look", ["ana"]),
        ("thanks, @Ana. And @bob-2!", ["ana", "bob-2"]),
        ("@ana @ana", ["ana"]),
        ("mail ana@example.com or x@ana", []),
        ("@anabel is not here", []),
        ("(@ana)", ["ana"]),
    ],
)
def test_a_mention_is_a_whole_name(text: str, names: list[str]) -> None:
    assert mentioned_names(text, ["ana", "bob-2"]) == names


@given(st.text(alphabet="@ab .-\n<"))
def test_the_parts_of_a_text_are_the_text(text: str) -> None:
    known = {"a": "a", "ab": "ab"}
    assert "".join(part for part, _ in split_mentions(text, known)) == text


@pytest.fixture
def ours() -> Project:
    return create_project("ours")


@pytest.fixture
def session(ours: Project) -> Session:
    return create_session(ours, session_id="s", text="SECRET")


def comment(user: User, text: str, **more: Any) -> Any:
    return client_for(user).post(
        "/sessions/s/comments/", {"text": text, **more}, headers={"X-Requested-With": "fragment"}
    )


@db
def test_a_mentioned_member_is_notified(ours: Project, session: Session) -> None:
    """Not the author, not strangers, and no longer after reading the thread or leaving the project."""
    theirs = create_project("theirs")
    ana, bob = create_user("operator", ours, name="ana"), create_user("developer", ours, name="bob")
    create_user("admin", theirs, name="eve")
    page = comment(bob, "@ANA @eve @bob see <b>this</b>").content.decode()
    assert '<span class="mention">@ANA</span>' in page
    assert '<span class="mention">@eve</span>' not in page
    assert "&lt;b&gt;this&lt;/b&gt;" in page
    assert sorted(Mention.objects.values_list("user__username", flat=True)) == ["ana", "bob"]
    client = client_for(ana)
    assert client.get("/api/mentions/").json()["unread"] == 1
    assert client_for(bob).get("/api/mentions/").json() == {"unread": 0, "results": []}
    assert "1 new mentions" in client.get("/").content.decode()
    assert 'data-testid="mention-row"' in client.get("/mentions/").content.decode()
    client.get("/sessions/s/comments/")
    assert client.get("/api/mentions/").json()["unread"] == 0
    Membership.objects.filter(user=ana).delete()
    assert client.get("/api/mentions/").status_code == 403
    assert "eve" not in str(client_for(bob).get("/api/sessions/s/people/").json())


@db
def test_an_edit_notifies_new_people_only(ours: Project, session: Session) -> None:
    ana, bob = create_user("operator", ours, name="ana"), create_user("developer", ours, name="bob")
    comment(bob, "hello @ana")
    client_for(ana).post("/mentions/read/")
    row = Comment.objects.get()
    client_for(bob).post(f"/comments/{row.id}/edit/", {"text": "hello @ana and @bob"})
    row.refresh_from_db()
    assert row.edited_at is not None
    assert client_for(ana).get("/api/mentions/").json()["unread"] == 0
    client_for(bob).post(f"/comments/{row.id}/edit/", {"text": "never mind"})
    assert not Mention.objects.exists()


@db
def test_comments_belong_to_their_author_and_project(ours: Project, session: Session) -> None:
    """Others read them. Admins of the project delete them, which is recorded. Other projects see nothing."""
    author, member = create_user("operator", ours), create_user("developer", ours)
    stranger = create_user("admin", create_project("theirs"))
    comment(author, "PRIVATE note")
    pk = Comment.objects.get().id
    assert "PRIVATE note" in client_for(member).get("/sessions/s/comments/").content.decode()
    for client, status in ((client_for(member), 403), (client_for(stranger), 404)):
        assert client.post(f"/comments/{pk}/edit/", {"text": "x"}).status_code == status
        assert client.post(f"/comments/{pk}/delete/").status_code == status
        assert client.patch(f"/api/comments/{pk}/", {"text": "x"}, "application/json").status_code == status
        assert client.delete(f"/api/comments/{pk}/").status_code == status
    for path in (
        "/sessions/s/comments/",
        "/api/sessions/s/comments/",
        f"/api/comments/{pk}/",
        "/api/sessions/s/people/",
    ):
        assert client_for(stranger).get(path).status_code == 404
    assert client_for(stranger).post("/api/sessions/s/comments/", {"text": "x"}).status_code == 404
    assert client_for(create_user("", ours)).get("/sessions/s/comments/").status_code == 403
    assert client_for(None).post(f"/comments/{pk}/delete/").status_code == 302
    assert client_for(None).get("/api/sessions/s/comments/").status_code == 401
    assert Comment.objects.get().text == "PRIVATE note"
    assert client_for(create_user("admin", ours)).post(f"/comments/{pk}/delete/").status_code == 302
    assert not Comment.objects.exists()
    assert AuditEntry.objects.filter(action="comment.delete", project_id=ours.pk).count() == 1


@db
def test_targets_have_their_own_threads(ours: Project, session: Session) -> None:
    user = create_user("operator", ours)
    comment(user, "on the session")
    comment(user, "on the span", span=SPAN)
    client = client_for(user)
    assert "on the span" not in client.get("/sessions/s/comments/").content.decode()
    assert "on the span" in client.get("/sessions/s/comments/", {"span": SPAN}).content.decode()
    assert client.get("/sessions/s/comments/", {"span": "none:such"}).status_code == 404
    for compaction in ("1", "0", "x", "9" * 30):
        assert client.get("/sessions/s/comments/", {"compaction": compaction}).status_code == 404
    spans = [row["span"] for row in client.get("/api/sessions/s/comments/").json()["results"]]
    assert spans == ["", SPAN]


@db
@pytest.mark.parametrize("text", ["", "   \n", "x" * 5_001])
def test_an_invalid_text_is_refused_and_kept(text: str, ours: Project, session: Session) -> None:
    user = create_user("operator", ours)
    response = comment(user, text)
    assert response.status_code == 422
    assert 'role="alert"' in response.content.decode()
    assert client_for(user).post("/api/sessions/s/comments/", {"text": text}).status_code == 400
    assert not Comment.objects.exists()


@db
def test_control_characters_are_removed(ours: Project, session: Session) -> None:
    comment(create_user("operator", ours), "a\x00b\x1b[31m\r\nc")
    assert Comment.objects.get().text == "ab[31m\nc"


@db
@pytest.mark.req("A-PRI-4")
def test_a_secret_in_a_comment_is_not_stored(ours: Project, session: Session) -> None:
    """People without the right to view payloads read it. The project's own rules apply, and those of others do not."""
    RedactionRule.objects.create(project=ours, kind="pattern", name="ticket", value=r"TCK-\d+")
    RedactionRule.objects.create(project=create_project("theirs"), kind="pattern", name="loop", value="loop")
    create_user("operator", ours, name="bob@corp.example")
    user = create_user("developer", ours)
    secret = "ghp_" + "Zq8vT2nXw6LrB4mKc0JyHd7sPf3gUa9eRt5W"
    text = f"The loop used {secret} of ann@corp.example for TCK-1234, @bob@corp.example!"
    comment(user, text)
    row = Comment.objects.get()
    for planted in (secret, "ann@corp.example", "TCK-1234"):
        assert planted not in row.text
    assert row.text.startswith("The loop used ") and row.text.endswith("@bob@corp.example!")
    assert Mention.objects.get().user.username == "bob@corp.example"
    edited = client_for(user).patch(f"/api/comments/{row.id}/", {"text": f"now {secret}"}, "application/json")
    assert edited.status_code == 200 and secret not in edited.content.decode()
    assert secret not in Comment.objects.get().text


@db
def test_rest_writes_need_a_login_and_not_a_token(ours: Project, session: Session) -> None:
    user = create_user("developer", ours)
    _, secret = api_tokens.create(user, label="t", scopes=[Right.SESSIONS], project=ours, expires_at=None)
    headers = {"Authorization": f"Bearer {secret}"}
    client = client_for(user)
    anonymous = client_for(None)
    assert anonymous.get("/api/sessions/s/comments/", headers=headers).status_code == 200
    assert anonymous.post("/api/sessions/s/comments/", {"text": "x"}, headers=headers).status_code == 403
    assert anonymous.put("/api/sessions/s/bookmark/", headers=headers).status_code == 403
    created = client.post("/api/sessions/s/comments/", {"text": "hello", "span": SPAN}, "application/json")
    assert created.status_code == 201
    pk = created.json()["id"]
    assert client.patch(f"/api/comments/{pk}/", {"text": "changed"}, "application/json").json()["text"] == "changed"
    assert client.delete(f"/api/comments/{pk}/").status_code == 204


@db
def test_bookmarks_are_private_and_per_project(ours: Project, session: Session) -> None:
    user, other = create_user("operator", ours), create_user("operator", ours)
    client = client_for(user)
    for _ in range(2):
        client.post("/sessions/s/bookmark/", {"is_on": "1"})
    assert Bookmark.objects.count() == 1
    assert "bookmark-row" in client.get("/bookmarks/").content.decode()
    assert "No bookmarks match" in client.get("/bookmarks/", {"q": "none"}).content.decode()
    assert client.get("/api/bookmarks/").json()["results"][0]["session"] == "s"
    assert client_for(other).get("/api/bookmarks/").json()["results"] == []
    assert (
        client_for(create_user("admin", create_project("theirs"))).put("/api/sessions/s/bookmark/").status_code == 404
    )
    assert client.put("/api/sessions/s/bookmark/?compaction=3").status_code == 404
    assert client.delete("/api/sessions/s/bookmark/").status_code == 204
    assert not Bookmark.objects.exists()


@db
def test_the_list_shows_only_bookmarked_sessions(ours: Project, session: Session) -> None:
    """Each person sees their own ones, on the page and over REST."""
    create_session(ours, session_id="unmarked")
    reader, other = create_user("operator", ours), create_user("operator", ours)
    queries.set_bookmark(reader.pk, session, 0, is_on=True)
    rows = client_for(reader).get("/api/sessions/?state=bookmarked").json()["results"]
    assert [row["id"] for row in rows] == [session.session_id]
    assert client_for(other).get("/api/sessions/?state=bookmarked").json()["results"] == []
    assert "unmarked" not in client_for(reader).get("/?state=bookmarked").content.decode()


@db
def test_comments_and_bookmarks_expire_with_their_session(ours: Project) -> None:
    """Those of a project that keeps its sessions stay."""
    theirs = create_project("theirs")
    ours.retention_days = 30
    ours.save()
    day = timezone.now().date() - timedelta(days=40)

    with connection.cursor() as cursor:
        cursor.execute(partitions.create_statement(day))
    for owner in (ours, theirs):
        session = create_session(owner)
        user = create_user("operator", owner)
        comment(user, "note")
        client_for(user).post("/sessions/s/bookmark/", {"is_on": "1"})
        Session.objects.filter(pk=session.pk).update(day=day)
    expire()
    assert [row.project_id for row in Comment.objects.all()] == [theirs.pk]
    assert [row.project_id for row in Bookmark.objects.all()] == [theirs.pk]


@db
def test_a_redirect_stays_on_this_server(ours: Project, session: Session) -> None:
    client = client_for(create_user("operator", ours))
    response = client.post("/sessions/s/comments/", {"text": "x", "next": "https://evil.example/"})
    assert response["Location"].startswith("/sessions/")


@db
def test_the_same_session_of_two_projects_has_its_own_comments(ours: Project, session: Session) -> None:
    """A member of both reads all mentions and bookmarks, and a member of one project nothing of the other."""
    theirs = create_project("theirs")
    twin = create_session(theirs, session_id="s")
    both, eve = create_user("operator", ours, theirs, name="both"), create_user("operator", theirs, name="eve")
    ana = create_user("operator", ours, name="ana")
    for target, author, text in ((session, ana, "Planted-Ours @both"), (twin, eve, "Planted-Theirs @both")):
        queries.add_comment(queries.Target(target), author, text)
        queries.set_bookmark(both.pk, target, 0, is_on=True)
    for user, own, foreign in ((ana, "Planted-Ours", "Planted-Theirs"), (eve, "Planted-Theirs", "Planted-Ours")):
        client = client_for(user)
        seen = client.get("/sessions/s/comments/").content.decode() + str(
            client.get("/api/sessions/s/comments/").json()
        )
        assert own in seen and foreign not in seen
        assert foreign not in str(client.get("/api/mentions/").json())
    client = client_for(both)
    mentions = client.get("/api/mentions/").json()
    assert (mentions["unread"], [row["project"] for row in mentions["results"]]) == (2, ["theirs", "ours"])
    assert {row["project"] for row in client.get("/api/bookmarks/").json()["results"]} == {"ours", "theirs"}
    page = client.get("/bookmarks/", {"in": "ours"}).content.decode()
    assert page.count('data-testid="bookmark-row"') == 1
    assert client.get("/mentions/").content.decode().count('data-testid="mention-row"') == 2
    client.post("/mentions/read/")
    assert client.get("/api/mentions/").json()["unread"] == 0
    ana.delete()
    assert [comment.author for comment in Comment.objects.order_by("id")] == [None, eve]
    both.delete()
    assert not Mention.objects.exists() and not Bookmark.objects.exists()
