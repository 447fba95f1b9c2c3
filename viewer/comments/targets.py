"""The target of a comment or bookmark in a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import Http404

from ingest.models import Session
from viewer.comments.queries import Target
from viewer.sessions import queries

_MAX_DIGITS = 6


def parse_compaction(session: Session, text: str) -> int | None:
    """Return the number of a compaction of the session, None for an empty text, or raise Http404."""
    if not text:
        return None
    is_number = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    if not is_number or not 1 <= int(text) <= len(queries.checks(session).compactions()):
        raise Http404("No such compaction.")
    return int(text)


def parse_target(session: Session, values: Mapping[str, Any]) -> Target:
    """Return what `compaction` or `span` name, else the session, or raise Http404."""
    span_name = str(values.get("span") or "")
    if not span_name:
        return Target(session, parse_compaction(session, str(values.get("compaction") or "")))
    span = queries.span(session, span_name, with_payload=False)
    if span is None:
        raise Http404("No such span.")
    return Target(session, span=span.row.key)
