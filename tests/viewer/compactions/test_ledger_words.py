"""The words of messages in the ledger: only for readers of payloads, and only of their own project."""

from __future__ import annotations

import pytest
from compact.messages import content_hash
from people import Event, add_events, client_for, create_project, create_session, create_transcript, create_user

from ingest.models import Project, Session

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "Planted-Sesame is the code name"
HASH = content_hash({"role": "user", "content": SECRET})


def create_compaction(project: Project) -> Session:
    """Create a session whose first compaction lost a fact of its only message."""
    session = create_session(project, session_id="run")
    parts: dict[str, Event] = {
        "compact.trigger_decision": ({"triggered": True, "t_est": 90, "max_tokens": 100}, {}),
        "compact.pruned_messages": (
            {"tokens_after": 40, "fates": {"summarized": 1}},
            {"ledger": [{"id": "m0", "hash": HASH, "role": "user", "tokens": 7, "fate": "summarized", "rule": "old"}]},
        ),
        "compact.retention": (
            {"facts_total": 2, "facts_kept": 1},
            {"lost": [{"kind": "id", "text": "Planted-Sesame", "source_ids": ["m0"]}]},
        ),
    }
    add_events(session, parts)
    return session


@pytest.mark.req("A-UI-2")
def test_words_and_lost_facts_reach_only_readers_of_payloads_of_the_project() -> None:
    ours, theirs = create_project("ours"), create_project("theirs")
    create_compaction(ours)
    create_compaction(theirs)
    # Only the other project has archived the message. The hash is the same in both.
    create_transcript(theirs, session="run", texts=(SECRET,))
    page, previews = "/sessions/run/compactions/1/", "/sessions/run/compactions/1/messages/"
    text = f"/sessions/run/messages/{HASH}/"
    reader, stranger = (client_for(create_user("developer", project)) for project in (theirs, ours))
    operator = client_for(create_user("operator", theirs))

    shown = reader.get(page).content.decode()
    assert SECRET in shown
    assert "<mark>Planted-Sesame</mark> is the code name" in shown
    assert reader.get(previews).json() == {HASH: SECRET}
    assert SECRET in reader.get(text).content.decode()

    hidden = operator.get(page).content.decode()
    assert "Planted-Sesame" not in hidden
    assert ">hidden</button>" in hidden
    assert "1 of 2 facts kept (50%)" in hidden
    assert operator.get(previews).status_code == 403

    assert "is the code name" not in stranger.get(page).content.decode()
    assert "Text not stored" in stranger.get(page).content.decode()
    assert stranger.get(previews).json() == {}
    assert "isn't stored" in stranger.get(text).content.decode()


def test_the_numbers_of_the_page_agree() -> None:
    """The header, the ledger and the facts are computed by one function each."""
    ours = create_project("ours")
    create_compaction(ours)
    page = client_for(create_user("operator", ours)).get("/sessions/run/compactions/1/").content.decode()
    assert "1 message</dd>" in page
    assert "1 of 1 left the prompt" in page
    assert "No facts were lost" not in page
