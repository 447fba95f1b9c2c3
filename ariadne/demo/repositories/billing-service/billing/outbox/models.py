"""The outbox: work that is stored with the change that caused it, and done later."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import JSON, DateTime, Index, String, func, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from billing.db import Base


class OutboxEntry(Base):
    __tablename__ = "outbox"

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(String(64))
    task: Mapped[str] = mapped_column(String(40))
    arguments: Mapped[dict] = mapped_column(JSON)
    state: Mapped[str] = mapped_column(String(12), default="open")  # open, claimed, done, failed
    attempts: Mapped[int] = mapped_column(default=0)
    region: Mapped[str] = mapped_column(String(16))
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())

    __table_args__ = (Index("outbox_key", "key"),)


def enqueue(session: Session, key: str, task: str, arguments: dict) -> OutboxEntry:
    """Add work under a key."""
    entry = OutboxEntry(key=key, task=task, arguments=arguments, region=session.info["region"])
    session.add(entry)
    session.flush()
    return entry


def find_open(session: Session, *, limit: int) -> list[OutboxEntry]:
    """Return the oldest open entries of any region."""
    query = select(OutboxEntry).where(OutboxEntry.state == "open").order_by(OutboxEntry.id).limit(limit)
    return list(session.scalars(query))


def count_by_state(session: Session) -> dict[str, int]:
    """Return the number of entries in each state, for /metrics."""
    rows = session.execute(select(OutboxEntry.state, func.count()).group_by(OutboxEntry.state))
    return {state: count for state, count in rows}
