"""Regret: who asked for what a compaction had taken out of the prompt."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from agent_session import Session, send
from live_server import Server
from reader import client_of

from viewer.compactions.rework import Gone, Said, asking, questions, words_of
from viewer.sessions.spans import SpanRow


def said(text: str, speaker: str = "agent") -> Said:
    return Said(SpanRow("t", text[:8], None, "generation", "gpt-5", "ok", None, None, None, 1), speaker, text)


GONE = [
    Gone("m3", "The staging account is acct_1NZ8k, the limit is 900 EUR."),
    Gone("m9", "The gearbox supplier delivers on Thursdays."),
]


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("Could you tell me which staging account to use?", "m3"),
        ("Is acct_1NZ8k still right?", "m3"),
        ("Please remind me of the supplier.", "m9"),
        ("I no longer have the limit from earlier.", "m3"),
        ("When does the gearbox supplier deliver?", "m9"),
    ],
)
def test_a_question_about_what_is_gone_leads_to_its_message(text: str, about: str) -> None:
    (found,) = questions([said(text)], GONE, still=["We are migrating the billing service."])
    assert found.about == about
    assert found.sentence == text


@pytest.mark.parametrize(
    "text",
    [
        "The gearbox supplier delivers on Thursdays.",  # a statement
        "Shall I go on with the next step?",  # about nothing that is gone
        "What is the limit?",  # one word alone says too little
    ],
)
def test_what_asks_for_nothing_that_is_gone_is_no_regret(text: str) -> None:
    assert questions([said(text)], GONE, still=[]) == []


def test_what_the_summary_still_says_is_not_gone() -> None:
    still = ["Use the staging account acct_1NZ8k."]
    assert questions([said("Is acct_1NZ8k the staging account?")], GONE, still) == []


def test_what_was_said_again_is_asked_for_once() -> None:
    later = [said("Which supplier makes the gearbox?"), said("The gearbox supplier, which was it?", "user")]
    assert [question.said.speaker for question in questions(later, GONE, still=[])] == ["agent"]


def test_only_sentences_that_ask_are_taken_out_of_a_text() -> None:
    text = "Done. v1.2.3 is out.\nWhich branch is next? I already told you: main!"
    assert asking(text) == ["Which branch is next?", "I already told you: main!"]


def test_a_stored_message_speaks_by_its_values() -> None:
    message = {
        "role": "assistant",
        "content": [{"type": "text", "text": "reading"}],
        "tool_calls": [{"arguments": "a.py"}],
    }
    assert words_of(message).split() == ["reading", "a.py"]


def test_the_page_leads_to_the_call_made_twice_and_to_the_question(server: Server) -> None:
    """Text of the agent is shown only with the right to it; that something was asked for again is shown to all."""
    session = Session(f"regret-{uuid.uuid4().hex[:8]}")
    session.tokens = 110_000
    read = {"payload": {"arguments": '{"path": "billing/ledger.py"}'}}
    events = [session.trace(), session.span("tool", "read_file", **read)]
    session.at += timedelta(seconds=5)
    events += session.play_turn(tools=0)
    asked = {"output": "Done so far. Where did billing/legacy/export.py go?"}
    events += [session.span("tool", "read_file", **read), session.span("generation", "gpt-5", payload=asked)]
    send(server.ingest_url, server.ingest_key, events)
    for person, sees in (("operator", False), ("developer", True)):
        with client_of(server, person) as client:
            page = client.get(f"/sessions/{session.session_id}/compactions/1/regrets/").text
        assert "ran again with the same arguments" in page
        assert 'href="#m-m9"' in page
        assert ("Where did billing/legacy/export.py go?" in page) == sees
        assert ("billing/ledger.py" in page) == sees
        assert "Done so far" not in page
