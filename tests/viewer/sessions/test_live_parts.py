"""The parts of a session page that are rendered again while events arrive are those of the page."""

from __future__ import annotations

import re

import pytest
from people import add_events, client_for, create_project, create_session, create_user

pytestmark = pytest.mark.django_db(transaction=True)
_PART = re.compile(r'data-live="(\w+)"')


def test_the_fragment_has_the_parts_of_the_page_as_they_are_now() -> None:
    """A reader of another project gets neither."""
    ours, theirs = create_project("ours"), create_project("theirs")
    session = create_session(ours, session_id="run")
    address = "/sessions/run/"
    reader, stranger = (client_for(create_user("operator", project)) for project in (ours, theirs))
    page = reader.get(address).content.decode()
    assert _PART.findall(page) == ["running", "story", "figures"]
    add_events(session, {"compact.trigger_decision": ({"triggered": True, "t_est": 90, "max_tokens": 100}, {})}, seq=5)
    type(session).objects.filter(pk=session.pk).update(span_count=4, last_seq=6, error_count=2)
    parts = reader.get(f"{address}?fragment=head").content.decode()
    assert _PART.findall(parts) == _PART.findall(page)
    assert "<html" not in parts
    assert '<dd class="num" data-slot="span_count">4</dd>' in parts
    assert '<dd class="num bad" data-slot="error_count">2</dd>' in parts
    for query in ("", "?fragment=head"):
        assert stranger.get(address + query).status_code == 404
