"""Template filters for numbers, times, spans and agents' texts.

`static/js/format.js` formats numbers and durations the same way. The formats are not those of the `humanize` package
("109 k" and "3 minutes and 20 seconds" instead of "109k" and "3 m 20 s"), which has no browser counterpart either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

import nh3
from compact.events.reading import fallback_of
from django import template
from django.urls import reverse
from django.utils.html import format_html, json_script
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

from ingest.decoding.facts import FactCount
from ingest.decoding.span_stats import HIDDEN_MODEL
from ingest.models import Session
from viewer.kinds import browser_table, kind_of
from viewer.numbers import format_age, format_counts, format_facts, format_percent, format_share, format_short
from viewer.sessions.checks import Check
from viewer.sessions.descriptions import describe_check

register = template.Library()

_PLAIN_ID = re.compile(r"[A-Za-z0-9._:@~-]{1,200}")
_TAGS = {
    *("p", "br", "hr", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"),
}
_MARKUP = "[]<>*_`~|&\\#-"
_MIN_MARKUP = 500
_MAX_MARKDOWN_CHARS = 100_000
# Agents end a line where it ends. Without breaks, the calls in a summary run into one paragraph.
_markdown = MarkdownIt("commonmark", {"html": False, "linkify": False, "breaks": True}).enable(
    ["table", "strikethrough"]
)
_MISSING = "–"
# `static/js/relative-times.js` has the same limit.
SILENT_MINUTES = 5


@register.filter
def tokens(value: Any) -> str:
    """109312 → 109,312."""
    return f"{value:,}" if isinstance(value, int) else _MISSING


@register.filter
def short_tokens(value: Any) -> str:
    """13604 → 13.6k."""
    return format_short(value) if isinstance(value, int) else _MISSING


@register.filter
def model_title(model: str) -> str:
    """Return the tooltip of a model's name."""
    return "The name doesn't look like a model ID, so it is hidden like content" if model == HIDDEN_MODEL else model


@register.filter
def percent(value: Any) -> str:
    """0.854 → 85.4%."""
    return format_percent(value) if isinstance(value, int | float) else _MISSING


@register.filter
def fallback(data: Mapping[str, Any]) -> str:
    """Return what was done instead of an operation that failed."""
    return fallback_of(data)


@register.filter
def facts_kept(counts: Any) -> str:
    """196 of 265 facts kept (74%). Takes a count of facts, or a session."""
    if isinstance(counts, FactCount):
        return format_facts(counts.total, counts.kept)
    return format_facts(counts.facts_total, counts.facts_kept)


@register.filter
def text_of(texts: Mapping[str, str], key: str) -> str:
    """Look up a text by a key that a template has in a variable."""
    return texts.get(key, "")


@register.filter
def fact_kind(kind: str) -> str:
    """open_item → open item."""
    return "ID" if kind == "id" else kind.replace("_", " ")


@register.filter
def source_label(positions: Mapping[str, int], source: str) -> str:
    """Name a source message by its place in the ledger. One that is not there belongs to an earlier prompt: no name."""
    return f"#{positions[source]}" if source in positions else ""


@register.filter
def whole_share(part: int, total: int) -> str:
    """A part of a total in whole percent."""
    return format_share(part, total)


@register.filter
def kept_of_total(counted: Session | Check) -> str:
    """196 of 265 (74%), for a table whose heading says what is counted."""
    return format_counts(counted.facts_total or 0, counted.facts_kept or 0)


