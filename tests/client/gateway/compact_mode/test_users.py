"""Two users of one compactor, in each protocol, with and without a name for the session."""

from __future__ import annotations

import json
from typing import Any

import pytest
from compact import CompactConfig, CompactManager, NoopEstimator
from providers.compactor_feed import KEYS, MODELS, CompactorFeed

USERS = ("alice", "bob")
LONG = "lorem ipsum dolor " * 40


@pytest.fixture
def feed() -> CompactorFeed:
    return CompactorFeed(CompactManager(CompactConfig("gpt-5", 4_000, token_estimator=NoopEstimator())))


def history(protocol: str, user: str, turns: int) -> list[Any]:
    """The first message is the same for both users, and all others have a secret of their own."""
    texts = ["The same beginning.", *(f"SECRET-{user} {number} {LONG}" for number in range(2 * turns))]
    if protocol == "gemini":
        roles = ("user", "model")
        return [{"role": roles[index % 2], "parts": [{"text": text}]} for index, text in enumerate(texts)]
    return [{"role": ("user", "assistant")[index % 2], "content": text} for index, text in enumerate(texts)]


def answer(protocol: str, text: str, name: str) -> dict[str, Any]:
    match protocol:
        case "anthropic":
            return {"id": name, "type": "message", "content": [{"type": "text", "text": text}]}
        case "chat":
            return {"id": name, "choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}
        case "gemini":
            parts = [{"text": text}]
            return {"responseId": name, "candidates": [{"index": 0, "content": {"role": "model", "parts": parts}}]}
    content = [{"type": "output_text", "text": text}]
    return {"id": name, "output": [{"type": "message", "role": "assistant", "content": content}]}


@pytest.mark.parametrize("is_named", [False, True])
@pytest.mark.parametrize("protocol", KEYS)
def test_no_prompt_and_no_session_of_another_user(feed: CompactorFeed, protocol: str, is_named: bool):
    """Their requests alternate. Each has one session, and both are compacted."""
    sessions: dict[str, set[str]] = {user: set() for user in USERS}
    compacted = dict.fromkeys(USERS, 0)
    for turns in range(10):
        for user, other in (USERS, USERS[::-1]):
            items = history(protocol, user, turns)
            fields = {"prompt_cache_key": "one"} if is_named else {}
            body = json.dumps({"model": MODELS[protocol], **fields, KEYS[protocol]: items}).encode()
            sent = feed.ask(protocol, body, credential=user)
            assert f"SECRET-{other}" not in sent.decode()
            sessions[user].add(feed.verdict["session"])
            compacted[user] += len(json.loads(sent)[KEYS[protocol]]) < len(items)
            text = f"SECRET-{user} {2 * turns} {LONG}"
            feed.answer(answer(protocol, text, f"{user}-{turns}"))
    assert all(compacted.values())
    assert [len(names) for names in sessions.values()] == [1, 1]
    assert sessions["alice"].isdisjoint(sessions["bob"])


def test_the_response_of_another_user_is_not_known(feed: CompactorFeed):
    """A request that continues it is sent as it came."""
    body = json.dumps({"model": "gpt-5", "input": "SECRET-alice"}).encode()
    feed.ask("responses", body, credential="alice")
    feed.answer(answer("responses", "SECRET-alice", "resp_1"))
    body = json.dumps({"model": "gpt-5", "input": "next", "previous_response_id": "resp_1"}).encode()
    assert feed.ask("responses", body, credential="bob") == body
    assert feed.verdict["action"] == "original"
    assert feed.verdict["session"] == ""


def test_two_runs_with_the_same_beginning_are_two_sessions(feed: CompactorFeed):
    """One user, the same prompt twice, another answer: nothing says that it is one conversation."""
    body = json.dumps({"model": "gpt-5", "messages": [{"role": "user", "content": "Hello."}]}).encode()
    names = []
    for name in ("one", "two"):
        feed.ask("chat", body)
        names.append(feed.verdict["session"])
        feed.answer(answer("chat", f"The answer of run {name}. {LONG}", name))
    assert len(set(names)) == 2


def test_sub_agents_of_a_session_have_plans_of_their_own(feed: CompactorFeed):
    """Their requests interleave, and each compaction is counted once."""
    counts = []
    for turns in range(1, 10):
        for agent in ("main", "sub"):
            items = history("anthropic", agent, turns)
            headers = {"x-claude-code-session-id": "s1"} | ({"x-claude-code-agent-id": "a1"} if agent == "sub" else {})
            body = json.dumps({"model": "claude-test", "max_tokens": 9, "messages": items}).encode()
            sent = feed.ask("anthropic", body, headers=headers)
            assert f"SECRET-{'main' if agent == 'sub' else 'sub'}" not in sent.decode()
            assert feed.verdict["session"] == "s1"
            counts.append(feed.verdict["compactions"])
            feed.answer(answer("anthropic", "Done.", f"{agent}-{turns}"))
    assert 2 <= sum(counts) <= 6
