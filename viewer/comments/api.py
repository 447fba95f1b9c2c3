"""Comments, mentions and bookmarks over REST. API tokens can only read."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from ingest.models import Project
from viewer.accounts import access
from viewer.accounts.forms import current_user
from viewer.comments import pages, queries
from viewer.comments.targets import parse_compaction, parse_target
from viewer.comments.texts import MAX_CHARS, clean_text
from viewer.models import Comment
from viewer.rest import ReadView, query_parameter
from viewer.sessions.queries import sessions_of

_TEXT = inline_serializer("CommentText", {"text": serializers.CharField(max_length=MAX_CHARS)})
_COMMENT = inline_serializer(
    "Comment",
    {
        "id": serializers.IntegerField(),
        "compaction": serializers.IntegerField(allow_null=True),
        "span": serializers.CharField(help_text="`trace:span`, or empty."),
        "author": serializers.CharField(allow_null=True),
        "text": serializers.CharField(),
        "mentions": serializers.ListField(child=serializers.CharField()),
        "created_at": serializers.DateTimeField(),
        "edited_at": serializers.DateTimeField(allow_null=True),
    },
)


class CommentList(ReadView):
    """The comments of a session, its compactions and its spans."""

    @extend_schema(
        operation_id="session_comments",
        responses=inline_serializer("Comments", {"results": serializers.ListField(child=_COMMENT)}),
    )
    def get(self, request: Request, session: str) -> Response:
        owner = self.get_session(request, session)
        return Response({"results": list(map(_comment_json, queries.session_comments(owner)[: queries.MAX_COMMENTS]))})

    @extend_schema(
        operation_id="session_comment_create",
        request=inline_serializer(
            "NewComment",
            {
                "text": serializers.CharField(max_length=MAX_CHARS),
                "compaction": serializers.IntegerField(required=False),
                "span": serializers.CharField(required=False),
            },
        ),
        responses={201: _COMMENT},
    )
    def post(self, request: Request, session: str) -> Response:
        owner = self.get_session(request, session)
        _refuse_tokens(request)
        values = request.data if isinstance(request.data, dict) else {}
        target = parse_target(owner, values)
        comment = queries.add_comment(target, current_user(request._request), _text(values))
        return Response(_comment_json(comment), status=status.HTTP_201_CREATED)


class CommentDetail(ReadView):
    """One comment. Only its author changes it."""

    @extend_schema(operation_id="comment", responses=_COMMENT)
    def get(self, request: Request, comment: int) -> Response:
        row, _ = pages.get_comment(access.request_grant(request), comment)
        return Response(_comment_json(row))

    @extend_schema(operation_id="comment_update", request=_TEXT, responses=_COMMENT)
    def patch(self, request: Request, comment: int) -> Response:
        row, _ = pages.get_comment(access.request_grant(request), comment)
        _refuse_tokens(request)
        if row.author_id != request.user.pk:
            raise PermissionDenied("Only the author can change a comment.")
        queries.edit_comment(row, _text(request.data if isinstance(request.data, dict) else {}))
        return Response(_comment_json(row))

    @extend_schema(operation_id="comment_delete", responses={204: None})
    def delete(self, request: Request, comment: int) -> Response:
        row, target = pages.get_comment(access.request_grant(request), comment)
        _refuse_tokens(request)
        pages.delete_comment(request._request, row, target)
        return Response(status=status.HTTP_204_NO_CONTENT)


class PeopleList(ReadView):
    """Members of a session's project, for mentions."""

    @extend_schema(
        operation_id="session_people",
        parameters=[query_parameter("q", "Part of a username or name.")],
        responses=inline_serializer(
            "People",
            {
                "results": inline_serializer(
                    "Person", {"username": serializers.CharField(), "name": serializers.CharField()}, many=True
                )
            },
        ),
    )
    def get(self, request: Request, session: str) -> Response:
        owner = self.get_session(request, session)
        people = queries.members(owner.project_id, request.query_params.get("q", "").strip()[:150])
        return Response({"results": [{"username": user.username, "name": user.get_full_name()} for user in people]})


