"""Vouchers, which customers type into the cart."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal

from sqlalchemy import select
from sqlalchemy.orm import Session

from shop.cart.discounts import Discount
from shop.cart.models import Voucher


class VoucherError(Exception):
    """The voucher does not exist, is used up, or has expired."""


def redeem(session: Session, code: str, cents: int) -> int:
    """Return the price after a voucher, and count its use."""
    voucher = session.scalar(select(Voucher).where(Voucher.code == code.strip().upper()).with_for_update())
    if voucher is None or voucher.expires_at < datetime.now(UTC):
        raise VoucherError("This voucher is not valid.")
    if voucher.uses >= voucher.max_uses:
        raise VoucherError("This voucher was already used.")
    voucher.uses += 1
    discount = Discount(voucher.code, voucher.kind, Decimal(voucher.value))
    if discount.kind == "percent":
        return math.floor(cents * (100 - float(discount.value)) / 100)
    return max(0, cents - int(discount.value * 100))
