"""The nightly comparison with the provider."""

from __future__ import annotations

from datetime import UTC, datetime

from billing.reconcile.nightly import reconcile, report
from tests.billing.provider import stored_charges

NIGHT = datetime(2026, 11, 3, 2, 0, tzinfo=UTC)


def test_missing_invoice_is_created(session, provider):
    provider.charges = stored_charges("ch_200", "ch_201")
    assert reconcile(session, NIGHT) == 2


def test_second_night_creates_nothing(session, provider):
    provider.charges = stored_charges("ch_202")
    reconcile(session, NIGHT)
    assert reconcile(session, NIGHT) == 0


def test_report_counts_charges(session, provider):
    provider.charges = stored_charges("ch_203", "ch_204")
    assert report(session, NIGHT) == {"none": 2, "one": 0, "several": 0}
