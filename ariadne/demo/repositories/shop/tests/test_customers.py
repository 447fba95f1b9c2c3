"""Addresses of customers."""

from __future__ import annotations

from shop.customers.orders import billing_address, customers_in, shipping_address


def test_billing_address_falls_back_to_shipping(session, customer):
    assert billing_address(session, customer.id) == shipping_address(session, customer.id)


def test_customers_of_a_country(session, customer):
    assert customers_in(session, "PT") == [customer.id]
