"""Work through the outbox, in both regions."""

from __future__ import annotations

import logging
import time

from sqlalchemy.orm import Session

from billing.invoices import api as invoices
from billing.invoices.credit import credit_note
from billing.outbox.models import OutboxEntry, find_open

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 8
TASKS = {"create_invoice": invoices.create, "credit_note": credit_note}


def run_once(session: Session) -> int:
    """Do the open work of one pass, and return the number of entries."""
    started_at = time.monotonic()
    entries = find_open(session, limit=1_000)
    for entry in entries:
        claim(session, entry)
    for entry in entries:
        work(session, entry)
    session.commit()
    log.info("outbox pass: %d entries in %.1f s", len(entries), time.monotonic() - started_at)
    return len(entries)


def claim(session: Session, entry: OutboxEntry) -> None:
    """Lock an entry, so that the other region leaves it."""
    session.refresh(entry, with_for_update=True)
    entry.state = "claimed"
    entry.attempts += 1
    session.flush()


def work(session: Session, entry: OutboxEntry) -> None:
    """Run the task of an entry. A task that fails is tried again in the next pass."""
    try:
        with session.begin_nested():
            TASKS[entry.task](session, entry.arguments)
    except Exception:
        log.exception("outbox entry %d failed, attempt %d", entry.id, entry.attempts)
        entry.state = "failed" if entry.attempts >= MAX_ATTEMPTS else "open"
        return
    entry.state = "done"
