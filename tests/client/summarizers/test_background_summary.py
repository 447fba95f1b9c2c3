"""Background summaries: prepared at the soft threshold, used at the hard one."""

from __future__ import annotations

import threading

import pytest
from compact.exceptions import SummarizationError
from compact.messages import Message
from compact.summarizers import BackgroundSummarizer
from compact.summary.entries import Note
from compact.summary.structured_summary import StructuredSummary


class SlowSummarizer:
    """Blocks until it is released, and records the number of messages of each request."""

    name = "slow"
    model = "slow-model"

    def __init__(self, *, error: Exception | None = None) -> None:
        self.requests: list[int] = []
        self.release = threading.Event()
        self._error = error

    def summarize_span(self, messages, *, style, keep_keys, max_tokens, visible=(), count_tokens=None):
        self.requests.append(len(messages))
        assert self.release.wait(10)
        if self._error is not None:
            raise self._error
        return StructuredSummary(facts=(Note(f"model summary of {len(messages)} messages"),), style=style)


def messages(count: int) -> list[Message]:
    return [Message("user", f"Never change item_{number}.", id=f"m{number}") for number in range(count)]


@pytest.mark.req("P-TRG-1")
def test_prepare_does_not_block_and_newer_messages_are_added_by_rule():
    """`prepare` returns immediately, and `summarize_span` extends the prepared summary with newer messages."""
    slow = SlowSummarizer()
    summarizer = BackgroundSummarizer(slow)
    assert summarizer.prepare(messages(4), max_tokens=500)
    slow.release.set()
    text = summarizer.summarize_span(messages(6), max_tokens=500).render()
    assert slow.requests == [4]
    assert "model summary of 4 messages" in text
    assert "Never change item_5." in text


def test_a_span_is_prepared_only_once():
    """Preparing the same or a longer history again starts no second request."""
    slow = SlowSummarizer()
    slow.release.set()
    summarizer = BackgroundSummarizer(slow)
    assert summarizer.prepare(messages(4))
    assert not summarizer.prepare(messages(4))
    assert not summarizer.prepare(messages(5))
    summarizer.summarize_span(messages(4), max_tokens=500)
    assert slow.requests == [4]


def test_a_different_span_or_style_uses_the_wrapped_summarizer():
    """A prepared summary only applies to its own history and style."""
    slow = SlowSummarizer()
    slow.release.set()
    summarizer = BackgroundSummarizer(slow)
    summarizer.prepare(messages(4))
    summarizer.summarize_span([Message("user", "other", id="x")], max_tokens=500)
    summarizer.summarize_span(messages(4), style="brief", max_tokens=500)
    assert sorted(slow.requests) == [1, 4, 4]


def test_a_failed_preparation_is_ignored():
    """The compaction makes its own request and reports its own error."""
    slow = SlowSummarizer(error=SummarizationError("no"))
    slow.release.set()
    summarizer = BackgroundSummarizer(slow)
    summarizer.prepare(messages(4))
    with pytest.raises(SummarizationError):
        summarizer.summarize_span(messages(4), max_tokens=500)
    assert slow.requests == [4, 4]


def test_a_preparation_that_fails_while_the_compaction_waits_is_ignored():
    """The compaction falls back to its own request, whatever error the thread raised."""
    slow = SlowSummarizer(error=RuntimeError("odd"))
    summarizer = BackgroundSummarizer(slow)
    summarizer.prepare(messages(4))
    threading.Timer(0.05, slow.release.set).start()
    with pytest.raises(RuntimeError):
        summarizer.summarize_span(messages(4), max_tokens=500)
    assert slow.requests == [4, 4]


def test_a_slow_preparation_times_out():
    """After `wait_s` the compaction makes its own request."""
    slow = SlowSummarizer()
    summarizer = BackgroundSummarizer(slow, wait_s=0.01)
    summarizer.prepare(messages(4))
    threading.Timer(0.05, slow.release.set).start()
    assert summarizer.summarize_span(messages(4), max_tokens=500).facts
    assert slow.requests == [4, 4]
