"""Count the tokens of a request with the caller's estimator.

An estimator that can count single messages is called once per message. One that can only estimate whole
conversations gives the total, and the built-in estimator gives the shares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from compact.estimators import TiktokenEstimator
from compact.estimators.encodings import encoding_name, load_counter
from compact.estimators.request_counter import REPLY_TOKENS, RequestCounter, schema_text
from compact.messages import Message

_MAX_CACHED_TOOL_LISTS = 64


class TokenCounter:
    """Counts tokens for one model."""

    def __init__(self, estimator: Any, model: str) -> None:
        self.model = model
        is_custom = estimator is not None and not hasattr(estimator, "count_message")
        self._conversation_estimator = estimator if is_custom else None
        self._counter: Any = TiktokenEstimator() if estimator is None or is_custom else estimator
        self.name: str = getattr(estimator, "name", None) or (
            type(estimator).__name__ if estimator is not None else "tiktoken"
        )
        if isinstance(self._counter, TiktokenEstimator):
            # Here, and not in a background thread: loading holds the GIL, so it would stall an event loop later.
            load_counter(encoding_name(model))
        self._tool_tokens: dict[int, tuple[list[str], int]] = {}

    def count_message(self, message: Message) -> int:
        """Return the tokens of one message, with its framing."""
        return int(self._counter.count_message(message, self.model))

    def count_messages(self, messages: Iterable[Message]) -> int:
        """Return the tokens of several messages."""
        return sum(int(self._counter.count_message(message, self.model)) for message in messages)

    def count_text(self, text: str) -> int:
        """Return the tokens of a text."""
        return int(self._counter.count_tokens(text, self.model))

    def count_text_by_line(self, text: str) -> int:
        """Return the tokens of a text that is written and counted line by line. Its known lines are cached."""
        if type(self._counter) is TiktokenEstimator:
            return self._counter.count_by_line(text, self.model)
        return self.count_text(text)

    def count_tools(self, tools: Sequence[Any] | None) -> int:
        """Return the tokens of tool schemas. A list is counted again only if its schemas change."""
        if not tools:
            return 0
        texts = [schema_text(tool) for tool in tools]
        cached = self._tool_tokens.get(id(tools))
        if cached is not None and cached[0] == texts:
            return cached[1]
        if isinstance(self._counter, RequestCounter) or hasattr(self._counter, "count_tool_schemas"):
            tokens = int(self._counter.count_tool_schemas(tools, self.model))
        else:
            tokens = sum(self.count_text(text) for text in texts)
        if len(self._tool_tokens) > _MAX_CACHED_TOOL_LISTS:
            self._tool_tokens.clear()
        self._tool_tokens[id(tools)] = (texts, tokens)
        return tokens

    def reply_overhead(self, messages: Sequence[Message]) -> int:
        """Return the tokens that prime the reply."""
        return REPLY_TOKENS if messages else 0

    def count_conversation(self, messages: Sequence[Message], own_tokens: int) -> int:
        """Return the tokens of all messages: the caller's estimate, or `own_tokens` if there is none."""
        if self._conversation_estimator is None:
            return own_tokens
        return int(self._conversation_estimator.estimate(list(messages), self.model))


class PlanTextCounter:
    """Counts texts of a plan as the prompt shows them, with the values of their placeholders."""

    def __init__(self, counter: TokenCounter, restore: Callable[[str], str]) -> None:
        self._counter = counter
        self._restore = restore

    def text(self, text: str) -> int:
        """Return the tokens of a part of a summary."""
        return self._counter.count_text_by_line(self._restore(text))

    def message(self, text: str) -> int:
        """Return the tokens of an assistant message with this text."""
        return self._counter.count_message(Message("assistant", self._restore(text)))
