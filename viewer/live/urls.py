"""Addresses of live pages. `routing` has the websockets."""

from __future__ import annotations

from django.urls import path

from viewer.live import pages

urlpatterns = [
    path("tail/", pages.tail, name="tail"),
]
