"""Names from agents on pages: shortened in the middle, and never invisible."""

from __future__ import annotations

import pytest
from people import client_for, create_project, create_transcript, create_user

from viewer.templatetags.ariadne import cut_head, cut_tail, middle


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("run-1", "run-1"),
        ("", ""),
        (" ", "(blank)"),
        ("\u200b\ufeff", "(blank)"),
        ("a\nb\tc\x1b", "a␊b␉c␛"),
        ("\n", "␊"),
        ("x" * 50 + "-001", "xxxxxxxxxx…xxxxx-001"),
    ],
)
def test_a_name_is_visible_and_fits(name: str, shown: str) -> None:
    assert middle(name, 20) == shown


def test_the_end_of_a_long_name_is_kept() -> None:
    name = "shard-" + "a" * 300 + "-002"
    assert cut_tail(name).endswith("-002")
    assert len(cut_head(name)) + len(cut_tail(name)) == 200


@pytest.mark.django_db
def test_transcripts_of_shards_differ_in_the_list() -> None:
    project = create_project("ours")
    for number in (1, 2):
        create_transcript(project, session=f"shard-{'a' * 150}-00{number}")
    page = client_for(create_user("auditor", project)).get("/transcripts/").content.decode()
    assert all(f'<span class="cut-tail">aaaaaaaaaa-00{number}</span>' in page for number in (1, 2))


@pytest.mark.django_db
def test_many_projects_do_not_fill_the_list_of_transcripts() -> None:
    """With a few projects, the page shows how long each keeps its transcripts."""
    projects = [create_project(f"p{number}") for number in range(5)]
    create_transcript(projects[0])
    auditor = client_for(create_user("auditor", *projects))
    assert "5 projects" in auditor.get("/transcripts/").content.decode()
    few = client_for(create_user("auditor", *projects[:3])).get("/transcripts/").content.decode()
    assert few.count("kept forever") == 3


@pytest.mark.django_db
def test_a_new_key_is_for_the_current_project() -> None:
    first, second = create_project("first"), create_project("second")
    client = client_for(create_user("developer", first, second))
    client.get("/", {"project": "second"})
    menu = client.get("/keys/").content.decode().split('id="key-project"')[1]
    assert '<option value="second" selected>Second</option>' in menu
