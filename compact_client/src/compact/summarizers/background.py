"""Prepare a summary while the agent works, so that the compaction which needs it does not wait for a model.

A prepared summary covers the oldest messages as they stood; what came since is added by rule. A failed preparation
costs nothing: the span is then summarised as if none had been tried.
"""

from __future__ import annotations

import contextvars
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import Any, Final

from compact.messages import Message
from compact.summarizers.cache import entry_bytes, policy_version
from compact.summarizers.extraction.selection import estimate_tokens, fit
from compact.summarizers.extractive import DEFAULT_MAX_TOKENS, ExtractiveSummarizer
from compact.summary.structured_summary import StructuredSummary

_MAX_PREPARED: Final = 64  # sessions of one process that may have a summary in the making


class BackgroundSummarizer:
    """A summariser in front of a slow one: `prepare` at the soft threshold, `summarize_span` at the hard one."""

    def __init__(self, inner: Any, *, wait_s: float = 30.0) -> None:
        self._inner = inner
        self._wait_s = wait_s
        self._extractive = ExtractiveSummarizer()
        self._prepared: OrderedDict[str, tuple[int, Future[StructuredSummary]]] = OrderedDict()
        self._lock = threading.Lock()
        self.name = f"background {getattr(inner, 'name', type(inner).__name__)}"
        self.model = getattr(inner, "model", None)

    def prepare(
        self,
        messages: Sequence[Message],
        *,
        style: str = "task_state",
        keep_keys: Sequence[str] = (),
        max_tokens: int = DEFAULT_MAX_TOKENS,
        count_tokens: Callable[[str], int] | None = None,
    ) -> bool:
        """Begin a summary of these messages on a thread of its own; False if one is already there or under way."""
        settings = _settings(style, keep_keys)
        with self._lock:
            if self._longest_prefix(messages, settings) is not None:
                return False
            future: Future[StructuredSummary] = Future()
            (name,) = _names(messages, settings, {len(messages)}).values()
            self._prepared[name] = (len(messages), future)
            while len(self._prepared) > _MAX_PREPARED:
                self._prepared.popitem(last=False)
        span = list(messages)

        def work() -> None:
            try:
                summary = self._inner.summarize_span(
                    span, style=style, keep_keys=keep_keys, max_tokens=max_tokens, count_tokens=count_tokens
                )
            except Exception as error:  # whatever it was, the compaction itself will try again and report it
                future.set_exception(error)
            else:
                future.set_result(summary)

        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(work,), name="compact-prepare", daemon=True).start()
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
        """The prepared summary and, by rule, what came since; without one, the slow summariser's own."""
        options: dict[str, Any] = {"style": style, "keep_keys": keep_keys, "count_tokens": count_tokens}
        with self._lock:
            found = self._longest_prefix(messages, _settings(style, keep_keys))
        prepared = self._result(found[1]) if found else None
        if found is None or prepared is None:
            result: StructuredSummary = self._inner.summarize_span(
                messages, max_tokens=max_tokens, visible=visible, **options
            )
            return result
        count = count_tokens or estimate_tokens
        rest = messages[found[0] :]
        if rest:
            seen = [*visible, Message("assistant", prepared.render_as_message())]
            newer = self._extractive.summarize_span(rest, max_tokens=max_tokens // 2, visible=seen, **options)
            prepared = prepared.merge(newer)
        return fit(prepared, max_tokens=max_tokens, visible=visible, count_tokens=count, keep_keys=keep_keys)

    def _result(self, future: Future[StructuredSummary]) -> StructuredSummary | None:
        try:
            return future.result(timeout=self._wait_s)
        except Exception:  # too slow, or failed: the compaction asks for itself and reports what it meets
            return None

    def _longest_prefix(
        self, messages: Sequence[Message], settings: str
    ) -> tuple[int, Future[StructuredSummary]] | None:
        names = _names(messages, settings, {length for length, _ in self._prepared.values()})
        for name in reversed(names.values()):
            found = self._prepared.get(name)
            if found is not None and not (found[1].done() and found[1].exception()):
                return found
        return None


def _settings(style: str, keep_keys: Sequence[str]) -> str:
    return policy_version(style=style, keep_keys=sorted(keep_keys))


def _names(messages: Sequence[Message], settings: str, lengths: Collection[int]) -> dict[int, str]:
    """The name of the first so many messages, for each of the lengths they reach, shortest first, in one pass."""
    digest = hashlib.sha256(settings.encode())
    names = {0: digest.hexdigest()} if 0 in lengths else {}
    for length, message in enumerate(messages[: max(lengths, default=0)], start=1):
        digest.update(entry_bytes(message))
        if length in lengths:
            names[length] = digest.hexdigest()
    return names
