"""Logs of pi."""

from __future__ import annotations

from agent_logs import PI, read


def test_pi_branches_are_followed() -> None:
    """The prompt is the path to the newest entry, without abandoned answers."""
    conversation = read(next((PI / "version_3").rglob("*.jsonl")))
    assert conversation.cwd == "/home/dev/site"
    assert [message.id for message in conversation.compactions[0].before] == ["e1", "e2", "e3", "e4"]
    assert [message.id for message in conversation.context] == ["e5-summary", "e4", "e6"]
