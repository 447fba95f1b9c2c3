"""A summary prepared at the soft threshold is there when the hard one comes."""

from __future__ import annotations

import threading

import pytest
from compact.exceptions import SummarizationError
from compact.messages import Message
from compact.summarizers import BackgroundSummarizer
from compact.summary.entries import Note
from compact.summary.structured_summary import StructuredSummary


class SlowSummarizer:
    """Waits until it is released, and remembers what it was asked."""

    name = "slow"
    model = "slow-model"

    def __init__(self, *, error: Exception | None = None) -> None:
        self.asked: list[int] = []
        self.release = threading.Event()
        self._error = error

    def summarize_span(self, messages, *, style, keep_keys, max_tokens, visible=(), count_tokens=None):
        self.asked.append(len(messages))
        assert self.release.wait(10)
        if self._error is not None:
            raise self._error
        return StructuredSummary(facts=(Note(f"the model on {len(messages)} messages"),), style=style)


def messages(count: int) -> list[Message]:
    return [Message("user", f"Never change item_{number}.", id=f"m{number}") for number in range(count)]


@pytest.mark.req("P-TRG-1")
def test_the_agent_goes_on_while_a_summary_is_prepared():
    """`prepare` returns at once; the compaction uses what was prepared and adds what came since by rule."""
    slow = SlowSummarizer()
    summarizer = BackgroundSummarizer(slow)
    assert summarizer.prepare(messages(4), max_tokens=500)
    slow.release.set()
    text = summarizer.summarize_span(messages(6), max_tokens=500).render()
    assert slow.asked == [4]
    assert "the model on 4 messages" in text
    assert "Never change item_5." in text


def test_the_same_span_is_prepared_once():
    """A second soft threshold on the same or a longer history starts nothing new."""
    slow = SlowSummarizer()
    slow.release.set()
    summarizer = BackgroundSummarizer(slow)
    assert summarizer.prepare(messages(4))
    assert not summarizer.prepare(messages(4))
    assert not summarizer.prepare(messages(5))
    summarizer.summarize_span(messages(4), max_tokens=500)
    assert slow.asked == [4]


def test_without_a_prepared_summary_the_slow_one_is_asked():
    """Another history, or another style, is not what was prepared."""
    slow = SlowSummarizer()
    slow.release.set()
    summarizer = BackgroundSummarizer(slow)
    summarizer.prepare(messages(4))
    summarizer.summarize_span([Message("user", "other", id="x")], max_tokens=500)
    summarizer.summarize_span(messages(4), style="brief", max_tokens=500)
    assert sorted(slow.asked) == [1, 4, 4]


def test_a_failed_preparation_is_as_if_there_had_been_none():
    """The compaction asks itself, and its own failure is the one that is reported."""
    slow = SlowSummarizer(error=SummarizationError("no"))
    slow.release.set()
    summarizer = BackgroundSummarizer(slow)
    summarizer.prepare(messages(4))
    with pytest.raises(SummarizationError):
        summarizer.summarize_span(messages(4), max_tokens=500)
    assert slow.asked == [4, 4]


def test_a_preparation_that_fails_while_it_is_waited_for_is_no_failure_of_the_compaction():
    """Whatever the thread met, the compaction asks for itself."""
    slow = SlowSummarizer(error=RuntimeError("odd"))
    summarizer = BackgroundSummarizer(slow)
    summarizer.prepare(messages(4))
    threading.Timer(0.05, slow.release.set).start()
    with pytest.raises(RuntimeError):
        summarizer.summarize_span(messages(4), max_tokens=500)
    assert slow.asked == [4, 4]


def test_a_preparation_that_takes_too_long_is_not_waited_for():
    """After `wait_s` the compaction goes its own way."""
    slow = SlowSummarizer()
    summarizer = BackgroundSummarizer(slow, wait_s=0.01)
    summarizer.prepare(messages(4))
    threading.Timer(0.05, slow.release.set).start()
    assert summarizer.summarize_span(messages(4), max_tokens=500).facts
    assert slow.asked == [4, 4]