class MentionList(ReadView):
    """Comments that mention the caller, newest first."""

    @extend_schema(
        operation_id="mentions",
        responses=inline_serializer(
            "Mentions",
            {
                "unread": serializers.IntegerField(),
                "results": inline_serializer(
                    "Mention",
                    {
                        "comment": _COMMENT,
                        "session": serializers.CharField(),
                        "project": serializers.CharField(),
                        "is_read": serializers.BooleanField(),
                    },
                    many=True,
                ),
            },
        ),
    )
    def get(self, request: Request) -> Response:
        grant = access.request_grant(request)
        mentions = queries.mentions_with_comments(grant, 100)
        projects = Project.objects.in_bulk({mention.project_id for mention in mentions})
        comments = [mention.comment for mention in mentions]
        sessions = sessions_of({c.cell for c in comments}, {c.session_key for c in comments})
        results = [
            {
                "comment": _comment_json(mention.comment),
                "session": sessions[mention.comment.session_key].session_id,
                "project": projects[mention.project_id].slug,
                "is_read": mention.read_at is not None,
            }
            for mention in mentions
            if mention.comment.session_key in sessions
        ]
        return Response({"unread": queries.unread_count(grant), "results": results})


class BookmarkList(ReadView):
    """The caller's bookmarks, newest first."""

    @extend_schema(
        operation_id="bookmarks",
        responses=inline_serializer(
            "Bookmarks",
            {
                "results": inline_serializer(
                    "Bookmark",
                    {
                        "session": serializers.CharField(),
                        "project": serializers.CharField(),
                        "compaction": serializers.IntegerField(allow_null=True),
                        "created_at": serializers.DateTimeField(),
                    },
                    many=True,
                )
            },
        ),
    )
    def get(self, request: Request) -> Response:
        grant = access.request_grant(request)
        marks = list(queries.own_bookmarks(grant)[:1_000])
        projects = Project.objects.in_bulk({mark.project_id for mark in marks})
        sessions = sessions_of({mark.cell for mark in marks}, {mark.session_key for mark in marks})
        results = [
            {
                "session": sessions[mark.session_key].session_id,
                "project": projects[mark.project_id].slug,
                "compaction": mark.compaction or None,
                "created_at": mark.created_at,
            }
            for mark in marks
            if mark.session_key in sessions
        ]
        return Response({"results": results})


class SessionBookmark(ReadView):
    """The caller's bookmark of a session or, with `compaction`, of a compaction."""

    _PARAMETERS = (query_parameter("compaction", "Number of a compaction."),)

    @extend_schema(operation_id="bookmark_add", parameters=[*_PARAMETERS], request=None, responses={204: None})
    def put(self, request: Request, session: str) -> Response:
        return self._set(request, session, is_on=True)

    @extend_schema(operation_id="bookmark_remove", parameters=[*_PARAMETERS], responses={204: None})
    def delete(self, request: Request, session: str) -> Response:
        return self._set(request, session, is_on=False)

    def _set(self, request: Request, session: str, *, is_on: bool) -> Response:
        owner = self.get_session(request, session)
        _refuse_tokens(request)
        compaction = parse_compaction(owner, request.query_params.get("compaction", "")) or 0
        queries.set_bookmark(current_user(request._request).pk, owner, compaction, is_on=is_on)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _refuse_tokens(request: Request) -> None:
    if request.auth is not None:
        raise PermissionDenied("API tokens can only read.")


def _text(values: dict[str, Any]) -> str:
    value = values.get("text")
    text = clean_text(value) if isinstance(value, str) else ""
    if not text or len(text) > MAX_CHARS:
        raise ValidationError({"text": f"Enter a text of at most {MAX_CHARS:,} characters."})
    return text


def _comment_json(comment: Comment) -> dict[str, Any]:
    return {
        "id": comment.id,
        "compaction": comment.compaction,
        "span": comment.span,
        "author": comment.author.get_username() if comment.author else None,
        "text": comment.text,
        "mentions": sorted(mention.user.username for mention in comment.mentions.all()),
        "created_at": comment.created_at,
        "edited_at": comment.edited_at,
    }
