"""Handlers of the payment provider's webhooks."""

from __future__ import annotations

import logging
from uuid import uuid4

from sqlalchemy.orm import Session

from billing.invoices import api as invoices
from billing.outbox.models import OutboxEntry, enqueue
from billing.webhooks.signature import verify

log = logging.getLogger(__name__)

HANDLED = ("charge.succeeded", "charge.refunded", "subscription.renewed")


class UnknownEvent(Exception):
    """The provider sent an event type that we never subscribed to."""


def handle(body: bytes, headers: dict[str, str], session: Session) -> int:
    """Verify one webhook, and return the HTTP status for the provider."""
    event = verify(body, headers)
    if event["type"] not in HANDLED:
        log.info("ignored %s %s", event["type"], event["id"])
        return 204
    try:
        dispatch(event, session)
    except UnknownEvent:
        return 400
    session.commit()
    return 200


def dispatch(event: dict, session: Session) -> OutboxEntry:
    """Turn an event into work. The provider retries for up to 72 hours, so this must be idempotent."""
    kind = event["type"]
    key = str(uuid4())
    if kind == "charge.succeeded":
        charge = event["data"]["object"]
        return enqueue(session, key, "create_invoice", invoices.request_of(charge))
    if kind == "charge.refunded":
        charge = event["data"]["object"]
        return enqueue(session, key, "credit_note", {"invoice": charge["invoice"], "amount": charge["refunded"]})
    if kind == "subscription.renewed":
        subscription = event["data"]["object"]
        return enqueue(session, key, "create_invoice", invoices.request_of_renewal(subscription))
    raise UnknownEvent(kind)
