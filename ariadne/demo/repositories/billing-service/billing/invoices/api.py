"""The public API of invoices. Other teams import from here, so signatures and return types are frozen."""

from __future__ import annotations

from decimal import Decimal
from typing import TypedDict

from sqlalchemy import select
from sqlalchemy.orm import Session

from billing.invoices.models import Invoice, InvoiceLine, next_number

__all__ = ["InvoiceRequest", "create", "find", "request_of", "request_of_renewal", "void"]


class InvoiceRequest(TypedDict):
    customer: str
    charge: str
    currency: str
    amount: str
    description: str


def request_of(charge: dict) -> InvoiceRequest:
    """Return what a charge is invoiced for."""
    return {
        "customer": charge["customer"],
        "charge": charge["id"],
        "currency": charge["currency"].upper(),
        "amount": str(Decimal(charge["amount"]) / 100),
        "description": charge.get("description") or "Payment",
    }


def request_of_renewal(subscription: dict) -> InvoiceRequest:
    """Return what a renewed subscription is invoiced for."""
    period = f"{subscription['period_start']} to {subscription['period_end']}"
    return {
        "customer": subscription["customer"],
        "charge": subscription["latest_charge"],
        "currency": subscription["currency"].upper(),
        "amount": str(Decimal(subscription["amount"]) / 100),
        "description": f"{subscription['plan']}, {period}",
    }


def create(session: Session, request: InvoiceRequest) -> Invoice:
    """Create, number and store an invoice. The caller commits."""
    invoice = Invoice(
        number=next_number(session),
        customer=request["customer"],
        charge=request["charge"],
        currency=request["currency"],
    )
    invoice.lines.append(InvoiceLine(description=request["description"], amount=Decimal(request["amount"])))
    session.add(invoice)
    session.flush()
    return invoice


def find(session: Session, number: str) -> Invoice | None:
    """Return an invoice by its number, or None."""
    return session.scalar(select(Invoice).where(Invoice.number == number))


def void(session: Session, number: str, *, reason: str) -> Invoice:
    """Mark an invoice as void. Numbers are never used again, so nothing is deleted."""
    invoice = find(session, number)
    if invoice is None:
        raise LookupError(f"There is no invoice {number}.")
    invoice.state, invoice.void_reason = "void", reason
    return invoice
