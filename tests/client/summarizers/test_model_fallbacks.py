"""Compactions whose model fails: retries, pruning, and the built-in summarizer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from client.chat_endpoint import ChatEndpoint, completion, failure
from client.model_span import summarizer
from compact import (
    CallbackExporter,
    CompactConfig,
    CompactManager,
    CompactPolicy,
    load_config,
)


def conversation() -> list[dict[str, str]]:
    messages = [{"role": "system", "content": "You are an agent."}]
    for turn in range(30):
        messages.append({"role": "user", "content": f"Question {turn} about item_{turn}. " + "filler text " * 30})
        messages.append({"role": "assistant", "content": f"Answer {turn} about item_{turn}. " + "more filler " * 30})
    return messages


def compact(endpoint: ChatEndpoint, **options: object) -> tuple[list[dict[str, str]], list[dict]]:
    events: list[dict] = []
    cfg = CompactConfig(
        model="gpt-4o",
        max_context_tokens=5_000,
        policy=CompactPolicy(hard_cap_buffer=200),
        summarizer=summarizer(endpoint, **options),
        exporter=CallbackExporter(events.append),
    )
    return list(CompactManager(cfg).preflight("s", conversation())), events


def errors(events: list[dict]) -> list[tuple[str, str]]:
    properties = [event["properties"] for event in events if event["event"] == "compact.error"]
    return [(error["error_type"], error["fallback"]) for error in properties]


@pytest.mark.req("S-FAIL-1")
def test_a_failing_endpoint_falls_back_to_pruning(endpoint):
    """The run continues without a summary, and an event reports the error."""
    endpoint.respond(failure(500, "boom", retry_after="0"))
    messages, events = compact(endpoint)
    assert errors(events) == [("SummarizationError", "pruning-only")]
    assert not any("COMPACT-SUMMARY" in message["content"] for message in messages)
    assert len(messages) < len(conversation())


@pytest.mark.req("S-FAIL-2")
def test_a_long_summary_is_retried_twice_with_half_the_length(endpoint):
    """After that it falls back to pruning, and each failure is an event."""
    endpoint.respond(completion('{"facts": [', finish_reason="length"))
    messages, events = compact(endpoint)
    kinds = [kind for kind, _ in errors(events)]
    assert kinds == ["SummaryTooLong"] * 3
    assert errors(events)[-1][1] == "pruning-only"
    assert len(endpoint.requests) == 3
    assert not any("COMPACT-SUMMARY" in message["content"] for message in messages)


@pytest.mark.req("S-FAIL-3")
def test_a_refusal_is_retried_in_brief_style(endpoint):
    """The brief summary is used, and the refusal is an event."""
    endpoint.respond(
        completion(None, refusal="no"), completion({"facts": [{"text": "Question 3 about item_3.", "sources": []}]})
    )
    messages, events = compact(endpoint)
    assert errors(events) == [("SummaryRefused", "retry as brief")]
    assert "Template: brief" in endpoint.requests[1]["messages"][0]["content"]
    assert sum("COMPACT-SUMMARY" in message["content"] for message in messages) == 1


@pytest.mark.req("S-FAIL-3")
def test_a_second_refusal_falls_back_to_pruning(endpoint):
    """Both refusals are events."""
    endpoint.respond(completion(None, refusal="no"))
    _, events = compact(endpoint)
    assert errors(events) == [("SummaryRefused", "retry as brief"), ("SummaryRefused", "pruning-only")]


@pytest.mark.req("C-SUM-3")
def test_a_summarizer_overflow_leaves_a_canned_summary(endpoint):
    """The history is still compacted, with a note that older turns were truncated."""
    endpoint.respond(failure(400, "too long", code="context_length_exceeded"))
    messages, events = compact(endpoint)
    summary = next(message["content"] for message in messages if "COMPACT-SUMMARY" in message["content"])
    assert "truncated" in summary
    assert errors(events)[0][0] == "SummarizerOverflow"


@pytest.mark.parametrize(
    "step",
    [
        failure(500, "boom", retry_after="0"),
        completion(None, refusal="no"),
        completion('{"facts": [', finish_reason="length"),
        failure(400, "too long", code="context_length_exceeded"),
        "hang",
    ],
)
def test_the_built_in_summarizer_steps_in_if_the_settings_say_so(endpoint, step):
    """Whatever the endpoint does, the prompt has a summary, and the failure is an event."""
    endpoint.respond(endpoint.hang if step == "hang" else step)
    events: list[dict] = []
    cfg = load_config(
        environ={},
        model="gpt-4o",
        max_context_tokens=5_000,
        policy={"hard_cap_buffer": 200},
        summarizer={"fallback": "builtin"},
        exporter=CallbackExporter(events.append),
    )
    cfg = replace(cfg, summarizer=summarizer(endpoint, timeout_s=0.5))
    messages = CompactManager(cfg).preflight("s", conversation())
    assert errors(events)[-1][1] == "builtin"
    summary = next(message["content"] for message in messages if "COMPACT-SUMMARY" in message["content"])
    assert "item_3" in summary
    created = [event["properties"] for event in events if event["event"] == "compact.summary_created"]
    assert [item["summarizer"] for item in created] == ["extractive"]


def test_a_good_reply_needs_no_fallback(endpoint):
    """The plain text of a model is a summary, not a failure."""
    endpoint.respond(completion("Question 3 about item_3 was answered."))
    messages, events = compact(endpoint)
    assert errors(events) == []
    assert any("Question 3 about item_3 was answered." in message["content"] for message in messages)
