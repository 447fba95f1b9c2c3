"""Addresses of costs and prices."""

from __future__ import annotations

from django.urls import path

from viewer.costs import api, pages

urlpatterns = [
    path("sessions/<path:name>/cost/", pages.session_cost, name="session-cost"),
    path("projects/<slug:slug>/prices/", pages.project_prices, name="project-prices"),
    path("projects/<slug:slug>/prices/save/", pages.price_save, name="price-save"),
    path("projects/<slug:slug>/prices/delete/", pages.price_delete, name="price-delete"),
    path("api/sessions/<path:session>/cost/", api.SessionCost.as_view(), name="api-session-cost"),
    path("api/prices/", api.PriceList.as_view(), name="api-prices"),
]
