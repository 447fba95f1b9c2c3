"""Counts a request with whatever estimator the caller gave.

An estimator that can count one message is asked once for each; one that only knows whole conversations gives the
total, and our own counts give the shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compact.estimators import TiktokenEstimator
from compact.estimators.request_counter import REPLY_TOKENS, RequestCounter, schema_text
from compact.estimators.tiktoken import preload_encoding
from compact.messages import Message


class Counting:
    """One model's counts."""

    def __init__(self, estimator: Any, model: str) -> None:
        self.model = model
        self._custom = estimator if estimator is not None and not hasattr(estimator, "count_message") else None
        self._counter: Any = TiktokenEstimator() if estimator is None or self._custom is not None else estimator
        self.name: str = getattr(estimator, "name", None) or (
            type(estimator).__name__ if estimator is not None else "tiktoken"
        )
        if isinstance(self._counter, TiktokenEstimator):
            preload_encoding(model)
        self._tools: dict[int, tuple[Any, int]] = {}

    def message(self, message: Message) -> int:
        return int(self._counter.count_message(message, self.model))

    def text(self, text: str) -> int:
        return int(self._counter.count_tokens(text, self.model))

    def draft(self, text: str) -> int:
        """The same as `text`, for one that is written step by step and counted at every step."""
        if type(self._counter) is TiktokenEstimator:
            return self._counter.count_by_line(text, self.model)
        return self.text(text)

    def tools(self, tools: Sequence[Any] | None) -> int:
        """The schemas' tokens; the same list object is counted once while its schemas are the same."""
        if not tools:
            return 0
        texts = [schema_text(tool) for tool in tools]
        known = self._tools.get(id(tools))
        if known is not None and known[0] == texts:
            return known[1]
        if isinstance(self._counter, RequestCounter) or hasattr(self._counter, "count_tool_schemas"):
            tokens = int(self._counter.count_tool_schemas(tools, self.model))
        else:
            tokens = sum(self.text(text) for text in texts)
        if len(self._tools) > 64:
            self._tools.clear()
        self._tools[id(tools)] = (texts, tokens)
        return tokens

    def overhead(self, messages: Sequence[Message]) -> int:
        return REPLY_TOKENS if messages else 0

    def conversation(self, messages: Sequence[Message], own_tokens: int) -> int:
        """The tokens of all messages: ours, or what the caller's estimator says."""
        if self._custom is None:
            return own_tokens
        return int(self._custom.estimate(list(messages), self.model))
