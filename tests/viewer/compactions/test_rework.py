"""Rework: questions about removed content, and repeated tool calls."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from agent_session import Session, send
from live_server import Server
from reader import client_of

from viewer.compactions.rework import RemovedText, Utterance, find_questions, message_text, requests
from viewer.sessions.spans import SpanRow


def utterance(text: str, speaker: str = "agent") -> Utterance:
    return Utterance(SpanRow("t", text[:8], None, "generation", "gpt-5", "ok", None, None, None, 1), speaker, text)


REMOVED = [
    RemovedText("m3", "The staging account is acct_1NZ8k, the limit is 900 EUR."),
    RemovedText("m9", "The gearbox supplier delivers on Thursdays."),
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
def test_a_question_about_removed_content_names_its_message(text: str, about: str) -> None:
    (question,) = find_questions([utterance(text)], REMOVED, remaining=["We are migrating the billing service."])
    assert question.about == about
    assert question.sentence == text


@pytest.mark.parametrize(
    "text",
    [
        "The gearbox supplier delivers on Thursdays.",  # a statement
        "Should I continue with the next step?",  # about nothing that was removed
        "What is the limit?",  # a single word is not enough
    ],
)
def test_other_sentences_are_not_rework(text: str) -> None:
    assert find_questions([utterance(text)], REMOVED, remaining=[]) == []


def test_content_that_the_summary_has_is_not_removed() -> None:
    remaining = ["Use the staging account acct_1NZ8k."]
    assert find_questions([utterance("Is acct_1NZ8k the staging account?")], REMOVED, remaining) == []


def test_only_the_first_question_about_a_message_counts() -> None:
    later = [utterance("Which supplier makes the gearbox?"), utterance("The gearbox supplier, which was it?", "user")]
    assert [question.utterance.speaker for question in find_questions(later, REMOVED, remaining=[])] == ["agent"]


def test_requests_are_questions_and_reminders() -> None:
    text = "Done. v1.2.3 is out.\nWhich branch is next? I already told you: main!"  # words:ignore
    assert requests(text) == ["Which branch is next?", "I already told you: main!"]  # words:ignore


def test_the_text_of_a_message_includes_tool_calls() -> None:
    message = {
        "role": "assistant",
        "content": [{"type": "text", "text": "reading"}],
        "tool_calls": [{"arguments": "a.py"}],
    }
    assert message_text(message).split() == ["reading", "a.py"]


def test_the_fragment_links_to_repeated_calls_and_questions(server: Server) -> None:
    """Everyone sees that something was needed again. Its text needs the permission to view payloads."""
    session = Session(f"rework-{uuid.uuid4().hex[:8]}")
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
        assert ("read_file(&quot;billing/ledger.py&quot;)" in page) == sees
        assert ("billing/ledger.py" in page) == sees
        assert "Done so far" not in page
