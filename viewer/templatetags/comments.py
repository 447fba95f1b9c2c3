"""Template filters and panels for comments and bookmarks."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from ingest.models import Session
from viewer.comments import queries
from viewer.comments.texts import split_mentions
from viewer.models import Comment

register = template.Library()


@register.filter
def comment_text(comment: Comment) -> SafeString:
    """Render the text of a comment: escaped, with its mentions highlighted."""
    known = {mention.user.username.lower(): mention.user.username for mention in comment.mentions.all()}
    parts = (
        format_html('<span class="mention">{}</span>', part) if name else format_html("{}", part)
        for part, name in split_mentions(comment.text, known)
    )
    return format_html_join("", "{}", ((part,) for part in parts))


@register.inclusion_tag("comments/_star.html", takes_context=True)
def bookmark_star(context: dict[str, Any], session: Session, compaction: int = 0) -> dict[str, Any]:
    """Render the button that bookmarks a session or a compaction."""
    request = context["request"]
    is_on = queries.is_bookmarked(request.user.pk, session, compaction)
    return {"session": session, "compaction": compaction, "is_on": is_on, "request": request}


@register.inclusion_tag("comments/_button.html", takes_context=True)
def comments_button(context: dict[str, Any], session: Session) -> dict[str, Any]:
    """Render the button that opens the comments of a session."""
    request = context["request"]
    count = queries.Target(session).comments().count()
    return {"session": session, "count": count, "is_open": "comments" in request.GET, "request": request}
