"""Comment threads, the list of mentions, and bookmarks."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme

from ingest.cells import cells_of
from ingest.models import Project, Session
from viewer.accounts import access
from viewer.accounts.access import Grant, Right
from viewer.accounts.forms import current_user
from viewer.audit import log
from viewer.audit.log import Action
from viewer.comments import queries
from viewer.comments.queries import Target
from viewer.comments.targets import parse_compaction, parse_target
from viewer.comments.texts import MAX_CHARS, clean_text
from viewer.models import Bookmark, Comment, Mention
from viewer.page_response import send_page
from viewer.sessions.queries import sessions_of

PAGE_SIZE = 100


@access.requires(Right.SESSIONS, "GET", "HEAD", "POST")
def comments(request: HttpRequest, name: str) -> HttpResponse:
    """The thread of a session, a compaction or a span, as a fragment. POST adds a comment."""
    session = access.get_session(access.request_grant(request), name)
    if request.method != "POST":
        return _render_thread(request, parse_target(session, request.GET))
    target = parse_target(session, request.POST)
    text, problem = _posted_text(request)
    if not problem:
        queries.add_comment(target, current_user(request), text)
    return _answer(request, target, problem)


@access.requires(Right.SESSIONS, "POST")
def comment_edit(request: HttpRequest, pk: int) -> HttpResponse:
    """Change one's own comment."""
    comment, target = _get_comment(request, pk)
    if comment.author_id != request.user.pk:
        raise access.permission_denied(Right.MANAGE)
    text, problem = _posted_text(request)
    if not problem:
        queries.edit_comment(comment, text)
    return _answer(request, target, problem)


@access.requires(Right.SESSIONS, "POST")
def comment_delete(request: HttpRequest, pk: int) -> HttpResponse:
    """Delete one's own comment. People who manage the project delete any, which is recorded."""
    comment, target = _get_comment(request, pk)
    delete_comment(request, comment, target)
    return _answer(request, target, "")


def delete_comment(request: HttpRequest, comment: Comment, target: Target) -> None:
    """Delete a comment if the sender of the request may."""
    if comment.author_id != request.user.pk:
        access.request_grant(request).require(Right.MANAGE, comment.project_id)
        log.record(
            request,
            Action.COMMENT_DELETE,
            project_id=comment.project_id,
            target=target.session.session_id,
            author=comment.author.get_username() if comment.author else "",
        )
    queries.delete_comment(comment)


@access.requires(Right.SESSIONS)
def mention_list(request: HttpRequest) -> HttpResponseBase:
    """Comments that mention the user, newest first."""
    grant = access.request_grant(request)
    return send_page(request, "comments/mention_list.html", {}, lambda: {"rows": _mention_rows(grant)})


def _mention_rows(grant: Grant) -> list[tuple[Mention, Project, Session, str]]:
    mentions = queries.mentions_with_comments(grant, PAGE_SIZE)
    projects = Project.objects.in_bulk({mention.project_id for mention in mentions})
    comments = [mention.comment for mention in mentions]
    sessions = sessions_of({c.cell for c in comments}, {c.session_key for c in comments})
    return [
        (
            mention,
            projects[mention.project_id],
            sessions[mention.comment.session_key],
            comment_address(sessions, mention.comment),
        )
        for mention in mentions
        if mention.comment.session_key in sessions
    ]


@access.requires(Right.SESSIONS, "POST")
def mentions_read(request: HttpRequest) -> HttpResponse:
    """Mark all mentions of the user as read."""
    queries.unread_mentions(access.request_grant(request)).update(read_at=timezone.now())
    return redirect("mention-list")


@access.requires(Right.SESSIONS)
def bookmark_list(request: HttpRequest) -> HttpResponseBase:
    """The user's bookmarks, filtered by a part of the session id and by project."""
    grant = access.request_grant(request)
    q, slug = request.GET.get("q", "").strip()[:200], request.GET.get("in", "")
    return send_page(
        request, "comments/bookmark_list.html", {"q": q, "slug": slug}, lambda: _bookmark_context(grant, q, slug)
    )


