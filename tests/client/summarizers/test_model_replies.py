"""Replies of a model that are refusals, too long, in another format or wrong."""

from __future__ import annotations

import json

import pytest
from client.chat_endpoint import completion, failure
from client.model_span import GOOD, SPAN, summarizer
from compact.exceptions import SummarizationError, SummaryRefused, SummaryTooLong
from compact.messages import Message, ToolCall


@pytest.mark.req("S-FAIL-3")
@pytest.mark.parametrize(
    "reply",
    [
        completion(None, refusal="I cannot do that"),
        completion("I'm sorry, but I can't help with that."),
        completion("As an AI language model, I cannot summarize this conversation."),
        completion("Unfortunately, I cannot fulfill this request."),
        completion("I won't be able to summarize this."),
        completion({"current_task": "I'm sorry, but I can't help with that."}),
        completion({"facts": [{"text": "I cannot summarize this conversation.", "sources": []}]}),
        completion("", finish_reason="content_filter"),
        failure(400, "flagged", code="content_policy_violation"),
    ],
)
def test_refusals_raise_summary_refused(endpoint, reply):
    """A refusal can be a field, prose, the only entry of a summary, a finish reason or an error code."""
    endpoint.respond(reply)
    with pytest.raises(SummaryRefused):
        summarizer(endpoint).summarize_span(SPAN, max_tokens=600)


@pytest.mark.req("S-FAIL-2")
def test_a_truncated_or_long_reply_raises_summary_too_long(endpoint):
    """Both the finish reason and the token count are checked."""
    endpoint.respond(completion('{"facts": [', finish_reason="length"))
    with pytest.raises(SummaryTooLong):
        summarizer(endpoint).summarize_span(SPAN, max_tokens=600)
    endpoint.respond(completion({"facts": [{"text": "word " * 3000, "sources": []}]}))
    with pytest.raises(SummaryTooLong):
        summarizer(endpoint).summarize_span(SPAN, max_tokens=600)


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"facts": [{"text"',
        '{"facts": "x", "unknown": 3}',
        f'{{"facts": {"[" * 100_000}}}',
    ],
)
def test_a_reply_that_is_not_a_summary_is_an_error(endpoint, text):
    """Truncated JSON and empty objects are rejected."""
    endpoint.respond(completion(text))
    with pytest.raises(SummarizationError):
        summarizer(endpoint).summarize_span(SPAN, max_tokens=600)


PROSE = """Summary:
- The user wants a refund for ORD-4711.
- It was sent to /srv/made/up.csv.
1. Refund rf_9001 is created."""


def test_plain_text_is_repaired_once(endpoint):
    """The second request has only the text, and its reply is the summary."""
    endpoint.respond(completion(PROSE), completion(GOOD))
    summary = summarizer(endpoint).summarize_span(SPAN, max_tokens=600)
    assert summary.current_task.text == "Refund order ORD-4711"
    assert len(endpoint.requests) == 2
    assert [message["content"] for message in endpoint.requests[1]["messages"]][-1] == PROSE
    assert endpoint.requests[1]["response_format"]["type"] == "json_schema"


def test_a_conversation_about_a_refusal_is_not_a_refusal(endpoint):
    """Only a reply that has nothing else is one."""
    facts = [{"text": "I cannot provide a refund above $80, said the agent."}, {"text": "The item broke."}]
    endpoint.respond(completion({"facts": facts}))
    assert "The item broke." in summarizer(endpoint).summarize_span(SPAN, max_tokens=600).render()


def test_json_with_other_fields_is_repaired_once(endpoint):
    """Some endpoints accept the schema and ignore it."""
    endpoint.respond(completion({"summary": "A refund was made.", "items": [1]}), completion(GOOD))
    summary = summarizer(endpoint).summarize_span(SPAN, max_tokens=600)
    assert summary.current_task.text == "Refund order ORD-4711"
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize("second", [completion("Still prose."), failure(400, "no"), completion(None, refusal="no")])
def test_plain_text_that_cannot_be_repaired_is_the_body(endpoint, second):
    """Invented paths are dropped, and the rule that the text lost is added."""
    endpoint.respond(completion(PROSE), second)
    text = summarizer(endpoint).summarize_span(SPAN, max_tokens=600).render()
    assert "The user wants a refund for ORD-4711." in text
    assert "Never refund more than $80." in text
    assert "/srv/made/up.csv" not in text
    assert len(endpoint.requests) == 2


