"""Stored transcripts planned again with other policies."""

from __future__ import annotations

import re
import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import httpx
import pytest
from compact import AriadneExporter, AriadneStorage, CompactConfig, CompactManager, CompactPolicy
from compact.summarizers import ExtractiveSummarizer
from conversations import conversation
from live_server import Server
from reader import client_of
from wait import wait_until

from ariadne.demo import coding_agent, research_agent
from ariadne.demo.clock import PastClock
from ariadne.demo.player import Player
from viewer.compactions.what_if import Outcome, Plan, Row, redaction_note


def compact_twice(server: Server, summarizer: Any = None) -> str:
    """Send a session with two compactions, and return its id."""
    session_id = f"whatif-{uuid.uuid4().hex[:8]}"
    exporter = AriadneExporter(server.ingest_url, server.ingest_key, spool_dir=None)
    config = CompactConfig(
        model="gpt-5",
        max_context_tokens=6_000,
        # So that the number of recent turns decides what stays.
        policy=CompactPolicy(hard_cap_buffer=300, keep_recent_turns=4, keep_tool_io_pairs=1, story_pct=0.0),
        exporter=exporter,
        summarizer=summarizer,
        storage=AriadneStorage(server.url, server.ingest_key, spool_dir=None, exit_timeout_s=60),
    )
    manager, history = CompactManager(config), conversation(120)
    manager.preflight(session_id, conversation(60))
    # The second prompt starts with the summary of the first compaction.
    manager.preflight(session_id, history)
    exporter.close()
    return session_id


@pytest.fixture(scope="module")
def name(server: Server) -> str:
    return compact_twice(server)


class TerseSummarizer:
    """A summarizer of the host, which a replay does not have."""

    name = "terse"

    def summarize_span(self, messages: Any, **options: Any) -> Any:
        return ExtractiveSummarizer().summarize_span(messages[:4], **options)


def what_if(client: httpx.Client, name: str, number: int = 1, **choice: object) -> str:
    """Return the what-if result, after waiting for the transcript, which is sent in the background."""
    answers: list[httpx.Response] = []

    def has_answer() -> bool:
        answers.append(client.get(f"/sessions/{name}/compactions/{number}/what-if/", params=choice))
        return answers[-1].status_code == 200

    assert wait_until(has_answer), answers[-1].status_code
    return answers[-1].text


def replay(client: httpx.Client, name: str, number: int = 1) -> str:
    return what_if(client, name, number, replay=1)


def kept_count(answer: str) -> int:
    """Return the number of messages that the other policy would keep."""
    row = re.search(r"</span>kept</span>\s*</td>\s*<td class=\"num\">\d+</td>\s*<td class=\"num\">(\d+)</td>", answer)
    assert row, answer
    return int(row.group(1))


def test_keeping_fewer_turns_keeps_fewer_messages(server: Server, name: str) -> None:
    with client_of(server, "operator") as client:
        few, more = what_if(client, name, keep_recent_turns=1), what_if(client, name, keep_recent_turns=8)
        assert "Would compact" in few
        assert kept_count(few) < kept_count(more)
        assert what_if(client, name, keep_recent_turns=1) == few


def test_the_planned_prompt_includes_the_previous_summary(server: Server, name: str) -> None:
    """The log without the summary would be twice as large as the prompt was."""
    with client_of(server, "operator") as client:
        answer = what_if(client, name, 2)
        tokens = re.search(r"Would compact ([\d,]+) tokens", answer)
        assert tokens, answer
        check = client.get(f"/api/sessions/{name}/compactions/").json()["results"][1]
        assert int(tokens.group(1).replace(",", "")) == pytest.approx(check["before"], rel=0.02)


def test_a_replay_gives_what_happened_and_names_its_summarizer(server: Server, name: str) -> None:
    with client_of(server, "operator") as client:
        answer = replay(client, name)
        assert "The replay matches what happened" in answer
        assert ">extractive</strong>" in answer
        assert "Plan again" in answer
        assert "The actual result was" in what_if(client, name)
        assert "Replay this compaction" in client.get(f"/sessions/{name}/compactions/1/").text


@pytest.mark.req("A-UI-1")
def test_a_replay_that_differs_says_why_and_nothing_is_compared(server: Server) -> None:
    """The agent used a summarizer that the server does not have."""
    name = compact_twice(server, TerseSummarizer())
    with client_of(server, "developer") as client:
        answer = replay(client, name)
        assert "The replay differs from what happened" in answer
        assert "The agent used the summarizer terse. A replay uses extractive." in answer
        planned = what_if(client, name, keep_recent_turns=1)
        assert "Not compared with what happened" in planned
        assert "The actual result was" not in planned
        assert "What happened</th>" not in planned


@pytest.mark.req("A-UI-1")
@pytest.mark.parametrize("story", [coding_agent.STORY, research_agent.STORY], ids=lambda story: story.session_id)
def test_replays_of_recorded_sessions_give_what_happened(server: Server, story: Any) -> None:
    """Each compaction starts from the summary before it. A summary was refused, and results were externalized."""
    name = story.session_id
    story = replace(story, session_id=f"{name}-{uuid.uuid4().hex[:6]}")
    exporter = AriadneExporter(server.ingest_url, server.ingest_key, spool_dir=None)
    storage = AriadneStorage(server.url, server.ingest_key, spool_dir=None, exit_timeout_s=60)
    Player(story, exporter, storage, PastClock(timedelta(hours=2))).play()
    exporter.close()
    with client_of(server, "operator") as client:
        results = client.get(f"/api/sessions/{story.session_id}/compactions/").json()["results"]
        for number, compaction in enumerate(results, 1):
            answer = replay(client, story.session_id, number)
            if compaction["trigger"] == "overflow":
                # From here on, the agent corrects its counts with those of the provider's error.
                assert "The agent planned with the window that the provider&#x27;s error named." in answer
                break
            assert "The replay matches what happened" in answer, answer
            assert f"{compaction['before']:,} to {compaction['after']:,} tokens" in answer
        assert number >= 3


@pytest.mark.parametrize(
    ("before", "after", "facts", "note"),
    [
        (20_414, 12_225, (229, 229), "It has 12,225 tokens after the compaction, not 12,227"),
        (20_413, 12_227, (229, 229), "It has 20,413 tokens before the compaction, not 20,414"),
        (20_414, 12_227, (228, 228), "It kept 228 of 228 facts, not 229 of 229"),
        (20_414, 11_900, (228, 228), ""),
        (20_100, 12_227, (229, 229), ""),
        (20_414, 12_227, (229, 229), ""),
    ],
)
def test_small_differences_of_a_redacted_replay_are_explained(
    before: int, after: int, facts: tuple[int, int], note: str
) -> None:
    """A difference of more than 1 % in tokens has another cause."""
    rows = [
        Row("Tokens before", 20_414, before),
        Row("Tokens after", 12_227, after),
        Row("Facts kept", 229, facts[0], actual_total=229, planned_total=facts[1]),
    ]
    expected = f"{note}, because the transcript is redacted." if note else ""
    assert redaction_note(Outcome(Mock(spec=Plan), rows, [])) == expected
