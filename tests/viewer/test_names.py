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
