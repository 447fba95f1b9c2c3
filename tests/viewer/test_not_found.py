"""Answers to addresses that do not exist."""

from __future__ import annotations

import pytest
from people import client_for, create_project, create_user

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("path", ["/api/", "/api/nothing/"])
@pytest.mark.parametrize("role", [None, "operator"])
def test_the_api_answers_json(role: str | None, path: str):
    """Also to someone who is not logged in, and at the root, which has no content."""
    client = client_for(create_user(role, create_project()) if role else None)
    response = client.get(path, HTTP_ACCEPT="text/html")
    assert response.status_code == 404
    assert response.headers["Content-Type"] == "application/json"
    assert "/api/schema/" in response.json()["detail"]


def test_a_page_that_does_not_exist_is_a_page():
    """A person sees the frame of the product."""
    response = client_for(create_user("operator", create_project())).get("/nothing/")
    assert response.status_code == 404
    assert response.headers["Content-Type"].startswith("text/html")
