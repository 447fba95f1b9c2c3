"""The queries of the checkout that read addresses."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from shop.customers.models import Customer


def shipping_address(session: Session, customer_id: int) -> dict[str, str | None]:
    """Return where an order is sent."""
    customer = session.get_one(Customer, customer_id)
    return {
        "name": customer.name,
        "street": f"{customer.street} {customer.house_number}",
        "postal_code": customer.postal_code,
        "city": customer.city,
        "country": customer.country,
    }


def billing_address(session: Session, customer_id: int) -> dict[str, str | None]:
    """Return where an invoice is sent: the billing address, or the one for shipping."""
    customer = session.get_one(Customer, customer_id)
    if customer.billing_street is None:
        return shipping_address(session, customer_id)
    return {
        "name": customer.name,
        "street": customer.billing_street,
        "postal_code": customer.billing_postal_code,
        "city": customer.billing_city,
        "country": customer.billing_country,
    }


def customers_in(session: Session, country: str) -> list[int]:
    """Return the customers of a country, for the reports of the tax office."""
    query = select(Customer.id).where((Customer.billing_country == country) | (Customer.country == country))
    return list(session.scalars(query))
