"""Filters by environment, user, tag and service, per project and per role, on the page, in REST and in search."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from people import client_for, create_project, create_session, create_user
from retention_runs import expire_later

from ingest.cells import cells_of
from ingest.models import Label, Project, Session, Trace
from viewer.search import indexer

pytestmark = pytest.mark.django_db
PERSON = "jane.puffin@example.com"


def add_labels(session: Session, **labels: str) -> None:
    trace = Trace.objects.get(session_key=session.session_key)
    for name, value in labels.items():
        key = name.replace("__", ".")
        Label.objects.create(session_key=session.session_key, cell=session.cell, key=key, value=value)
        trace.metadata[key] = value
    trace.save()


@pytest.fixture
def ours() -> Project:
    owner = create_project("ours")
    for name, environment in (("one", "production"), ("two", "staging"), ("three", "production")):
        session = create_session(owner, session_id=name)
        add_labels(session, deployment__environment__name=environment, service__name="checkout")
        if name == "one":
            add_labels(session, user__id=PERSON, tags="nightly")
    indexer.catch_up(owner.pk)
    return owner


@pytest.fixture
def theirs() -> Project:
    owner = create_project("theirs")
    add_labels(
        create_session(owner, session_id="foreign"),
        deployment__environment__name="production",
        user__id=PERSON,
        tags="secret-tag",
    )
    indexer.catch_up(owner.pk)
    return owner


def session_ids(client: Client, query: dict[str, Any]) -> set[str]:
    return {row["id"] for row in client.get("/api/sessions/", query).json()["results"]}


def test_declared_labels_are_filters_for_everyone(ours: Project, theirs: Project) -> None:
    """The environment and the service. Sessions of other projects are not listed."""
    client = client_for(create_user("operator", ours))
    assert session_ids(client, {"environment": "production"}) == {"one", "three"}
    assert session_ids(client, {"environment": "production", "service": "checkout"}) == {"one", "three"}
    assert session_ids(client, {"environment": "production", "service": "other"}) == set()
    page = client.get("/", {"environment": "staging"}).content.decode()
    assert "two" in page
    assert 'value="staging" selected' in page
    assert "/sessions/three/" not in page


def test_persons_and_tags_need_the_right_to_view_payloads(ours: Project, theirs: Project) -> None:
    """Without it, they are neither shown nor offered nor matched, and the page says why nothing matches."""
    operator, developer = client_for(create_user("operator", ours)), client_for(create_user("developer", ours))
    assert session_ids(operator, {"user": PERSON}) == session_ids(operator, {"tag": "nightly"}) == set()
    assert session_ids(developer, {"user": PERSON}) == session_ids(developer, {"tag": "nightly"}) == {"one"}
    assert session_ids(developer, {"tag": "secret-tag"}) == set()
    (row,) = developer.get("/api/sessions/", {"tag": "nightly"}).json()["results"]
    assert row["labels"] == {
        "environment": ["production"],
        "user": [PERSON],
        "tag": ["nightly"],
        "service": ["checkout"],
    }
    assert operator.get("/api/sessions/one/").json()["labels"]["user"] == []
    assert PERSON in developer.get("/").content.decode()
    page = operator.get("/").content.decode()
    assert PERSON not in page
    assert "nightly" not in page
    assert "have permission to filter by this label" in operator.get("/", {"user": PERSON}).content.decode()


def test_list_and_session_show_four_labels_and_count_the_others(ours: Project) -> None:
    session = Session.objects.get(cell__in=cells_of(ours.pk), session_id="one")
    add_labels(session, environment="eu", service__version="1.2")
    developer = client_for(create_user("developer", ours))
    for path in ("/", "/sessions/one/"):
        page = developer.get(path).content.decode()
        assert "+2</span>" in page
        assert f"User: {PERSON}" in page
    assert "/?service=checkout" in developer.get("/sessions/two/").content.decode()


def test_search_is_limited_to_labels(ours: Project, theirs: Project) -> None:
    """Values of labels are words of their session, those of persons only with the right."""
    operator, developer = client_for(create_user("operator", ours)), client_for(create_user("developer", ours))

    def sessions(client: Client, **query: str) -> set[str]:
        return {row["session"] for row in client.get("/api/search/", query).json()["results"]}

    assert sessions(developer, q="jane.puffin") == {"one"}
    assert sessions(operator, q="jane.puffin") == set()
    assert sessions(operator, q="check", environment="production") == {"one", "three"}
    assert sessions(operator, q="check", environment="production", user=PERSON) == set()
    assert sessions(developer, q="check", user=PERSON) == {"one"}


def test_labels_expire_with_their_session(ours: Project, theirs: Project) -> None:
    Project.objects.filter(pk=ours.pk).update(retention_days=1)
    expire_later(days=3)
    assert {label.project_id for label in Label.objects.all()} == {theirs.pk}
