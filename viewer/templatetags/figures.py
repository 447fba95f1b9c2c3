"""Figures in templates: their values, headings and definitions, all from the table of figures."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from ingest.storage.figures.table import BY_NAME, Figure
from viewer.numbers import format_counts
from viewer.templatetags.ariadne import percent, tokens
from viewer.trends.queries import Figures

register = template.Library()


@register.filter
def figure_of(figures: Figures, figure: Figure) -> str:
    """Return the text of a figure in a table of trends."""
    if figure.name == "facts":
        total = figures["facts_total"]
        return format_counts(total, figures["facts_kept"]) if total else "–"
    return tokens(figures[figure.hourly]) if figure.hourly else percent(getattr(figures, figure.name))


@register.simple_tag
def figure_term(name: str) -> SafeString:
    """Return the heading of a figure in a definition list, with its definition."""
    figure = BY_NAME[name]
    return format_html('<dt title="{}">{}</dt>', figure.definition, figure.label)


@register.simple_tag
def label_of(name: str) -> str:
    return BY_NAME[name].label


@register.simple_tag
def definition_of(name: str) -> str:
    return BY_NAME[name].definition
