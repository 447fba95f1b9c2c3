"""Webhooks, as the payment provider sends them."""

from __future__ import annotations

import pytest
from sqlalchemy import func, select

from billing.invoices.models import Invoice
from billing.outbox.models import OutboxEntry
from billing.retry.tasks import run_once
from billing.webhooks.handlers import handle
from billing.webhooks.signature import BadSignature
from tests.billing.provider import charge_event, refund_event, renewal_event, signed


def invoices(session, charge):
    return session.scalar(select(func.count()).select_from(Invoice).where(Invoice.charge == charge))


def test_charge_creates_an_invoice(session):
    assert handle(*signed(charge_event("ch_100")), session) == 200
    run_once(session)
    assert invoices(session, "ch_100") == 1


def test_unsigned_webhook_is_rejected(session):
    with pytest.raises(BadSignature):
        handle(b"{}", {}, session)


def test_other_events_are_ignored(session):
    assert handle(*signed(charge_event("ch_101") | {"type": "payout.paid"}), session) == 204
    assert session.scalar(select(func.count()).select_from(OutboxEntry)) == 0


def test_refund_adds_a_credit_note(session):
    handle(*signed(charge_event("ch_102")), session)
    run_once(session)
    number = session.scalar(select(Invoice.number).where(Invoice.charge == "ch_102"))
    handle(*signed(refund_event(number, 1_900)), session)
    run_once(session)
    assert session.scalar(select(Invoice.state).where(Invoice.number == number)) == "refunded"


def test_renewal_creates_an_invoice(session):
    handle(*signed(renewal_event("sub_7", charge="ch_103")), session)
    run_once(session)
    assert invoices(session, "ch_103") == 1
