"""Costs of token usage. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from viewer.costs.prices import Rates

_ZERO = Decimal(0)
_UNIT = Decimal("0.0001")
FindRates = Callable[[str, str, datetime, int], Rates | None]
"""The rates for a model, a provider, a time and a prompt size."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of some calls of one model with the same rates."""

    hour: datetime
    model: str
    provider: str
    is_summary: bool
    prompt_size: int
    calls: int
    input: int
    cached: int
    cache_write: int
    output: int
    reasoning: int

    @property
    def fresh(self) -> int:
        """Input tokens that were neither read from nor written to the prompt cache."""
        return self.input - self.cached - self.cache_write


@dataclass(slots=True)
class ModelCost:
    """Tokens and cost of one model. `total` is None if its price is unknown."""

    model: str
    provider: str
    is_summary: bool
    calls: int = 0
    fresh: int = 0
    cached: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    fresh_cost: Decimal = _ZERO
    cached_cost: Decimal = _ZERO
    cache_write_cost: Decimal = _ZERO
    output_cost: Decimal = _ZERO
    is_known: bool = True
    sources: set[str] = field(default_factory=set)

    @property
    def total(self) -> Decimal | None:
        if not self.is_known:
            return None
        return self.fresh_cost + self.cached_cost + self.cache_write_cost + self.output_cost

    @property
    def input(self) -> int:
        return self.fresh + self.cached + self.cache_write

    @property
    def source(self) -> str:
        return ", ".join(sorted(self.sources))

    def round(self) -> ModelCost:
        """Return the costs as a page shows them. The total is the sum of the rounded parts."""
        return replace(
            self,
            fresh_cost=round_usd(self.fresh_cost),
            cached_cost=round_usd(self.cached_cost),
            cache_write_cost=round_usd(self.cache_write_cost),
            output_cost=round_usd(self.output_cost),
        )

    def add(self, usage: Usage, rates: Rates | None) -> None:
        self.calls += usage.calls
        self.fresh += usage.fresh
        self.cached += usage.cached
        self.cache_write += usage.cache_write
        self.output += usage.output
        self.reasoning += usage.reasoning
        if rates is None:
            self.is_known = False
            return
        self.sources.add(rates.source)
        self.fresh_cost += usage.fresh * rates.input + usage.calls * rates.request
        self.cached_cost += usage.cached * rates.cached
        self.cache_write_cost += usage.cache_write * rates.cache_write
        self.output_cost += (usage.output - usage.reasoning) * rates.output + usage.reasoning * rates.reasoning


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a session or of several, by model, most expensive first."""

    models: tuple[ModelCost, ...] = ()

    @property
    def has_usage(self) -> bool:
        return bool(self.models)

    @property
    def total(self) -> Decimal | None:
        """The sum of the known costs, or None if none is known."""
        known = [model.total for model in self.models if model.total is not None]
        return sum(known, _ZERO) if known else None

    def round(self) -> Cost:
        """Return the costs as a page shows them, so that the rows add up to the total."""
        return Cost(tuple(model.round() for model in self.models))

    @property
    def unknown_models(self) -> list[str]:
        return sorted({model.model or "unnamed model" for model in self.models if model.total is None})

    @property
    def is_partial(self) -> bool:
        """True if some of the models have no price, so that the total is too low."""
        return self.total is not None and bool(self.unknown_models)


def price(usages: Iterable[Usage], find_rates: FindRates) -> Cost:
    """Return the cost of some usage."""
    models: dict[tuple[str, str, bool], ModelCost] = {}
    for usage in usages:
        key = (usage.model, usage.provider, usage.is_summary)
        if key not in models:
            models[key] = ModelCost(*key)
        models[key].add(usage, find_rates(usage.model, usage.provider, usage.hour, usage.prompt_size))
    ordered = sorted(models.values(), key=lambda model: (model.total is None, -(model.total or _ZERO), model.model))
    return Cost(tuple(ordered))


def format_price(amount: Decimal) -> str:
    """Format a price per million tokens with two digits or more: $3.00, $0.125."""
    text = f"{amount:,.6f}".rstrip("0")
    return f"${text.ljust(text.index('.') + 3, '0')}"


def round_usd(amount: Decimal) -> Decimal:
    return amount.quantize(_UNIT)


def format_exact_usd(amount: Decimal | None) -> str:
    """Format a rounded amount with four digits, so that the amounts of a page add up: $1,234.5000, $0.0013, $0."""
    if amount is None:
        return "–"
    return f"{'−' if amount < 0 else ''}${abs(amount):,.4f}" if amount else "$0"


def format_usd(amount: Decimal | None) -> str:
    """Format US dollars with as many digits as the amount needs: $1,234.50, $0.042, $0.0013, <$0.0001."""
    if amount is None:
        return "–"
    size, sign = abs(amount), "−" if amount < 0 else ""
    if not size:
        return "$0"
    if size < Decimal("0.0001"):
        return f"{sign}<$0.0001"
    digits = 2 if size >= 1 else 3 if size >= Decimal("0.01") else 4
    return f"{sign}${size:,.{digits}f}"