@register.filter
def duration(value: Any) -> str:
    """Format milliseconds: 340 ms, 1.24 s, 3 m 20 s. A negative duration is not shown."""
    if not isinstance(value, int | float) or value < 0:
        return _MISSING
    if value < 1_000:
        return f"{value:.0f} ms"
    if value < 60_000:
        return f"{value / 1_000:.2f} s"
    minutes, seconds = divmod(round(value / 1_000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} m" if hours else f"{minutes} m {seconds:02d} s"


@register.filter
def between(started: datetime | None, ended: datetime | None) -> float | None:
    """Return the milliseconds between two times, for `duration`."""
    return (ended - started).total_seconds() * 1000 if started and ended else None


@register.filter
def moment(value: datetime | None) -> SafeString:
    """Render a time. A script replaces the text with a relative time in the reader's time zone."""
    if value is None:
        return SafeString(_MISSING)
    # A list has fifty times. They need no escaping, which would take most of the time.
    return SafeString(
        f'<time datetime="{value.isoformat()}" title="{value:%Y-%m-%d %H:%M:%S} UTC">{value:%d %b %H:%M}</time>'
    )


@register.filter
def running_state(session: Session) -> SafeString:
    """Render the state of a running session. One that has been silent for minutes has probably lost its last events."""
    last = session.last_at or session.created_at
    minutes = int((datetime.now(UTC) - last).total_seconds() // 60)
    is_silent = minutes >= SILENT_MINUTES
    text = f"No events for {format_age(minutes)}" if is_silent else "Running"
    return format_html(
        '<span class="running" data-last="{}" title="{}"{}>'
        '<span class="dot" data-running></span><span>{}</span></span>',
        last.isoformat(),
        text,
        SafeString(" data-silent") if is_silent else "",
        text,
    )


@register.filter
def exact_time(value: datetime) -> SafeString:
    """Render a time with its zone. No script changes it, so that two readers of a log read the same."""
    text = value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return format_html('<time datetime="{}" data-absolute>{}</time>', value.isoformat(), text)


@register.filter
def share(value: Any, total: Any) -> str:
    """Return a part of a total in percent, from 0 to 100, for an SVG attribute."""
    if not isinstance(value, int | float) or not isinstance(total, int | float) or total <= 0:
        return "0"
    return f"{max(0.0, min(100.0, value / total * 100)):.2f}"


_CONTROL_PICTURES = {code: 0x2400 + code for code in range(32)} | {0x7F: 0x2421}
_INVISIBLE = " \u00a0\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\u3000\ufeff"


def _visible(text: str) -> str:
    """Show control characters as symbols, and a text without visible characters as "(blank)"."""
    if not text.isprintable():
        text = text.translate(_CONTROL_PICTURES)
    return "(blank)" if text and not text.strip(_INVISIBLE) else text


@register.filter
def middle(value: Any, most: int) -> str:
    """Shorten a text in the middle, because ids that begin alike often differ at the end."""
    text = _visible(str(value))
    if len(text) <= most:
        return text
    head = most // 2
    return f"{text[:head]}…{text[-(most - head - 1) :]}"


_TAIL_CHARS = 14
_MAX_CUT_CHARS = 200


@register.filter
def cut_head(value: Any) -> str:
    """Return the part of a name that may be cut at its end. `cut_tail` is the rest, so that the middle is left out."""
    text = middle(value, _MAX_CUT_CHARS)
    return text[:-_TAIL_CHARS] if len(text) > 2 * _TAIL_CHARS else text


@register.filter
def cut_tail(value: Any) -> str:
    """Return the end of a long name, which is always shown."""
    text = middle(value, _MAX_CUT_CHARS)
    return text[-_TAIL_CHARS:] if len(text) > 2 * _TAIL_CHARS else ""


@register.filter
def query_string(query: Mapping[str, str]) -> str:
    """Return parameters as they are written in an address, without the question mark."""
    return urlencode(query)


@register.filter
def session_name(session: Session) -> str:
    """Return the id of a session if it is safe in a URL, else its key."""
    return session.session_id if _PLAIN_ID.fullmatch(session.session_id) else str(session.session_key)


@register.filter
def title_of(titles: Mapping[str, str], session: Session) -> str:
    return titles.get(session.session_id, "")


@register.filter
def session_url(session: Session) -> str:
    return reverse("session-detail", args=[quote(session_name(session), safe="")]).replace("%25", "%")


@register.filter
def markdown(value: Any) -> SafeString:
    """Render an agent's Markdown without links, images and attributes. The result is also sanitized.

    Text that consists mostly of markup takes hundreds of times as long as prose, and is shown as it is. So is text that
    would be thousands of paragraphs.
    """
    text = str(value)
    if len(text) > _MAX_MARKDOWN_CHARS or sum(map(text.count, _MARKUP)) > _MIN_MARKUP + len(text) // 6:
        return format_html("<pre>{}</pre>", text)
    html = _markdown.render(text)
    return mark_safe(nh3.clean(html, tags=_TAGS, attributes={}))  # noqa: S308 - sanitized by nh3


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
    """Add coordinates. Django's `add` supports only integers."""
    return f"{value + by:.2f}"


@register.filter
def multiply(value: Any, by: float) -> str:
    return f"{value * by:g}" if isinstance(value, int | float) else ""


@register.filter
def figure(value: Any, unit: str) -> str:
    """Format a figure of a comparison by its unit."""
    if value is None:
        return _MISSING
    if unit == "percent":
        return percent(float(value))
    return duration(value) if unit == "ms" else f"{value:,.0f}"


@register.filter
def signed(value: Any, unit: str) -> str:
    """Format a difference with its sign."""
    if value is None:
        return _MISSING
    if not value:
        return "same"
    sign = "+" if value > 0 else "−"
    size = f"{abs(value) * 100:.1f} points" if unit == "percent" else figure(abs(value), unit)
    return f"{sign}{size}"
