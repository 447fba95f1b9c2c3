"""The public API of the cart, which the web shop and both apps call."""

from __future__ import annotations

from fastapi import APIRouter, Depends, HTTPException
from pydantic import BaseModel
from sqlalchemy.orm import Session

from shop.cart import discounts, vouchers
from shop.cart.store import load_cart
from shop.db import get_session

router = APIRouter(prefix="/cart")


class Total(BaseModel):
    subtotal_cents: int
    total_cents: int
    saved_cents: int


@router.get("/{cart_id}/total")
def total(cart_id: int, session: Session = Depends(get_session)) -> Total:
    """Return the price of a cart with its discounts."""
    cart = load_cart(session, cart_id)
    subtotal = sum(line.cents for line in cart.lines)
    price = discounts.apply(cart.lines, cart.discounts)
    return Total(subtotal_cents=subtotal, total_cents=price, saved_cents=subtotal - price)


@router.post("/{cart_id}/voucher")
def add_voucher(cart_id: int, code: str, session: Session = Depends(get_session)) -> Total:
    """Redeem a voucher after the discounts."""
    cart = load_cart(session, cart_id)
    subtotal = sum(line.cents for line in cart.lines)
    try:
        price = vouchers.redeem(session, code, discounts.apply(cart.lines, cart.discounts))
    except vouchers.VoucherError as error:
        raise HTTPException(422, str(error)) from error
    session.commit()
    return Total(subtotal_cents=subtotal, total_cents=price, saved_cents=subtotal - price)
