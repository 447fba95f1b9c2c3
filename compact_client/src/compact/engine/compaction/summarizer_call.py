"""Call the summarizer for one span and handle its failures.

A failure has one of four outcomes, and each is an event: a milder retry, the built-in summarizer, a canned summary, or
no summary, in which case the span is dropped.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from compact import events
from compact.engine.effects import Steps
from compact.exceptions import SummarizationError, SummarizerOverflow, SummaryRefused, SummaryTooLong
from compact.messages import SUMMARY_TAG, Message, RedactedMessage, text_of
from compact.messages.span import SpanReference
from compact.policy import CompactPolicy
from compact.reading.refusals import is_refusal
from compact.redaction.view import RedactionView
from compact.summary.entries import Note
from compact.summary.structured_summary import StructuredSummary

MAX_HALVINGS = 2
CANNED_SUMMARY = "Older turns were truncated to fit the context window; their details are not available here."
# The tag and the version line are added by this library, so they do not make a summary too long.
_FRAME_TOKENS = 24


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """A span to summarize, and the prompt around it."""

    messages: Sequence[RedactedMessage]
    span: SpanReference
    visible: Sequence[RedactedMessage]
    """Messages that stay in the prompt, so the summary need not repeat them."""
    previous: RedactedMessage | None
    """The current summary, for summarizers that rewrite it."""
    previous_summary: StructuredSummary | None = None
    """The same with its entries, for summarizers that continue it."""


class SummarizerCall:
    """Asks the configured summarizer for the summary of one span."""

    def __init__(
        self,
        summarizer: Any,
        *,
        policy: CompactPolicy,
        count_text: Callable[[str], int],
        check: events.CheckSpan,
        redaction: RedactionView,
        fallback: Any = None,
    ) -> None:
        self._summarizer = summarizer
        self._policy = policy
        self._count_text = count_text
        self._check = check
        self._redaction = redaction
        self._fallback = fallback
        """The summarizer that steps in after a failure, None to drop the span without a summary."""
        self.name: str = getattr(summarizer, "name", None) or type(summarizer).__name__
        self.model: str | None = getattr(summarizer, "model", None) or None
        self.style = policy.strategy
        """The style of the last attempt."""
        self.is_custom = not hasattr(summarizer, "summarize_span")
        """True if it only implements the public `summarize`, whose text replaces the previous summary."""
        self.continues_summary: bool = getattr(summarizer, "continues_summary", False)
        """True if its summary contains the previous one."""

    def summarize(self, request: SummaryRequest, *, max_tokens: int) -> Steps[StructuredSummary | None]:
        """Return a summary of at most `max_tokens`, or None if the span must be dropped without one."""
        limit, halvings, attempt = max_tokens, 0, 0
        ask = self._ask_custom if self.is_custom else self._ask_typed
        while True:
            attempt += 1
            try:
                summary = yield from ask(request, limit)
                summary = self._protect(summary)
                self._require_length(summary, limit)
                return summary
            except SummaryTooLong as error:
                halvings += 1
                if halvings > MAX_HALVINGS:
                    return (yield from self._fall_back(request, max_tokens, error, attempt))
                limit = max(1, limit // 2)
                self._report(error, attempt, f"retry with max_tokens {limit}")
            except SummaryRefused as error:
                if self.style == "brief":
                    return (yield from self._fall_back(request, max_tokens, error, attempt))
                self._report(error, attempt, events.RETRIED_AS_BRIEF)
                self.style = "brief"
            except SummarizerOverflow as error:
                if self._fallback is not None:
                    return (yield from self._fall_back(request, max_tokens, error, attempt))
                self._report(error, attempt, "canned summary")
                self.continues_summary = False
                note = Note(CANNED_SUMMARY, request.span.message_ids)
                return StructuredSummary(span=request.span, style="brief", facts=(note,))
            except Exception as error:
                return (yield from self._fall_back(request, max_tokens, error, attempt))

    def _fall_back(
        self, request: SummaryRequest, max_tokens: int, error: Exception, attempt: int
    ) -> Steps[StructuredSummary | None]:
        """Let the fallback write the summary. Return None if there is none, or if it fails, too."""
        if self._fallback is None:
            self._report(error, attempt, events.PRUNING_ONLY)
            return None
        self._report(error, attempt, "builtin")
        self._summarizer, self._fallback = self._fallback, None
        self.name, self.model, self.style = self._summarizer.name, None, self._policy.strategy
        self.is_custom, self.continues_summary = False, True
        try:
            summary = yield from self._ask_typed(request, max_tokens)
        except Exception as second:
            self._report(second, attempt + 1, events.PRUNING_ONLY)
            return None
        return self._protect(summary)

    def _ask_typed(self, request: SummaryRequest, max_tokens: int) -> Steps[StructuredSummary]:
        options = {"previous": request.previous_summary} if self.continues_summary else {}
        summary = yield lambda: self._summarizer.summarize_span(
            request.messages,
            **options,
            style=self.style,
            keep_keys=self._policy.keep_keys,
            max_tokens=max_tokens,
            visible=request.visible,
            count_tokens=self._count_text,
        )
        if not isinstance(summary, StructuredSummary):
            raise SummarizationError(f"{self.name} returned a {type(summary).__name__}, not a StructuredSummary")
        return summary

    def _ask_custom(self, request: SummaryRequest, max_tokens: int) -> Steps[StructuredSummary]:
        messages = list(request.messages)
        if request.previous is not None:
            messages.insert(0, request.previous)
        summarize = self._summarizer.summarize
        options = {"max_tokens": max_tokens} if "max_tokens" in _parameter_names(summarize) else {}
        reply = yield lambda: summarize(messages, self.style, self._policy.keep_keys, **options)
        text = reply.text if isinstance(reply, Message) else text_of(reply)
        if text.startswith(SUMMARY_TAG):
            text = text.partition("\n")[2] if "\n" in text else text.partition(">")[2]
        if not text.strip():
            raise SummarizationError(f"{self.name} returned an empty summary")
        if is_refusal(text):
            raise SummaryRefused(f"{self.name} declined: {text.strip()[:120]}")
        return StructuredSummary.from_text(text.strip(), request.span.message_ids)

    def _protect(self, summary: StructuredSummary) -> StructuredSummary:
        """Replace secrets that the summarizer did not get from the redacted messages."""
        contents = summary.contents()
        if self._redaction.protect(contents) is contents:
            return summary
        data = summary.to_dict()
        protected = self._redaction.protect(data)
        return summary if protected is data else StructuredSummary.from_dict(protected)

    def fits(self, summary: StructuredSummary, max_tokens: int) -> bool:
        """True if a summary has at most `max_tokens` beside its frame."""
        return self._length(summary) <= max_tokens + _FRAME_TOKENS

    def _require_length(self, summary: StructuredSummary, max_tokens: int) -> None:
        tokens = self._length(summary)
        if tokens > max_tokens + _FRAME_TOKENS:
            raise SummaryTooLong(summary_tokens=tokens, max_tokens=max_tokens)

    def _length(self, summary: StructuredSummary) -> int:
        return self._count_text(summary.render(version=1))

    def _report(self, error: Exception, attempt: int, fallback: str) -> None:
        self._check.emit(
            events.ErrorEvent.from_exception(error, fallback, attempt=attempt, style=self.style, summarizer=self.name)
        )


def _parameter_names(function: Any) -> Sequence[str]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()
