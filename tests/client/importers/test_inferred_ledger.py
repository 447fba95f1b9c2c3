"""Ledgers of compactions that other agents made."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_logs import CLAUDE_CODE_SESSION as CLAUDE
from agent_logs import CODEX_SESSION as CODEX
from compact.events import ArchivalEvent, CheckEvent, PrunedMessagesEvent, RetentionEvent, SummaryCreatedEvent
from compact.importers import UNDISCLOSED, InferredLedger, infer_ledger, ingest_events, read_log


def ledgers(path: Path) -> list[InferredLedger]:
    return [infer_ledger(compaction) for compaction in read_log(path)[0].compactions]


@pytest.mark.req("A-CAP-1")
def test_every_message_of_a_foreign_compaction_has_an_inferred_fate() -> None:
    """Messages that Claude Code preserved are kept. The others are in the summary, or nothing of them is left."""
    clearing, ledger = ledgers(CLAUDE)
    assert clearing.fates == {"kept": 7, "cleared": 1}
    entries = {entry["id"]: entry for entry in ledger.entries}
    assert [entry["id"] for entry in ledger.entries] == ["u1", "a1", "u2", "u3", "a5", "u4", "a7", "u5", "a8"]
    assert all(entry["inferred"] for entry in ledger.entries)
    assert entries["a8"]["fate"] == "kept"
    assert (entries["u1"]["fate"], entries["u1"]["into"]) == ("summarized", "s1")
    assert entries["a5"] == {
        **entries["a5"], "role": "assistant", "fate": "dropped", "rule": "none of its facts are in the new prompt",
    }  # fmt: skip
    assert (ledger.tokens_before, ledger.tokens_after) == (155025, 8400)
    assert [entry["id"] for entry in ledger.after_entries] == ["s1", "a8"]


@pytest.mark.req("A-CAP-1")
def test_the_size_after_a_compaction_is_that_of_the_next_call(tmp_path: Path) -> None:
    """Claude Code reports the summary alone. Until the next call, the size of the prompt is not known."""
    lines = [line.replace(b'"postTokens":8200,', b"") for line in CLAUDE.read_bytes().splitlines(keepends=True)]
    boundary = next(number for number, line in enumerate(lines) if b'"compact_boundary"' in line)
    path = tmp_path / CLAUDE.name
    path.write_bytes(b"".join(lines[: boundary + 2]))
    ledger = ledgers(path)[-1]
    assert (ledger.tokens_before, ledger.tokens_after) == (155025, None)
    assert ledger.summary
    path.write_bytes(b"".join(lines))
    assert ledgers(path)[-1].tokens_after == 8400


@pytest.mark.req("A-CAP-1")
def test_lost_facts_are_ranked_by_commitment() -> None:
    """A rule of the user comes first, then a decision. What the summary still says is kept."""
    ledger = ledgers(CLAUDE)[1]
    lost = [(fact.kind, fact.text) for fact in ledger.lost]
    assert lost[0][0] == "constraint"
    assert "Never drop the table orders_2024" in lost[0][1]
    assert lost[1][0] == "decision"
    assert "shop_slot_7" in lost[1][1]
    kept = {fact.text for fact in ledger.kept}
    assert {"SHOP-4711"} <= kept
    assert any(fact.kind == "file" and "settings.py" in fact.text for fact in ledger.kept)
    assert ledger.facts_kept is not None
    assert ledger.facts_total == ledger.facts_kept + len(lost)
    assert ledger.by_kind["constraint"] == {"found": 1, "kept": 0, "restored": 0, "lost": 1}


def test_a_paraphrase_counts_as_kept_only_with_its_values(tmp_path: Path) -> None:
    """The same words with another number are not the same fact."""
    text = CLAUDE.read_text().replace(
        "One test failed.",
        "One test failed. The table orders_2024 must not be dropped, auditors need it until 2031-03-31.",
    )
    path = tmp_path / "log.jsonl"
    path.write_text(text)
    assert ledgers(path)[1].by_kind["constraint"]["kept"] == 1
    path.write_text(text.replace('auditors need it until 2031-03-31."', 'auditors need it until 2030-03-31."'))
    assert ledgers(path)[1].by_kind["constraint"]["kept"] == 0


def test_secrets_do_not_reach_a_ledger() -> None:
    """The ledger is built from redacted messages."""
    ledger = ledgers(CLAUDE)[1]
    assert "s3cr3t-Pa55" not in repr((ledger.entries, ledger.facts, ledger.before, ledger.summary))


def test_an_encrypted_summary_is_reported_as_undisclosed() -> None:
    """Messages of the replacement history are kept or truncated. Nothing else is claimed."""
    sealed, readable = ledgers(CODEX)
    assert (sealed.note, sealed.summary, sealed.facts_kept) == (UNDISCLOSED, UNDISCLOSED, None)
    assert sealed.fates == {"kept": 1, "truncated": 1, "summarized": 5}
    assert sealed.tokens_before == 240090
    rules = {entry["rule"] for entry in sealed.entries if entry["fate"] == "summarized"}
    assert rules == {"the provider does not disclose this summary"}
    assert any("Do not send any mail" in fact.text for fact in sealed.facts) is False
    assert readable.note == ""
    assert readable.summary is not None
    assert "Handoff summary" in readable.summary


def test_a_compaction_becomes_a_check_with_its_events() -> None:
    """The archival of the prompt comes from the caller. An undisclosed summary has no retention."""
    events = list(ingest_events(read_log(CLAUDE)[0], session_id="s"))
    checks = [event for event in events if event.get("kind") == CheckEvent.name]
    assert [event["properties"]["trigger"] for event in checks] == ["auto", "auto"]
    parts = {event["kind"]: event for event in events if event.get("parent_id") == checks[1]["span_id"]}
    assert ArchivalEvent.name not in parts
    pruned = parts[PrunedMessagesEvent.name]
    assert pruned["properties"]["inferred"] is True
    assert pruned["properties"]["fates"] == {"summarized": 6, "dropped": 2, "kept": 1}
    retention = parts[RetentionEvent.name]
    assert retention["properties"]["facts_total"] > retention["properties"]["facts_kept"] > 0
    assert retention["payload"]["lost"][0]["kind"] == "constraint"
    sealed = list(ingest_events(read_log(CODEX)[0], session_id="s"))
    summaries = [event for event in sealed if event.get("kind") == SummaryCreatedEvent.name]
    assert summaries[0]["payload"]["summary"] == UNDISCLOSED
    assert len([event for event in sealed if event.get("kind") == RetentionEvent.name]) == 1
