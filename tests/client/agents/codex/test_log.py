"""Logs of Codex, of 2025 and later."""

from __future__ import annotations

import json

from agent_logs import CODEX, CODEX_SESSION, SHORT_LOGS, read, spans
from compact.importers import infer_ledger, read_conversation


def test_the_log_of_a_sub_agent_belongs_to_its_parents_session() -> None:
    """The sub-agent has a log of its own, and starts and ends with it."""
    child = read(next((CODEX / "records").glob("*0199cccc*")))
    assert child.session_id == read(CODEX_SESSION).session_id
    (agent,) = (span for span in child.spans if span.kind == "agent")
    assert agent.name == "explorer"
    assert agent.started_at is not None
    assert agent.ended_at == max(span.ended_at or "" for span in child.spans)


def test_codex_counts_repeated_token_events_once() -> None:
    """The same totals again, for example with new rate limits, belong to no further call."""
    conversation = read(CODEX_SESSION)
    usage = [span.usage["input_tokens"] for span in conversation.spans if span.kind == "generation"]
    assert usage == [5000, 240000, 9000]
    assert conversation.window_tokens == 272_000
    (tool,) = (span for span in conversation.spans if span.kind == "tool")
    assert tool.is_error
    assert spans(conversation, "user")[0][1] == "notice"


def test_codex_logs_of_2025_have_bare_items() -> None:
    """The time is that of the session, and the folder comes from the first message."""
    conversation = read(next((CODEX / "bare_items").glob("*.jsonl")))
    assert (conversation.session_id, conversation.cwd) == ("b0b0b0b0-0000-4000-8000-000000000001", "/home/dev/old")
    assert [span.kind for span in conversation.spans] == ["user", "user", "generation", "tool", "generation"]
    assert {span.started_at for span in conversation.spans} == {"2025-06-20T10:00:00.000Z"}


def test_the_next_prompt_shows_the_size_after_a_codex_compaction():
    """An encrypted summary has no size of its own. The next model call reports the tokens of the new prompt."""
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go on with ORD-4711."}]}
    usage = {"input_tokens": 31_000, "cached_input_tokens": 0, "output_tokens": 5}
    hidden = {"type": "compaction", "encrypted_content": "gAAAA"}
    records = [
        {"type": "session_meta", "payload": {"id": "codex-1", "cwd": "/repo"}},
        {"type": "response_item", "payload": item},
        {"type": "compacted", "payload": {"message": "", "replacement_history": [item, hidden]}},
        {"type": "response_item", "payload": {**item, "role": "assistant"}},
        {"type": "event_msg", "payload": {"type": "token_count", "info": {"last_token_usage": usage}}},
    ]
    text = "\n".join(json.dumps({"timestamp": "2026-11-16T04:00:00.000Z", **record}) for record in records)
    (compaction,) = [span.compaction for span in read_conversation(text).spans if span.compaction]
    assert infer_ledger(compaction).tokens_after == 31_000


def test_a_codex_log_is_read_as_a_responses_conversation() -> None:
    """Items stay unchanged. Usage and context window come from the token counts in the log."""
    conversation = read_conversation((SHORT_LOGS / "codex.jsonl").read_text())
    assert (conversation.source, conversation.session_id, conversation.model) == ("codex", "0199-codex", "gpt-5-codex")
    assert conversation.window_tokens == 272_000
    assert [item["type"] for item in conversation.items] == [
        "message", "reasoning", "function_call", "function_call_output", "message",
    ]  # fmt: skip
    assert [span.kind for span in conversation.spans] == ["user", "generation", "tool", "generation", "compaction"]
    assert [span.usage["input_tokens"] for span in conversation.spans if span.kind == "generation"] == [2000, 2500]


def test_the_answer_with_a_summary_is_no_message_of_the_prompt() -> None:
    """Codex 0.169 logs it before the compaction. Counted as one, it would have facts that were kept."""
    text = {"type": "input_text", "text": "Never deploy on Fridays."}
    asked = {"type": "message", "role": "user", "content": [text]}
    answer = {
        "type": "message",
        "id": "m2",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "A brief."}],
    }
    records = [
        {"type": "session_meta", "payload": {"id": "codex-1", "cwd": "/repo"}},
        {"type": "response_item", "payload": asked},
        {"type": "response_item", "payload": answer, "metadata": {"compaction_output": True}},
        {"type": "compacted", "payload": {"message": "A brief.", "replacement_history": [answer]}},
    ]
    lines = "\n".join(json.dumps({"timestamp": "2026-11-16T04:00:00.000Z", **record}) for record in records)
    conversation = read_conversation(lines)
    (compaction,) = [span.compaction for span in conversation.spans if span.compaction]
    assert [message.item["role"] for message in compaction.before] == ["user"]
    assert len(spans(conversation, "generation")) == 1
