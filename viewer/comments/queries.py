"""Comments, mentions and bookmarks in the database. Callers have checked access to the session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Case, Prefetch, Q, QuerySet, Value, When
from django.db.models.functions import Lower
from django.utils import timezone

from ingest.cells import cells_of
from ingest.models import Session
from viewer.accounts.access import Grant, Right
from viewer.comments.texts import mentioned_names, possible_names, split_mentions
from viewer.live import comment_notifications
from viewer.models import Bookmark, Comment, Membership, Mention
from viewer.project_redactor import project_redactor

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
            cell=self.session.cell,
            session_key=self.session.session_key,
            compaction=self.compaction,
            span=self.span,
        )


def thread(target: Target) -> list[Comment]:
    """Return the comments on a target, oldest first."""
    newest = _with_people(target.comments(), target.session.cell).order_by("-id")
    return list(reversed(newest[:MAX_COMMENTS]))


def session_comments(session: Session) -> QuerySet[Comment]:
    """Return all comments of a session and its parts, oldest first."""
    comments = Comment.objects.filter(cell=session.cell, session_key=session.session_key)
    return _with_people(comments, session.cell).order_by("id")


def _with_people(comments: QuerySet[Comment], cell: int) -> QuerySet[Comment]:
    """Read the authors and the mentioned members of comments, too."""
    return comments.select_related("author").prefetch_related(_people("mentions", [cell]))


def _people(path: str, cells: list[int]) -> Prefetch[Any]:
    return Prefetch(path, Mention.objects.filter(cell__in=cells).select_related("user"))


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
            cell=target.session.cell,
            session_key=target.session.session_key,
            compaction=target.compaction,
            span=target.span,
            author=author,
            text=redact_text(target.session.project_id, text),
        )
        _update_mentions(comment)
        comment_notifications.publish(comment.project_id, comment.session_key)
    return comment


def edit_comment(comment: Comment, text: str) -> None:
    """Change a text. People who are mentioned for the first time are notified."""
    with transaction.atomic():
        comment.text, comment.edited_at = redact_text(comment.project_id, text), timezone.now()
        comment.save(update_fields=["text", "edited_at"])
        _update_mentions(comment)
        comment_notifications.publish(comment.project_id, comment.session_key)


def delete_comment(comment: Comment) -> None:
    with transaction.atomic():
        comment_notifications.publish(comment.project_id, comment.session_key)
        comment.delete()


def redact_text(project_id: int, text: str) -> str:
    """Return a text without secrets and personal data. People without the right to view payloads read comments, too."""
    # A username may be an email address, which is personal data anywhere else.
    parts = list(split_mentions(text, {name.lower(): name for name in _named_members(project_id, text)}))
    plain, _ = project_redactor(project_id).parts([part for part, name in parts if not name])
    texts = iter(plain)
    return "".join(part if name else next(texts) for part, name in parts)


def _named_members(project_id: int, text: str) -> dict[str, User]:
    """Return the members that a text may mention, by username."""
    candidates = Membership.objects.filter(project_id=project_id, user__is_active=True)
    return {
        membership.user.username: membership.user
        for membership in candidates.annotate(lower=Lower("user__username"))
        .filter(lower__in=possible_names(text))
        .select_related("user")
    }


def _update_mentions(comment: Comment) -> None:
    users = _named_members(comment.project_id, comment.text)
    mentioned = [users[name] for name in mentioned_names(comment.text, users)]
    Mention.objects.filter(cell=comment.cell, comment_id=comment.id).exclude(user__in=mentioned).delete()
    Mention.objects.bulk_create(
        [
            # Mentioning oneself is no news.
            Mention(
                cell=comment.cell,
                comment_id=comment.id,
                user=user,
                read_at=timezone.now() if user.pk == comment.author_id else None,
            )
            for user in mentioned
        ],
        ignore_conflicts=True,
    )


def own_mentions(grant: Grant) -> QuerySet[Mention]:
    """Return the mentions of a user by others, newest first, in the projects that they can still see."""
    cells = _cells(grant)
    mentions = Mention.objects.filter(cell__in=cells, comment__cell__in=cells, user_id=grant.user_id or 0)
    return mentions.exclude(comment__author_id=grant.user_id).order_by("-created_at", "-comment_id")


def mentions_with_comments(grant: Grant, limit: int) -> list[Mention]:
    """Return the newest mentions with their comments, each with its author and all members it mentions."""
    mentions = own_mentions(grant).select_related("comment__author")
    return list(mentions.prefetch_related(_people("comment__mentions", _cells(grant)))[:limit])


def unread_mentions(grant: Grant) -> QuerySet[Mention]:
    """Return the mentions that the user has not read. Those in comments of their own count as read."""
    return Mention.objects.filter(cell__in=_cells(grant), user_id=grant.user_id or 0, read_at=None)


def unread_count(grant: Grant) -> int:
    return unread_mentions(grant)[:100].count() if grant.user_id is not None else 0


def _cells(grant: Grant) -> list[int]:
    """Return all cells that a user may see. What is theirs, such as bookmarks, is with its sessions in many cells."""
    return cells_of(*grant.projects(Right.SESSIONS))


def own_bookmarks(grant: Grant) -> QuerySet[Bookmark]:
    """Return the bookmarks of a user, newest first, in the projects that they can still see."""
    bookmarks = Bookmark.objects.filter(cell__in=_cells(grant), user_id=grant.user_id or 0)
    return bookmarks.order_by("-created_at", "session_key", "compaction")


def is_bookmarked(user_id: int | None, session: Session, compaction: int = 0) -> bool:
    return _bookmark(user_id or 0, session, compaction).exists()


def set_bookmark(user_id: int, session: Session, compaction: int, *, is_on: bool) -> None:
    if is_on:
        Bookmark.objects.get_or_create(
            cell=session.cell, user_id=user_id, session_key=session.session_key, compaction=compaction
        )
    else:
        _bookmark(user_id, session, compaction).delete()


def _bookmark(user_id: int, session: Session, compaction: int) -> QuerySet[Bookmark]:
    return Bookmark.objects.filter(pk=(session.cell, user_id, session.session_key, compaction))


def delete_expired(sender: Any, cell: int, session_keys: QuerySet[Session, Any], **_: Any) -> None:
    """Receive the expiry of sessions of a cell: their comments and bookmarks go with them."""
    expired = {"cell": cell, "session_key__in": session_keys}
    Mention.objects.filter(cell=cell, comment_id__in=Comment.objects.filter(**expired).values("id")).delete()
    Comment.objects.filter(**expired).delete()
    Bookmark.objects.filter(**expired).delete()