def test_a_fenced_reply_is_parsed(endpoint):
    """Models without a schema mode often use code fences."""
    endpoint.respond(completion(f"```json\n{json.dumps(GOOD)}\n```"))
    assert summarizer(endpoint).summarize_span(SPAN, max_tokens=600).decisions


@pytest.mark.parametrize(
    "text",
    [
        "Sure! Here it is:\n```json\n{reply}\n```\nLet me know {{if}} you need more.",
        "I kept all {{ids}} of the record. {reply}",
        '{{"thoughts": "short"}}\n{reply}',
    ],
)
def test_an_object_between_other_text_is_parsed(endpoint, text):
    """Other text may contain braces and objects."""
    endpoint.respond(completion(text.format(reply=json.dumps(GOOD))))
    summary = summarizer(endpoint).summarize_span(SPAN, max_tokens=600)
    assert "refund $75" in [decision.decision for decision in summary.decisions]
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("fence", ["```", "```markdown", "~~~"])
def test_fences_and_headings_of_plain_text_are_left_out(endpoint, fence):
    """The text inside is a summary."""
    endpoint.respond(completion(f"{fence}\n# Summary\n- The user wants a refund for ORD-4711.\n{fence[:3]}"))
    summary = summarizer(endpoint).summarize_span(SPAN, max_tokens=600)
    assert [fact.text for fact in summary.facts if not fact.role] == ["The user wants a refund for ORD-4711."]


def test_characters_that_cannot_be_sent_are_removed(endpoint):
    """Halves of surrogate pairs, control sequences, and marks that reverse the direction of writing."""
    task, fact = r"Re\ud800fund \u001b[31mORD-4711\u001b[0m\u0000 \u202enow", r"rf_9001 \udfffis new"
    endpoint.respond(completion(f'{{"current_task": "{task}", "facts": ["{fact}"]}}'))
    summary = summarizer(endpoint).summarize_span(SPAN, max_tokens=600)
    assert summary.current_task is not None
    assert summary.current_task.text == "Refund ORD-4711 now"
    assert b"rf_9001 is new" in summary.render().encode()


@pytest.mark.parametrize("rule", ["Always refund more than $80.", "Refund more than $80."])
def test_a_rule_that_says_the_opposite_is_dropped(endpoint, rule):
    """The rule of the user stays."""
    endpoint.respond(completion({**GOOD, "constraints": [{"text": rule, "sources": ["m1"]}]}))
    text = summarizer(endpoint).summarize_span(SPAN, max_tokens=600).render()
    assert f"- {rule}" not in text
    assert "Never refund more than $80." in text


@pytest.mark.parametrize(
    "rule", ["Do not refund more than $80.", "No refund may be more than $80.", "退款不得超过 $80。"]
)
def test_a_rule_in_other_words_is_kept(endpoint, rule):
    """A paraphrase is no contradiction."""
    endpoint.respond(completion({**GOOD, "constraints": [{"text": rule, "sources": ["m1"]}]}))
    assert rule in [note.text for note in summarizer(endpoint).summarize_span(SPAN, max_tokens=600).constraints]


EDITED = "edited, `limit = 2`"


@pytest.mark.parametrize(
    ("change", "expected"),
    [("deleted", EDITED), ("Removed.", EDITED), ("raises the limit for bursts", "raises the limit for bursts")],
)
def test_the_edits_decide_what_happened_to_a_file(endpoint, change, expected):
    """A model may say why a file was changed, but not that it was deleted."""
    arguments = json.dumps({"file_path": "src/limits.py", "old_string": "limit = 1", "new_string": "limit = 2"})
    call = ToolCall("c9", "Edit", arguments)
    edits = [Message("assistant", "", tool_calls=(call,), id="m4"), Message("tool", "ok", tool_call_id="c9", id="m5")]
    file = {"path": "src/limits.py", "change": change, "sources": ["m4"]}
    endpoint.respond(completion({**GOOD, "files": [file]}))
    summary = summarizer(endpoint).summarize_span([*SPAN, *edits], max_tokens=600)
    assert [(entry.path, entry.change) for entry in summary.files] == [("src/limits.py", expected)]
