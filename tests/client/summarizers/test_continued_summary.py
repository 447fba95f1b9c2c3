"""Summaries that continue an earlier one: what was kept before is not forgotten in later rounds."""

from __future__ import annotations

import json

from compact.messages import Message, ToolCall
from compact.reading.summary_blocks import earlier_blocks
from compact.summarizers import ExtractiveSummarizer
from compact.summarizers.extraction.span_index import SpanIndex
from compact.summary.entries import Decision, Mentions, Note
from compact.summary.structured_summary import StructuredSummary


def shown_names(names: list[str]) -> list[Message]:
    """Return a call and its output, which shows names of code."""
    call = ToolCall("call-1", "search", '{"pattern": "def"}')
    output = "\n".join(f"def {name}(request):" for name in names)
    return [
        Message("assistant", "", id="a1", tool_calls=(call,)),
        Message("tool", output, id="t1", tool_call_id=call.id),
    ]


def test_a_summary_remembers_what_it_leaves_to_the_messages_after_it():
    """These messages are summarized in a later round. Until then, the fact is not a new one."""
    messages = [Message("assistant", "The migration is called `billing_cutover`.", id="a1")]
    visible = [Message("user", "When does billing_cutover run?", id="u1")]
    summary = ExtractiveSummarizer().summarize_span(messages, visible=visible)
    assert Mentions("billing_cutover", said=1, messages=1) in summary.mentions


def test_a_fact_that_was_left_to_later_messages_is_kept_with_them():
    """Among the names of an output, the one that an earlier message mentioned comes first."""
    messages = shown_names([f"orders_handler_{number}" for number in range(40)])
    earlier = StructuredSummary(mentions=(Mentions("orders_handler_25"),))
    summarizer = ExtractiveSummarizer()
    assert "orders_handler_25" in summarizer.summarize_span(messages, previous=earlier, max_tokens=120).render()
    new = summarizer.summarize_span(messages, previous=StructuredSummary(), max_tokens=120)
    assert "orders_handler_25" not in new.render()


def test_mentions_survive_json_and_add_up_when_summaries_merge():
    """A stored plan and a summarizer that does not continue summaries keep them."""
    summary = StructuredSummary(mentions=(Mentions("billing_cutover", 1, 2, 3), Mentions("refunds", shown=1)))
    assert StructuredSummary.from_dict(json.loads(json.dumps(summary.to_dict()))) == summary
    newer = StructuredSummary(mentions=(Mentions("orders", 1), Mentions("billing_cutover", 1, 1, 1, by_user=True)))
    merged = (Mentions("billing_cutover", 2, 3, 4, True), Mentions("refunds", shown=1), Mentions("orders", 1))
    assert summary.merge(newer).mentions == merged


def test_a_summary_remembers_how_often_a_fact_was_mentioned():
    """The count does not change in rounds that do not mention the fact, and messages that stay are not counted yet."""
    messages = [message for _ in range(3) for message in shown_names(["orders_handler", "refund_job"])]
    visible = [Message("assistant", "I will look at orders_handler.", id="a9")]
    summarizer = ExtractiveSummarizer()
    summary = summarizer.summarize_span(messages, visible=visible)
    assert Mentions("orders_handler", shown=3, messages=3) in summary.mentions
    for _ in range(3):
        summary = summarizer.summarize_span([Message("user", "Go on.", id="u1")], previous=summary, visible=visible)
    assert Mentions("orders_handler", shown=3, messages=3) in summary.mentions
    summary = summarizer.summarize_span(visible, previous=summary)
    assert Mentions("orders_handler", said=1, shown=3, messages=4) in summary.mentions


def test_a_kept_decision_is_not_displaced_by_a_shorter_new_one():
    """Without a reason, a summary does not exchange what it said before."""
    kept = "We decided to store the ledger of every customer in one table per tenant and region"
    later = [Message("assistant", f"We decided to call project{number} after team{number}") for number in range(30)]
    previous = StructuredSummary(decisions=(Decision(kept, sources=("m1",)),))
    assert kept in ExtractiveSummarizer().summarize_span(later, previous=previous, max_tokens=80).render()


def test_a_kept_commit_is_not_displaced_by_new_ones():
    """Work that was done early stays in the summary."""
    kept = "Commit fd43cd4 feat: Use the Spinner instead of the inlined custom spinner"
    words = ("apple", "bridge", "candle", "desert", "engine", "forest", "garden", "harbor", "island", "jungle")
    later = [
        Message("user", f"Commit {0x1ABCDEF + 7919 * number:07x} feat: Use the {word}_table for the {word}")
        for number, word in enumerate(words)
    ]
    previous = StructuredSummary(facts=(Note(kept, sources=("m1",), role="user"),))
    assert kept in ExtractiveSummarizer().summarize_span(later, previous=previous, max_tokens=150).render()


def test_a_kept_line_of_an_output_introduces_its_names():
    """All lines of an earlier summary are at one position, but they do not repeat each other."""
    messages = shown_names(["orders_handler", "orders_handler_test"])
    summary = ExtractiveSummarizer().summarize_span([Message("user", "Find the handlers.", id="u1"), *messages])
    index = SpanIndex(continues_summary=True)
    index.add(earlier_blocks(summary))
    kept = [line for line in index.candidates if "orders_handler" in line.text]
    assert kept
    assert [line.unexplained for line in kept] == [()] * len(kept)
    assert {index.usages[entity].messages for line in kept for entity in line.entities} == {1}
