"""Summarize with a model behind any OpenAI-compatible endpoint, and validate its reply.

Requests use seed 42 and temperature 0, but no provider guarantees identical replies. Only the cache makes summaries
reproducible. Constraints, ids and paths do not depend on the model, because verbatim lines fill the remaining space.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from compact.exceptions import ConfigError, SummarizationError, SummaryTooLong
from compact.messages import Message, RedactedMessage
from compact.reading.tokens import CountTokens, estimate_tokens
from compact.redaction.view import RedactionView, redact_conversation
from compact.summarizers.cache import MemorySummaryCache, SummaryCache, SummaryCacheKey, policy_version
from compact.summarizers.endpoint import completion_body, request_completion
from compact.summarizers.extraction.summary_builder import fit, rendered_tokens
from compact.summarizers.extractive import DEFAULT_MAX_TOKENS, ExtractiveSummarizer
from compact.summarizers.prompt import build_prompt, prompt_version, repair_prompt
from compact.summarizers.reply import UnstructuredReply, read_prose, read_reply
from compact.summary.structured_summary import StructuredSummary

DEFAULT_BASE_URL: Final = "https://api.openai.com/v1"
DEFAULT_WINDOW_TOKENS: Final = 128_000
_MODEL_SHARE: Final = 0.5  # of the summary's tokens. Verbatim lines get the rest.
_MIN_REPLY_TOKENS: Final = 256  # A JSON reply needs about this much to be complete.


@dataclass(frozen=True, slots=True)
class _SpanRequest:
    """The arguments of one `summarize_span` call."""

    messages: Sequence[RedactedMessage]
    style: str
    keep_keys: Sequence[str]
    max_tokens: int
    visible: Sequence[Message]
    count_tokens: CountTokens
    view: RedactionView | None
    """The values of the placeholders, if the caller passed messages of its own."""

    @classmethod
    def of(
        cls,
        messages: Sequence[Message],
        style: str,
        keep_keys: Sequence[str],
        max_tokens: int,
        visible: Sequence[Message],
        count_tokens: CountTokens | None,
    ) -> _SpanRequest:
        """Return a request with redacted messages."""
        redacted, view = redact_conversation(messages)
        return cls(redacted, style, keep_keys, max_tokens, visible, count_tokens or estimate_tokens, view)

    @property
    def reply_tokens(self) -> int:
        return max(_MIN_REPLY_TOKENS, int(self.max_tokens * _MODEL_SHARE))


class ModelSummarizer:
    """Asks a model for the meaning and keeps facts by rule.

    `summarize_span` blocks and `asummarize_span` awaits, both for at most `timeout_s` including retries. Errors are
    raised as `SummarizationError` or one of its subclasses, never as httpx errors. The endpoint only receives redacted
    text, whatever its address is.
    """

    name = "model"

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        window_tokens: int | None = None,
        timeout_s: float = 60.0,
        seed: int = 42,
        temperature: float = 0.0,
        cache: SummaryCache | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        if not model:
            raise ConfigError("summarizer.model", "must name a model")
        self.model = model
        self._url = (
            f"{(base_url or os.environ.get('OPENAI_BASE_URL') or DEFAULT_BASE_URL).rstrip('/')}/chat/completions"
        )
        # Loading certificates takes longer than a loopback request, and plain HTTP does not need them.
        self._is_https = self._url.startswith("https:")
        self._headers = {"content-type": "application/json", **(headers or {})}
        if key := api_key if api_key is not None else os.environ.get("OPENAI_API_KEY", ""):
            self._headers["authorization"] = f"Bearer {key}"
        self._window_tokens = window_tokens or DEFAULT_WINDOW_TOKENS
        self._is_window_known = window_tokens is not None
        self._timeout_s = timeout_s
        self._seed = seed
        self._temperature = temperature
        self._cache = cache if cache is not None else MemorySummaryCache()
        self._extractive = ExtractiveSummarizer()

    @classmethod
    def cheapest(cls, *, model: str, summarizer_model: str | None = None, **options: Any) -> ModelSummarizer:
        """Create a summarizer with its own, cheaper model if one is given, or else with the agent's model."""
        return cls(summarizer_model or model, **options)

    def assume_window(self, model: str, window_tokens: int | None) -> None:
        """Use the agent's window if this summarizer has the agent's model and was created without a window."""
        if not self._is_window_known and window_tokens is not None and model == self.model:
            self._window_tokens = window_tokens

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
        """Return the model's validated summary, extended with verbatim lines."""
        request = _SpanRequest.of(messages, style, keep_keys, max_tokens, visible, count_tokens)
        reply = self._find_reply(request) or self._store_reply(request, _run_in_thread(self._ask(request)))
        return self._finish(reply, request)

    async def asummarize_span(
        self,
        messages: Sequence[Message],
        *,
        style: str = "task_state",
        keep_keys: Sequence[str] = (),
        max_tokens: int = DEFAULT_MAX_TOKENS,
        visible: Sequence[Message] = (),
        count_tokens: Callable[[str], int] | None = None,
    ) -> StructuredSummary:
        """Async version of `summarize_span`."""
        request = _SpanRequest.of(messages, style, keep_keys, max_tokens, visible, count_tokens)
        reply = self._find_reply(request) or self._store_reply(request, await self._ask(request))
        return self._finish(reply, request)

    def summarize(self, messages: Sequence[Message], style: str, keep_keys: Sequence[str]) -> Message:
        """Return the summary as one assistant message (the `Summarizer` protocol)."""
        return Message("assistant", self.summarize_span(messages, style=style, keep_keys=keep_keys).render(version=1))

    def _find_reply(self, request: _SpanRequest) -> StructuredSummary | None:
        return self._cache.get(self._cache_key(request))

    def _store_reply(self, request: _SpanRequest, reply: StructuredSummary) -> StructuredSummary:
        self._cache.put(self._cache_key(request), reply)
        return reply

    def _finish(self, reply: StructuredSummary, request: _SpanRequest) -> StructuredSummary:
        """Add verbatim lines to a reply, and put the values back for which it has placeholders."""
        return _restore(self._add_verbatim_lines(reply, request), request.view)

    def _cache_key(self, request: _SpanRequest) -> SummaryCacheKey:
        settings = policy_version(
            style=request.style,
            keep_keys=sorted(request.keep_keys),
            max_tokens=request.max_tokens,
            window_tokens=self._window_tokens,
            seed=self._seed,
            temperature=self._temperature,
        )
        return SummaryCacheKey.of(
            request.messages,
            policy_version=settings,
            model_id=self.model,
            prompt_version=prompt_version(request.style),
        )

    async def _ask(self, request: _SpanRequest) -> StructuredSummary:
        prompt = build_prompt(
            request.messages,
            style=request.style,
            keep_keys=request.keep_keys,
            max_tokens=request.reply_tokens,
            window_tokens=self._window_tokens,
            count_tokens=request.count_tokens,
            facts=self._ledger_lines(request),
        )
        deadline_s = asyncio.get_running_loop().time() + self._timeout_s
        text = await self._complete(prompt, request.reply_tokens, deadline_s)
        try:
            summary = read_reply(text, request.messages, style=request.style)
        except UnstructuredReply:
            summary = await self._repair(text, request, deadline_s)
        tokens = rendered_tokens(summary, request.count_tokens)
        if tokens > request.max_tokens:
            raise SummaryTooLong(summary_tokens=tokens, max_tokens=request.max_tokens)
        return summary

    async def _repair(self, text: str, request: _SpanRequest, deadline_s: float) -> StructuredSummary:
        """Ask once for the same summary in the right format. If that fails, the plain text is the summary."""
        try:
            again = await self._complete(repair_prompt(text), request.reply_tokens, deadline_s)
            return read_reply(again, request.messages, style=request.style)
        except SummarizationError:
            return read_prose(text, request.messages, style=request.style)

    def _ledger_lines(self, request: _SpanRequest) -> list[str]:
        """Return the lines of the built-in summary, which the model gets as facts."""
        ledger = self._extractive.summarize_span(
            request.messages,
            style=request.style,
            keep_keys=request.keep_keys,
            max_tokens=request.max_tokens,
            count_tokens=request.count_tokens,
        )
        return [line for line in ledger.render_as_message().splitlines()[1:] if line.strip()]

    async def _complete(self, prompt: list[dict[str, str]], max_tokens: int, deadline_s: float) -> str:
        import httpx

        body = completion_body(
            self.model, prompt, seed=self._seed, temperature=self._temperature, max_tokens=max_tokens
        )
        try:
            # One deadline for everything. httpx only limits each read, so a response that trickles in never times out.
            async with (
                asyncio.timeout_at(deadline_s),
                httpx.AsyncClient(timeout=None, verify=self._is_https) as client,  # noqa: S113 - see the deadline above
            ):
                return await request_completion(client, self._url, body, headers=self._headers, max_tokens=max_tokens)
        except TimeoutError as error:
            raise SummarizationError(f"{self._url} did not respond within {self._timeout_s:g} s.") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise SummarizationError(f"The request to {self._url} failed: {type(error).__name__}: {error}") from error

    def _add_verbatim_lines(self, reply: StructuredSummary, request: _SpanRequest) -> StructuredSummary:
        """Add verbatim lines for facts that the reply does not mention. The reply wins where both have an entry."""
        text = reply.render_as_message()
        lines = self._extractive.summarize_span(
            request.messages,
            style=request.style,
            keep_keys=request.keep_keys,
            max_tokens=max(0, request.max_tokens - request.count_tokens(text)),
            visible=[*request.visible, Message("assistant", text)],
            count_tokens=request.count_tokens,
        )
        return fit(
            lines.merge(reply),
            max_tokens=request.max_tokens,
            visible=request.visible,
            count_tokens=request.count_tokens,
            keep_keys=request.keep_keys,
        )


def _restore(summary: StructuredSummary, view: RedactionView | None) -> StructuredSummary:
    """Put the values back into the summary of a caller that passed messages of its own."""
    if view is None or not view.has_values:
        return summary
    return StructuredSummary.from_dict(view.restore_tree(summary.to_dict()))


def _run_in_thread(request: Coroutine[Any, Any, StructuredSummary]) -> StructuredSummary:
    """Run a coroutine in an event loop of its own.

    Only an event loop can interrupt a read at the deadline, and the calling thread may already run one. The thread is a
    daemon, so that neither Ctrl-C nor interpreter shutdown waits for the model.
    """
    future: Future[StructuredSummary] = Future()

    def run() -> None:
        try:
            future.set_result(asyncio.run(request))
        except BaseException as error:  # re-raised by `future.result()`
            future.set_exception(error)

    threading.Thread(target=run, name="compact-summarizer", daemon=True).start()
    return future.result()
