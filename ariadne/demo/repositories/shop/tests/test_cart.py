"""Prices of carts."""

from __future__ import annotations

from decimal import Decimal

import pytest

from shop.cart.discounts import Discount, Line, apply
from shop.cart.vouchers import VoucherError, redeem


def test_percent_is_taken_from_each_line():
    lines = [Line("shirt", 2, 1_990), Line("socks", 1, 495)]
    assert apply(lines, [Discount("autumn", "percent", Decimal(10))]) == 4_028


def test_discounts_apply_one_after_the_other():
    discounts = [Discount("autumn", "percent", Decimal(10)), Discount("member", "percent", Decimal(5))]
    assert apply([Line("shirt", 1, 2_000)], discounts) == 1_710


def test_used_voucher_is_rejected(session, voucher):
    redeem(session, voucher.code, 5_000)
    with pytest.raises(VoucherError):
        redeem(session, voucher.code, 5_000)
