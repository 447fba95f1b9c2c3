"""Get a summary of a span, whatever happens.

Every failure ends in one of three ways, each in the trace: a retry that is milder, a canned summary, or none at
all, and then the span is pruned. A summary is merged with the one before it by code, never by a model.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from compact import events
from compact.engine.effects import Steps
from compact.exceptions import SummarizationError, SummarizerOverflow, SummaryRefused, SummaryTooLong
from compact.messages import SUMMARY_TAG, Message, text_of
from compact.messages.span import SpanReference
from compact.policy import CompactPolicy
from compact.summarizers.reply import is_refusal
from compact.summary.entries import Note
from compact.summary.structured_summary import StructuredSummary

MAX_HALVINGS = 2
CANNED = "Older turns were truncated to fit the context window; their details are not available here."


class SummaryMaker:
    """Calls the summariser and carries its failures."""

    def __init__(
        self,
        summarizer: Any,
        *,
        policy: CompactPolicy,
        count_text: Callable[[str], int],
        check: events.CheckSpan,
    ) -> None:
        self._summarizer = summarizer
        self._policy = policy
        self._count_text = count_text
        self._check = check
        self.name: str = getattr(summarizer, "name", None) or type(summarizer).__name__
        self.model: str | None = getattr(summarizer, "model", None) or None
        self.style = policy.strategy
        """The style that gave the summary in the end."""

    @property
    def is_custom(self) -> bool:
        """Whether it offers only document 000's `summarize`, whose text replaces the summary before it."""
        return not hasattr(self._summarizer, "summarize_span")

    def make(
        self,
        messages: Sequence[Message],
        span: SpanReference,
        *,
        max_tokens: int,
        visible: Sequence[Message],
        previous: str | None,
    ) -> Steps[StructuredSummary | None]:
        """A summary of at most `max_tokens`, or None when the span must be pruned without one."""
        limit, halvings, attempt = max_tokens, 0, 0
        self.style = self._policy.strategy
        while True:
            attempt += 1
            try:
                ask = self._custom if self.is_custom else self._typed
                summary = yield from ask(messages, span, limit, visible, previous)
                self._require_length(summary, limit)
            except SummaryTooLong as error:
                halvings += 1
                if halvings > MAX_HALVINGS:
                    self._give_up(error, attempt)
                    return None
                limit = max(1, limit // 2)
                self._report(error, attempt, f"retry with max_tokens {limit}")
            except SummaryRefused as error:
                if self.style == "brief":
                    self._give_up(error, attempt)
                    return None
                self._report(error, attempt, "retry as brief")
                self.style = "brief"
            except SummarizerOverflow as error:
                self._report(error, attempt, "canned summary")
                return StructuredSummary(span=span, style="brief", facts=(Note(CANNED, span.message_ids),))
            except Exception as error:
                self._give_up(error, attempt)
                return None
            else:
                return summary

    def _typed(
        self,
        messages: Sequence[Message],
        span: SpanReference,
        max_tokens: int,
        visible: Sequence[Message],
        previous: str | None,
    ) -> Steps[StructuredSummary]:
        summary = yield lambda: self._summarizer.summarize_span(
            messages,
            style=self.style,
            keep_keys=self._policy.keep_keys,
            max_tokens=max_tokens,
            visible=visible,
            count_tokens=self._count_text,
        )
        if not isinstance(summary, StructuredSummary):
            raise SummarizationError(f"{self.name} returned a {type(summary).__name__}, not a StructuredSummary")
        return summary

    def _custom(
        self,
        messages: Sequence[Message],
        span: SpanReference,
        max_tokens: int,
        visible: Sequence[Message],
        previous: str | None,
    ) -> Steps[StructuredSummary]:
        told = [Message("assistant", previous, id="previous-summary"), *messages] if previous else list(messages)
        summarize = self._summarizer.summarize
        extra = {"max_tokens": max_tokens} if "max_tokens" in _parameters(summarize) else {}
        reply = yield lambda: summarize(told, self.style, self._policy.keep_keys, **extra)
        text = reply.text if isinstance(reply, Message) else text_of(reply)
        if text.startswith(SUMMARY_TAG):
            text = text.partition("\n")[2] if "\n" in text else text.partition(">")[2]
        if not text.strip():
            raise SummarizationError(f"{self.name} returned an empty summary")
        if is_refusal(text):
            raise SummaryRefused(f"{self.name} declined: {text.strip()[:120]}")
        return StructuredSummary.from_text(text.strip(), span.message_ids)

    def _require_length(self, summary: StructuredSummary, max_tokens: int) -> None:
        tokens = self._count_text(summary.render(version=1))
        # The tag and the version line are ours; a summary is not too long for their sake.
        if tokens > max_tokens + 24:
            raise SummaryTooLong(summary_tokens=tokens, max_tokens=max_tokens)

    def _give_up(self, error: Exception, attempt: int) -> None:
        self._report(error, attempt, "pruning-only")

    def _report(self, error: Exception, attempt: int, fallback: str) -> None:
        self._check.emit(
            events.ErrorEvent.from_exception(error, fallback, attempt=attempt, style=self.style, summarizer=self.name)
        )


def _parameters(function: Any) -> Sequence[str]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()
