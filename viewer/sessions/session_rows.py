"""Rows of the session list, as the template prints them.

The values are formatted here and not by template filters, because a page has fifty rows of thirty values and a filter
takes several times as long. Rows are dictionaries because a template looks for a key before it looks for an attribute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import quote
from uuid import UUID

from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

from ingest.decoding.facts import LOSSY_SHARE
from ingest.models import Session
from viewer.costs.amounts import Cost, format_usd
from viewer.numbers import format_count, format_counts, format_facts, format_percent
from viewer.sessions.labels import LabelValue
from viewer.templatetags.ariadne import (
    cut_head,
    cut_tail,
    middle,
    model_title,
    moment,
    running_state,
    session_name,
    session_url,
    share,
    short_tokens,
    tokens,
)

_MAX_LABELS = 4
Row = dict[str, Any]


def session_rows(
    sessions: Iterable[Session],
    *,
    titles: Mapping[str, str],
    labels: Mapping[UUID, list[LabelValue]],
    costs: Mapping[UUID, Cost],
) -> list[Row]:
    """Return the rows of sessions, with their titles by id, and their labels and costs by key."""
    return [
        {
            **_name(session, titles.get(session.session_id, "")),
            **_counts(session),
            **_facts(session),
            "labels": label_tags(labels.get(session.session_key, ())),
            "usage": _usage(session),
            "cost": _cost(costs.get(session.session_key)),
        }
        for session in sessions
    ]


def render_rows(rows: Iterable[Row]) -> SafeString:
    """Return rows as HTML. Most rows of a list are the same as in the one before, so they are rendered once."""
    html = "".join(_render_row(_RowKey(repr(row), row)) for row in rows)
    return mark_safe(html)  # noqa: S308 - rendered by a template


@dataclass(frozen=True, slots=True)
class _RowKey:
    """A row that is equal to another one if all of its values are."""

    text: str
    row: Row = field(compare=False)


# A row has about 2 kB.
@lru_cache(maxsize=1_000)
def _render_row(key: _RowKey) -> str:
    return render_to_string("sessions/_session_rows.html", {"rows": [key.row]})


def _name(session: Session, title: str) -> Row:
    text = title or session.session_id
    return {
        "key": str(session.session_key),
        "seq": str(session.last_seq),
        "name": session_name(session),
        "id": session.session_id,
        "url": session_url(session),
        "short_id": middle(session.session_id, 60) if title else "",
        "head": cut_head(text),
        "tail": cut_tail(text),
        "model": model_title(session.model),
        "short_model": middle(session.model or "–", 32),
        "last": moment(session.last_at or session.created_at),
        "running": running_state(session) if session.running_count else "",
    }


def _counts(session: Session) -> Row:
    return {
        "turns": tokens(session.turn_count) if session.turn_count else "",
        "compactions": tokens(session.compaction_count) if session.compaction_count else "",
        "fallbacks": format_count(session.fallback_count, "fallback") if session.fallback_count else "",
        "errors": tokens(session.error_count) if session.error_count else "",
        "spans": tokens(session.span_count),
    }


def _facts(session: Session) -> Row:
    if not session.facts_total:
        return {"facts": ""}
    total, kept, worst = session.facts_total, session.facts_kept, session.worst_retention
    worst_kept = "–" if worst is None else format_percent(worst)
    return {
        "facts": format_counts(total, kept),
        "facts_title": f"{format_facts(total, kept)}. The worst compaction kept {worst_kept}.",
        "is_lossy": worst is not None and worst < LOSSY_SHARE,
    }


def _usage(session: Session) -> Row:
    """Return the bar of the largest and the current prompt. Without a window there is only a number."""
    peak, window, trigger = session.peak_tokens, session.window_tokens, session.trigger_tokens
    if not window:
        return {"peak": short_tokens(peak) if peak else ""}
    return {
        "window": short_tokens(window),
        "title": f"Peak {tokens(peak)} of {tokens(window)} tokens, now {tokens(session.last_tokens)}, "
        f"trigger at {tokens(trigger)}",
        "peak_share": share(peak, window),
        "peak_percent": f"{float(share(peak, window)):.0f}",
        "now_share": share(session.last_tokens, window),
        "trigger_share": share(trigger, window) if trigger else "",
        "is_over": bool(trigger and peak is not None and peak >= trigger),
    }


def label_tags(labels: Sequence[LabelValue]) -> Row:
    """Return the first labels of a session as links to the list, and the others as a text."""
    if not labels:
        return {}
    home, others = reverse("session-list"), labels[_MAX_LABELS:]
    return {
        "shown": [
            {
                "kind": label.kind,
                "href": f"{home}?{label.kind}={quote(label.value, safe='')}",
                "title": _title(label),
                "text": middle(label.value, 24),
            }
            for label in labels[:_MAX_LABELS]
        ],
        "others": "\n".join(map(_title, others)),
        "other_count": len(others),
    }


def _title(label: LabelValue) -> str:
    return f"{label.kind.capitalize()}: {label.value}"


def _cost(cost: Cost | None) -> Row:
    if cost is None or not cost.has_usage:
        return {}
    if cost.total is None:
        return {"unknown": ", ".join(cost.unknown_models)}
    return {"total": format_usd(cost.total) + (" +" if cost.is_partial else "")}
