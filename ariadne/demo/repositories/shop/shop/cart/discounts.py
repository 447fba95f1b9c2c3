"""Discounts of a cart. Prices are integers in cents."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Literal


@dataclass(frozen=True)
class Line:
    sku: str
    quantity: int
    unit_cents: int

    @property
    def cents(self) -> int:
        return self.quantity * self.unit_cents


@dataclass(frozen=True)
class Discount:
    name: str
    kind: Literal["percent", "amount"]
    value: Decimal


def apply(lines: list[Line], discounts: list[Discount]) -> int:
    """Return the total in cents after all discounts, which apply one after the other."""
    total = 0
    for line in lines:
        cents = line.cents
        for discount in discounts:
            cents = reduce(cents, discount)
        total += cents
    return total


def reduce(cents: int, discount: Discount) -> int:
    """Return a price after one discount."""
    if discount.kind == "amount":
        return max(0, cents - int(discount.value * 100))
    return round(cents * float(1 - discount.value / 100))


def round_half_even(value: Decimal) -> int:
    """Round to a cent like the tax office."""
    return int(value.quantize(Decimal(1), rounding=ROUND_HALF_EVEN))
