"""Compare the provider's charges of the last day with our invoices, and create what is missing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from billing.invoices.api import request_of
from billing.invoices.models import Invoice, InvoiceLine, next_number
from billing.provider import client

log = logging.getLogger(__name__)

WINDOW = timedelta(hours=26)  # two hours of overlap between two nights


def reconcile(session: Session, now: datetime | None = None) -> int:
    """Create the invoices that are missing, and return their number."""
    since = (now or datetime.now(UTC)) - WINDOW
    count = 0
    for charge in missing_charges(session, since):
        request = request_of(charge)
        invoice = Invoice(
            number=next_number(session),
            customer=request["customer"],
            charge=request["charge"],
            currency=request["currency"],
        )
        invoice.lines.append(InvoiceLine(description=request["description"], amount=request["amount"]))
        session.add(invoice)
        count += 1
    session.commit()
    log.info("reconciliation: %d invoices created", count)
    return count


def missing_charges(session: Session, since: datetime) -> Iterator[dict]:
    """Yield the charges since a time that have no invoice."""
    for charge in client.charges(created_after=since, status="succeeded"):
        query = select(Invoice.id).where(Invoice.charge == charge["id"], Invoice.state != "void")
        if session.scalar(query) is None:
            yield charge


def report(session: Session, day: datetime) -> dict[str, int]:
    """Return how many charges of a day have no, one and several invoices."""
    counts = {"none": 0, "one": 0, "several": 0}
    for charge in client.charges(created_after=day, created_before=day + timedelta(days=1)):
        query = select(Invoice.id).where(Invoice.charge == charge["id"], Invoice.state != "void")
        found = len(list(session.scalars(query)))
        counts["none" if not found else "one" if found == 1 else "several"] += 1
    return counts
