"""The summariser that asks a model, over any OpenAI-compatible endpoint, and checks what it says.

Seed 42 and temperature 0 are sent, but no provider promises the same bytes twice: the cache does. Rules, ids and
paths do not depend on the model's care, because verbatim lines fill what room its answer leaves.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from compact.exceptions import ConfigError, SummarizationError, SummaryTooLong
from compact.messages import Message
from compact.summarizers.cache import MemorySummaryCache, SummaryCache, SummaryCacheKey, policy_version
from compact.summarizers.endpoint import Post, Steps, Wait, ask, body_for
from compact.summarizers.extraction.selection import estimate_tokens, fit
from compact.summarizers.extractive import DEFAULT_MAX_TOKENS, ExtractiveSummarizer
from compact.summarizers.prompt import build_prompt, prompt_version
from compact.summarizers.reply import read_reply
from compact.summary.structured_summary import StructuredSummary

DEFAULT_BASE_URL: Final = "https://api.openai.com/v1"
_MODEL_SHARE: Final = 0.5  # of the summary's tokens; verbatim lines take the rest
_SMALLEST_REPLY: Final = 256  # below this a JSON answer cannot close its brackets


class ModelSummarizer:
    """Asks a model for the meaning, and keeps the facts by rule.

    `summarize_span` blocks, `asummarize_span` awaits, both for at most `timeout_s` with all their retries. Raises
    `SummarizationError` or one of its kinds, never httpx's.
    """

    name = "model"

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        window_tokens: int = 128_000,
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
        self._api_key = api_key if api_key is not None else os.environ.get("OPENAI_API_KEY", "")
        # Loading certificates takes longer than a loopback answer; without TLS there is nothing to verify.
        self._is_https = self._url.startswith("https:")
        self._window_tokens = window_tokens
        self._timeout_s = timeout_s
        self._seed = seed
        self._temperature = temperature
        self._cache = cache if cache is not None else MemorySummaryCache()
        self._headers = dict(headers or {})
        self._extractive = ExtractiveSummarizer()

    @classmethod
    def cheapest(cls, *, model: str, summarizer_model: str | None = None, **options: Any) -> ModelSummarizer:
        """The summariser's own, cheaper model if one is given, else the agent's."""
        return cls(summarizer_model or model, **options)

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
        """The model's summary, checked, with verbatim lines in the room it leaves."""
        count = count_tokens or estimate_tokens
        key, steps = self._prepared(messages, style, keep_keys, max_tokens, count)
        said = self._cache.get(key)
        if said is None:
            said = self._accepted(self._drive(steps), messages, style, max_tokens, count)
            self._cache.put(key, said)
        return self._completed(said, messages, style, keep_keys, max_tokens, visible, count)

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
        """`summarize_span` for async callers."""
        count = count_tokens or estimate_tokens
        key, steps = self._prepared(messages, style, keep_keys, max_tokens, count)
        said = self._cache.get(key)
        if said is None:
            said = self._accepted(await self._adrive(steps), messages, style, max_tokens, count)
            self._cache.put(key, said)
        return self._completed(said, messages, style, keep_keys, max_tokens, visible, count)

    def summarize(self, messages: Sequence[Message], style: str, keep_keys: Sequence[str]) -> Message:
        """The public seam: the same summary as one assistant message."""
        return Message("assistant", self.summarize_span(messages, style=style, keep_keys=keep_keys).render(version=1))

    def _prepared(
        self,
        messages: Sequence[Message],
        style: str,
        keep_keys: Sequence[str],
        max_tokens: int,
        count: Callable[[str], int],
    ) -> tuple[SummaryCacheKey, Steps]:
        reply_tokens = max(_SMALLEST_REPLY, int(max_tokens * _MODEL_SHARE))
        settings = policy_version(
            style=style,
            keep_keys=sorted(keep_keys),
            max_tokens=max_tokens,
            window_tokens=self._window_tokens,
            seed=self._seed,
            temperature=self._temperature,
        )
        key = SummaryCacheKey.of(
            messages, policy_version=settings, model_id=self.model, prompt_version=prompt_version(style)
        )
        prompt = build_prompt(
            messages,
            style=style,
            keep_keys=keep_keys,
            max_tokens=reply_tokens,
            window_tokens=self._window_tokens,
            count_tokens=count,
        )
        body = body_for(self.model, prompt, seed=self._seed, temperature=self._temperature)
        return key, ask(body, max_tokens=reply_tokens)

    def _accepted(
        self, text: str, messages: Sequence[Message], style: str, max_tokens: int, count: Callable[[str], int]
    ) -> StructuredSummary:
        summary = read_reply(text, messages, style=style)
        tokens = count(summary.render(version=999))
        if tokens > max_tokens:
            raise SummaryTooLong(summary_tokens=tokens, max_tokens=max_tokens)
        return summary

    def _completed(
        self,
        said: StructuredSummary,
        messages: Sequence[Message],
        style: str,
        keep_keys: Sequence[str],
        max_tokens: int,
        visible: Sequence[Message],
        count: Callable[[str], int],
    ) -> StructuredSummary:
        """Verbatim lines for what the model does not mention, then its own entries, which win where both speak."""
        text = said.render_as_message()
        lines = self._extractive.summarize_span(
            messages,
            style=style,
            keep_keys=keep_keys,
            max_tokens=max(0, max_tokens - count(text)),
            visible=[*visible, Message("assistant", text)],
            count_tokens=count,
        )
        return fit(lines.merge(said), max_tokens=max_tokens, visible=visible, count_tokens=count, keep_keys=keep_keys)

    def _request(self) -> dict[str, Any]:
        headers = {"content-type": "application/json", **self._headers}
        if self._api_key:
            headers["authorization"] = f"Bearer {self._api_key}"
        return headers

    def _drive(self, steps: Steps) -> str:
        # In a thread of its own: only an event loop can interrupt a read at the deadline, and the caller may have one.
        # A daemon, so that neither Ctrl-C nor the end of the program waits for the model.
        answer: Future[str] = Future()

        def work() -> None:
            try:
                answer.set_result(asyncio.run(self._adrive(steps)))
            except BaseException as error:  # raised where the answer is waited for
                answer.set_exception(error)

        threading.Thread(target=work, name="compact-summarizer", daemon=True).start()
        return answer.result()

    async def _adrive(self, steps: Steps) -> str:
        import httpx

        step: Post | Wait
        try:
            # The deadline is for all of it. A limit per read, which is httpx's, never ends an answer that drips.
            async with (
                asyncio.timeout(self._timeout_s),
                httpx.AsyncClient(timeout=None, verify=self._is_https) as client,  # noqa: S113 - the deadline is around it
            ):
                step = next(steps)
                while True:
                    if isinstance(step, Wait):
                        await asyncio.sleep(step.seconds)
                        step = steps.send(None)
                    else:
                        step = steps.send(await client.post(self._url, json=step.body, headers=self._request()))
        except StopIteration as stop:
            return str(stop.value)
        except TimeoutError as error:
            raise SummarizationError(f"{self._url} did not answer within {self._timeout_s:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise SummarizationError(f"{self._url} could not be asked: {type(error).__name__}: {error}") from error
