"""Prepare a summary in the background, so that a compaction does not have to wait for a model.

A prepared summary covers the oldest messages at the time it was started. Newer messages are added by rule. If the
preparation fails, the span is summarized as if there had been none.
"""

from __future__ import annotations

import contextvars
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from compact.messages import Message
from compact.reading.tokens import estimate_tokens
from compact.summarizers.cache import message_bytes, policy_version
from compact.summarizers.extraction.summary_builder import fit
from compact.summarizers.extractive import DEFAULT_MAX_TOKENS, ExtractiveSummarizer
from compact.summary.structured_summary import StructuredSummary

_MAX_PREPARED: Final = 64  # summaries per process, one for each active session


class _PreparedSummary(NamedTuple):
    message_count: int
    future: Future[StructuredSummary]

    @property
    def has_failed(self) -> bool:
        return self.future.done() and self.future.exception() is not None


class BackgroundSummarizer:
    """Wraps a slow summarizer: call `prepare` at the soft threshold and `summarize_span` at the hard one."""

    def __init__(self, inner: Any, *, wait_s: float = 30.0) -> None:
        self._inner = inner
        self._wait_s = wait_s
        self._extractive = ExtractiveSummarizer()
        self._prepared: OrderedDict[str, _PreparedSummary] = OrderedDict()
        self._lock = threading.Lock()
        self.name = f"background {getattr(inner, 'name', type(inner).__name__)}"
        self.model = getattr(inner, "model", None)

    def assume_window(self, model: str, window_tokens: int | None) -> None:
        """Tell the wrapped summarizer the agent's window."""
        if hasattr(self._inner, "assume_window"):
            self._inner.assume_window(model, window_tokens)

    def prepare(
        self,
        messages: Sequence[Message],
        *,
        style: str = "task_state",
        keep_keys: Sequence[str] = (),
        max_tokens: int = DEFAULT_MAX_TOKENS,
        count_tokens: Callable[[str], int] | None = None,
    ) -> bool:
        """Start a summary of the messages in a thread. Return False if one is already prepared or running."""
        settings = _settings_version(style, keep_keys)
        with self._lock:
            if self._find_longest(messages, settings) is not None:
                return False
            future: Future[StructuredSummary] = Future()
            (digest,) = _prefix_digests(messages, settings, {len(messages)}).values()
            self._prepared[digest] = _PreparedSummary(len(messages), future)
            while len(self._prepared) > _MAX_PREPARED:
                self._prepared.popitem(last=False)
        span = list(messages)

        def run() -> None:
            try:
                summary = self._inner.summarize_span(
                    span, style=style, keep_keys=keep_keys, max_tokens=max_tokens, count_tokens=count_tokens
                )
            except Exception as error:  # The compaction retries and reports any error itself.
                future.set_exception(error)
            else:
                future.set_result(summary)

        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(run,), name="compact-prepare", daemon=True).start()
        return True

    def summarize_span(
        self,
        messages: Sequence[Message],
        *,
        style: str = "task_state",
        keep_keys: Sequence[str] = (),
        max_tokens: int = DEFAULT_MAX_TOKENS,
        visible: Sequence[Message] = (),
        count_tokens: Callable[[str], int] | None = None,
    ) -> StructuredSummary:
        """Return the prepared summary extended by newer messages, or else the wrapped summarizer's summary."""
        options: dict[str, Any] = {"style": style, "keep_keys": keep_keys, "count_tokens": count_tokens}
        with self._lock:
            prepared = self._find_longest(messages, _settings_version(style, keep_keys))
        summary = self._wait(prepared.future) if prepared else None
        if prepared is None or summary is None:
            result: StructuredSummary = self._inner.summarize_span(
                messages, max_tokens=max_tokens, visible=visible, **options
            )
            return result
        if newer_messages := messages[prepared.message_count :]:
            known = [*visible, Message("assistant", summary.render_as_message())]
            newer = self._extractive.summarize_span(
                newer_messages, max_tokens=max_tokens // 2, visible=known, **options
            )
            summary = summary.merge(newer)
        count = count_tokens or estimate_tokens
        return fit(summary, max_tokens=max_tokens, visible=visible, count_tokens=count, keep_keys=keep_keys)

    def _wait(self, future: Future[StructuredSummary]) -> StructuredSummary | None:
        try:
            return future.result(timeout=self._wait_s)
        except Exception:  # It failed or timed out. The compaction makes its own request and reports its errors.
            return None

    def _find_longest(self, messages: Sequence[Message], settings: str) -> _PreparedSummary | None:
        """Return the prepared summary that covers the longest prefix of the messages."""
        lengths = {prepared.message_count for prepared in self._prepared.values()}
        for digest in reversed(_prefix_digests(messages, settings, lengths).values()):
            prepared = self._prepared.get(digest)
            if prepared is not None and not prepared.has_failed:
                return prepared
        return None


def _settings_version(style: str, keep_keys: Sequence[str]) -> str:
    return policy_version(style=style, keep_keys=sorted(keep_keys))


def _prefix_digests(messages: Sequence[Message], settings: str, lengths: Collection[int]) -> dict[int, str]:
    """Return the digest of the first n messages for each n in `lengths`, shortest first, in one pass."""
    digest = hashlib.sha256(settings.encode())
    digests = {0: digest.hexdigest()} if 0 in lengths else {}
    for length, message in enumerate(messages[: max(lengths, default=0)], start=1):
        digest.update(message_bytes(message))
        if length in lengths:
            digests[length] = digest.hexdigest()
    return digests
