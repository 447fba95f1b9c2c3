"""Logs of Gemini CLI, as a document and as a journal."""

from __future__ import annotations

from agent_logs import GEMINI, read, tokens


def test_gemini_logs_are_read_as_document_and_as_journal() -> None:
    """A message that is written again replaces its earlier version. A rewind removes messages."""
    document = read(next((GEMINI / "document").rglob("*.json")))
    assert [item["role"] for item in document.items] == ["user", "assistant", "user"]
    assert document.items[2]["content"][0]["content"] == "512 orders.csv"
    journal = read(next((GEMINI / "journal").rglob("*.jsonl")))
    assert journal.cwd == "/home/dev/shop"
    assert tokens(journal) == 980
    (compaction,) = journal.compactions
    assert [message.id for message in compaction.before] == ["c0", "u1", "g1"]
    assert [message.id for message in compaction.after] == ["s1", "s2", "g1"]
    assert compaction.fates == {"g1": ("kept", "in the new history")}