def _bookmark_context(grant: Grant, q: str, slug: str) -> dict[str, Any]:
    project_ids = grant.projects(Right.SESSIONS)
    projects = {project.pk: project for project in Project.objects.filter(pk__in=project_ids).order_by("name")}
    bookmarks = queries.own_bookmarks(grant)
    if slug:
        bookmarks = bookmarks.filter(cell__in=cells_of(*(pk for pk in projects if projects[pk].slug == slug)))
    marks: list[Bookmark] = list(bookmarks[: 10 * PAGE_SIZE])
    sessions = sessions_of({mark.cell for mark in marks}, {mark.session_key for mark in marks})
    rows = [
        (mark, projects[mark.project_id], sessions[mark.session_key])
        for mark in marks
        if mark.session_key in sessions and q.lower() in sessions[mark.session_key].session_id.lower()
    ]
    return {
        "rows": rows[:PAGE_SIZE],
        "projects": list(projects.values()),
        "has_bookmarks": bool(marks) or bool(slug),
    }


@access.requires(Right.SESSIONS, "POST")
def bookmark(request: HttpRequest, name: str) -> HttpResponse:
    """Add or remove a bookmark of a session or, with `compaction`, of a compaction."""
    session = access.get_session(access.request_grant(request), name)
    compaction = parse_compaction(session, request.POST.get("compaction", "")) or 0
    is_on = request.POST.get("is_on") == "1"
    queries.set_bookmark(current_user(request).pk, session, compaction, is_on=is_on)
    if _wants_fragment(request):
        context = {"session": session, "compaction": compaction, "is_on": is_on}
        return render(request, "comments/_star.html", context)
    return redirect(_next_address(request, session))


def comment_address(sessions: dict[UUID, Session], comment: Comment) -> str:
    """Return the page on which a comment is shown."""
    session = sessions[comment.session_key]
    if comment.compaction:
        return reverse("compaction-detail", args=[session.session_key, comment.compaction]) + "#comments"
    address = reverse("session-detail", args=[session.session_key])
    return f"{address}?{urlencode({'span': comment.span})}" if comment.span else f"{address}?comments=1"


def may_delete(grant: Grant, comment: Comment) -> bool:
    return comment.author_id == grant.user_id or grant.may(Right.MANAGE, comment.project_id)


def _render_thread(request: HttpRequest, target: Target, problem: str = "") -> HttpResponse:
    grant = access.request_grant(request)
    thread = queries.thread(target)
    context = {
        "target": target,
        "session": target.session,
        "entries": [(comment, comment.author_id == grant.user_id, may_delete(grant, comment)) for comment in thread],
        "problem": problem,
        "draft": request.POST.get("text", "") if problem else "",
        "max_chars": MAX_CHARS,
    }
    # Reading the thread reads the mentions in it.
    read = Q(cell=target.session.cell, comment_id__in=[comment.id for comment in thread])
    queries.unread_mentions(grant).filter(read).update(read_at=timezone.now())
    return render(request, "comments/_thread.html", context, status=422 if problem else 200)


def _answer(request: HttpRequest, target: Target, problem: str) -> HttpResponse:
    """Answer a script with the thread, and a form without scripts with a redirect."""
    if _wants_fragment(request):
        return _render_thread(request, target, problem)
    if problem:
        messages.error(request, problem)
    return redirect(_next_address(request, target.session))


def _posted_text(request: HttpRequest) -> tuple[str, str]:
    """Return the posted text, and what is wrong with it."""
    text = clean_text(request.POST.get("text", ""))
    if not text:
        return "", "Enter a comment."
    if len(text) > MAX_CHARS:
        return "", f"A comment can have at most {MAX_CHARS:,} characters. This one has {len(text):,}."
    return text, ""


def _wants_fragment(request: HttpRequest) -> bool:
    return request.headers.get("X-Requested-With") == "fragment"


def _next_address(request: HttpRequest, session: Session) -> str:
    target = request.POST.get("next", "")
    is_own = url_has_allowed_host_and_scheme(target, allowed_hosts={request.get_host()})
    return target if is_own and target else reverse("session-detail", args=[session.session_key])


def _get_comment(request: HttpRequest, pk: int) -> tuple[Comment, Target]:
    return get_comment(access.request_grant(request), pk)


def get_comment(grant: Grant, pk: int) -> tuple[Comment, Target]:
    """Return a comment and its target, or raise Http404 or PermissionDenied."""
    comment = Comment.objects.select_related("author").filter(cell__in=cells_of(*grant.rights), id=pk).first()
    session = Session.objects.filter(pk=(comment.cell, comment.session_key)).first() if comment else None
    if comment is None or session is None:
        raise Http404("No such comment.")
    grant.require(Right.SESSIONS, comment.project_id)
    return comment, Target(session, comment.compaction, comment.span)
