"""The session list says when a search leaves out old sessions."""

from __future__ import annotations

import pytest
from people import client_for, create_project, create_session, create_user

from viewer.sessions import session_list

pytestmark = pytest.mark.django_db
NOTICE = "Only the newest 2 sessions are searched."


def test_search_names_its_limit_only_when_it_was_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions of another project do not count, and a list without a search is complete."""
    monkeypatch.setattr(session_list, "SEARCHED_SESSIONS", 2)
    ours, theirs = create_project("ours"), create_project("theirs")
    for name in ("one", "two"):
        create_session(ours, session_id=name)
        create_session(theirs, session_id=f"secret-{name}")
    client = client_for(create_user("operator", ours))

    def page(**query: str) -> str:
        return client.get("/", query).content.decode()

    assert NOTICE not in page(q="o")
    create_session(ours, session_id="three")
    assert NOTICE in page(q="o")
    assert NOTICE in page(q="none-such")
    assert NOTICE not in page()
    assert "secret-" not in page(q="o")
