"""Comments, mentions and bookmarks in the database. Callers have checked access to the session."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Case, Q, QuerySet, Value, When
from django.db.models.functions import Lower
from django.utils import timezone

from ingest.models import Session
from viewer.accounts.access import Grant, Right
from viewer.comments.texts import mentioned_names, possible_names
from viewer.live import comment_notifications
from viewer.models import Bookmark, Comment, Membership, Mention

MAX_COMMENTS = 500
_MAX_PEOPLE = 8


@dataclass(frozen=True, slots=True)
class Target:
    """The subject of a comment: a session, one of its compactions, or one of its spans."""

    session: Session
    compaction: int | None = None
    span: str = ""

    def comments(self) -> QuerySet[Comment]:
        return Comment.objects.filter(
            project_id=self.session.project_id,
            session_key=self.session.session_key,
            compaction=self.compaction,
            span=self.span,
        )


def thread(target: Target) -> list[Comment]:
    """Return the comments on a target, oldest first."""
    newest = target.comments().select_related("author").prefetch_related("mentions__user").order_by("-pk")
    return list(reversed(newest[:MAX_COMMENTS]))


def session_comments(session: Session) -> QuerySet[Comment]:
    """Return all comments of a session and its parts, oldest first."""
    comments = Comment.objects.filter(project_id=session.project_id, session_key=session.session_key)
    return comments.select_related("author").prefetch_related("mentions__user").order_by("pk")


def members(project_id: int, q: str = "") -> list[User]:
    """Return active members whose name contains `q`, for the suggestions while typing."""
    users = User.objects.filter(memberships__project_id=project_id, is_active=True)
    if q:
        users = users.filter(Q(username__icontains=q) | Q(first_name__icontains=q) | Q(last_name__icontains=q))
    begins = Case(When(username__istartswith=q, then=Value(0)), default=Value(1))
    return list(users.distinct().order_by(begins, "username")[:_MAX_PEOPLE])


def add_comment(target: Target, author: User, text: str) -> Comment:
    with transaction.atomic():
        comment = Comment.objects.create(
            project_id=target.session.project_id,
            session_key=target.session.session_key,
            compaction=target.compaction,
            span=target.span,
            author=author,
            text=text,
        )
        _update_mentions(comment)
        comment_notifications.publish(comment.project_id, comment.session_key)
    return comment


def edit_comment(comment: Comment, text: str) -> None:
    """Change a text. People who are mentioned for the first time are notified."""
    with transaction.atomic():
        comment.text, comment.edited_at = text, timezone.now()
        comment.save(update_fields=["text", "edited_at"])
        _update_mentions(comment)
        comment_notifications.publish(comment.project_id, comment.session_key)


def delete_comment(comment: Comment) -> None:
    with transaction.atomic():
        comment.delete()
        comment_notifications.publish(comment.project_id, comment.session_key)


def _update_mentions(comment: Comment) -> None:
    candidates = Membership.objects.filter(project_id=comment.project_id, user__is_active=True)
    users = {
        membership.user.username: membership.user
        for membership in candidates.annotate(lower=Lower("user__username"))
        .filter(lower__in=possible_names(comment.text))
        .select_related("user")
    }
    mentioned = [users[name] for name in mentioned_names(comment.text, users)]
    comment.mentions.exclude(user__in=mentioned).delete()
    Mention.objects.bulk_create(
        [
            # Mentioning oneself is no news.
            Mention(comment=comment, user=user, read_at=timezone.now() if user.pk == comment.author_id else None)
            for user in mentioned
        ],
        ignore_conflicts=True,
    )


def own_mentions(grant: Grant) -> QuerySet[Mention]:
    """Return the mentions of a user by others, newest first, in the projects that they can still see."""
    mentions = Mention.objects.filter(
        user_id=grant.user_id or 0, comment__project_id__in=grant.projects(Right.SESSIONS)
    )
    return mentions.exclude(comment__author_id=grant.user_id).order_by("-created_at", "-pk")


def unread_count(grant: Grant) -> int:
    return own_mentions(grant).filter(read_at=None)[:100].count() if grant.user_id is not None else 0


def own_bookmarks(grant: Grant) -> QuerySet[Bookmark]:
    bookmarks = Bookmark.objects.filter(user_id=grant.user_id or 0, project_id__in=grant.projects(Right.SESSIONS))
    return bookmarks.select_related("project").order_by("-created_at", "-pk")


def is_bookmarked(user_id: int | None, session: Session, compaction: int = 0) -> bool:
    marks = Bookmark.objects.filter(user_id=user_id or 0, session_key=session.session_key, compaction=compaction)
    return marks.exists()


def set_bookmark(user_id: int, session: Session, compaction: int, *, is_on: bool) -> None:
    if is_on:
        Bookmark.objects.get_or_create(
            user_id=user_id,
            session_key=session.session_key,
            compaction=compaction,
            defaults={"project_id": session.project_id},
        )
    else:
        Bookmark.objects.filter(user_id=user_id, session_key=session.session_key, compaction=compaction).delete()


def sessions_of(keys: Iterable[UUID], project_ids: Iterable[int]) -> dict[UUID, Session]:
    sessions = Session.objects.filter(session_key__in=list(keys), project_id__in=list(project_ids))
    return {session.session_key: session for session in sessions}


def delete_expired(sender: Any, session_keys: QuerySet[Session, Any], **_: Any) -> None:
    """Receive the expiry of sessions: their comments and bookmarks go with them."""
    Comment.objects.filter(session_key__in=session_keys).delete()
    Bookmark.objects.filter(session_key__in=session_keys).delete()
