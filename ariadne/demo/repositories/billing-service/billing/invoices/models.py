"""Invoices and their lines."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from sqlalchemy import DateTime, ForeignKey, Numeric, String, func, text
from sqlalchemy.orm import Mapped, Session, mapped_column, relationship

from billing.db import Base


class Invoice(Base):
    __tablename__ = "invoices"

    id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[str] = mapped_column(String(20), unique=True)
    customer: Mapped[str] = mapped_column(String(40), index=True)
    charge: Mapped[str] = mapped_column(String(40), index=True)
    currency: Mapped[str] = mapped_column(String(3))
    state: Mapped[str] = mapped_column(String(12), default="open")
    void_reason: Mapped[str | None] = mapped_column(String(200))
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
    lines: Mapped[list[InvoiceLine]] = relationship(back_populates="invoice", cascade="all, delete-orphan")

    @property
    def total(self) -> Decimal:
        return sum((line.amount for line in self.lines), Decimal(0))


class InvoiceLine(Base):
    __tablename__ = "invoice_lines"

    id: Mapped[int] = mapped_column(primary_key=True)
    invoice_id: Mapped[int] = mapped_column(ForeignKey("invoices.id"))
    description: Mapped[str] = mapped_column(String(200))
    amount: Mapped[Decimal] = mapped_column(Numeric(12, 2))
    invoice: Mapped[Invoice] = relationship(back_populates="lines")


def next_number(session: Session) -> str:
    """Return the next number without gaps. The row stays locked until the transaction ends."""
    value = session.scalar(text("UPDATE invoice_numbers SET last = last + 1 WHERE id = 1 RETURNING last"))
    return f"inv_{value}"
