"""Copy the orders of the day to the warehouse."""

from __future__ import annotations

import logging
from datetime import date, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from shop.orders.models import Order
from shop.warehouse import client

log = logging.getLogger(__name__)

BATCH = 500


def run(session: Session, day: date | None = None) -> int:
    """Send the orders of a day in batches, and return their number."""
    day = day or date.today() - timedelta(days=1)
    sent = 0
    query = select(Order).where(Order.day == day).order_by(Order.id).execution_options(yield_per=BATCH)
    for orders in session.scalars(query).partitions():
        client.put_orders([order.as_row() for order in orders])
        sent += len(orders)
    log.info("sync of %s: %d rows", day, sent)
    return sent
