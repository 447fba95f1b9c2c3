"""How numbers, times and agents' texts read on a page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

import nh3
from django import template
from django.urls import reverse
from django.utils.html import format_html, json_script
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

from ingest.models import Session
from viewer.kinds import browser_table, kind_of
from viewer.sessions.checks import Check
from viewer.sessions.descriptions import describe_check

register = template.Library()

_PLAIN_ID = re.compile(r"[A-Za-z0-9._:@~-]{1,200}")
_TAGS = {
    *("p", "br", "hr", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"),
}
_markdown = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])


@register.filter
def tokens(value: Any) -> str:
    """109312 → 109,312."""
    return f"{value:,}" if isinstance(value, int) else "–"


@register.filter
def short_tokens(value: Any) -> str:
    """109312 → 109k."""
    if not isinstance(value, int):
        return "–"
    if abs(value) < 1_000:
        return str(value)
    if abs(value) < 10_000:
        return f"{value / 1_000:.1f}k".replace(".0k", "k")
    if abs(value) < 1_000_000:
        return f"{value / 1_000:,.0f}k"
    return f"{value / 1_000_000:.1f}M" if abs(value) < 1_000_000_000 else f"{value / 1_000_000_000:.1f}B"


@register.filter
def percent(value: Any) -> str:
    """0.854 → 85.4%."""
    return f"{value:.1%}".replace(".0%", "%") if isinstance(value, int | float) else "–"


@register.filter
def duration(value: Any) -> str:
    """Milliseconds, as one reads them: 340 ms, 1.24 s, 3 m 20 s. An end before its start is no time."""
    if not isinstance(value, int | float) or value < 0:
        return "–"
    if value < 1_000:
        return f"{value:.0f} ms"
    if value < 60_000:
        return f"{value / 1_000:.2f} s"
    minutes, seconds = divmod(round(value / 1_000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} m" if hours else f"{minutes} m {seconds:02d} s"


@register.filter
def between(started: datetime | None, ended: datetime | None) -> float | None:
    """Milliseconds from one to the other, for `duration`."""
    return (ended - started).total_seconds() * 1000 if started and ended else None


@register.filter
def moment(value: datetime | None) -> SafeString:
    """A time; the script writes it relative, in the reader's zone, with the exact one on hover."""
    if value is None:
        return SafeString("–")
    return format_html(
        '<time datetime="{}" title="{} UTC">{}</time>',
        value.isoformat(),
        value.strftime("%Y-%m-%d %H:%M:%S"),
        value.strftime("%d %b %H:%M"),
    )


@register.filter
def share(value: Any, whole: Any) -> str:
    """A part of a whole as the percentage an SVG attribute takes; 0 to 100."""
    if not isinstance(value, int | float) or not isinstance(whole, int | float) or whole <= 0:
        return "0"
    return f"{max(0.0, min(100.0, value / whole * 100)):.2f}"


@register.filter
def session_name(session: Session) -> str:
    """What names a session in an address: its own id where that is plain, else its key."""
    return session.session_id if _PLAIN_ID.fullmatch(session.session_id) else str(session.session_key)


@register.filter
def title_of(titles: Mapping[str, str], session: Session) -> str:
    return titles.get(session.session_id, "")


@register.filter
def session_url(session: Session) -> str:
    return reverse("session-detail", args=[quote(session_name(session), safe="")]).replace("%25", "%")


@register.filter
def markdown(value: Any) -> SafeString:
    """An agent's Markdown as HTML without links, images or attributes: rendered, then sanitised all the same."""
    html = _markdown.render(str(value))
    return mark_safe(nh3.clean(html, tags=_TAGS, attributes={}))  # noqa: S308 - nh3 has just cleaned it


@register.filter
def sentence(check: Check) -> str:
    """Describe a check in a sentence."""
    return describe_check(check)


@register.filter
def kind_label(kind: str) -> str:
    """compact.trigger_decision → trigger decision."""
    return kind_of(kind).label


@register.simple_tag
def span_kinds() -> SafeString:
    """Render the table of span kinds as JSON for `static/js/kinds.js`."""
    return json_script(browser_table(), "span-kinds")


@register.filter
def add_number(value: float, by: float) -> str:
    """For coordinates: Django's own `add` knows whole numbers only."""
    return f"{value + by:.2f}"


@register.filter
def times(value: Any, by: float) -> str:
    return f"{value * by:g}" if isinstance(value, int | float) else ""


@register.filter
def rest(value: float) -> str:
    """What is left to 100: SVG counts from the top."""
    return f"{100 - value:.2f}"


@register.filter
def figure(value: Any, unit: str) -> str:
    if value is None:
        return "–"
    if unit == "percent":
        return percent(float(value))
    return duration(value) if unit == "ms" else f"{value:,.0f}"


@register.filter
def signed(value: Any, unit: str) -> str:
    """A difference with its sign."""
    if value is None:
        return "–"
    if not value:
        return "same"
    sign = "+" if value > 0 else "−"
    points = f"{abs(value) * 100:.1f} points" if unit == "percent" else figure(abs(value), unit)
    return f"{sign}{points}"
