"""Credit notes for refunds."""

from __future__ import annotations

from decimal import Decimal

from sqlalchemy.orm import Session

from billing.invoices import api as invoices
from billing.invoices.models import InvoiceLine


def credit_note(session: Session, arguments: dict) -> None:
    """Add a negative line to the invoice of a refund."""
    invoice = invoices.find(session, arguments["invoice"])
    if invoice is None:
        raise LookupError(f"There is no invoice {arguments['invoice']}.")
    amount = -Decimal(arguments["amount"]) / 100
    invoice.lines.append(InvoiceLine(description="Refund", amount=amount))
    if invoice.total <= 0:
        invoice.state = "refunded"
