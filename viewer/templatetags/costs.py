"""Template filters and panels for money."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django import template

from ingest.models import Session
from viewer.costs.amounts import format_exact_usd, format_price, format_usd
from viewer.costs.queries import session_cost

register = template.Library()
_MILLION = Decimal(1_000_000)


@register.filter
def usd(value: Any) -> str:
    """Format US dollars. Tiny amounts have more digits."""
    return format_usd(value if isinstance(value, Decimal) else None)


@register.filter
def usd_exact(value: Any) -> str:
    """Format an amount that adds up with others on the page."""
    return format_exact_usd(value if isinstance(value, Decimal) else None)


@register.filter
def usd_price(value: Any) -> str:
    """Format a price per million tokens."""
    return format_price(value) if isinstance(value, Decimal) else "–"


@register.filter
def per_million(value: Any) -> str:
    """Format a price per token as the price of a million tokens."""
    return usd_price(value * _MILLION) if isinstance(value, Decimal) else "–"


@register.inclusion_tag("costs/_session_figure.html")
def session_cost_figure(session: Session) -> dict[str, Any]:
    """Render the cost of a session as a figure of its header."""
    return {"session": session, "cost": session_cost(session)}
