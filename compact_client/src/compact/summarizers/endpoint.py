"""Request chat completions from an OpenAI-compatible endpoint.

Every failure is raised as a `SummarizationError` or one of its subclasses, except for transport errors. Parameters that
an endpoint does not support are removed, and the request is sent again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

from compact.exceptions import SummarizationError, SummarizerOverflow, SummaryRefused, SummaryTooLong
from compact.summarizers.reply import SUMMARY_JSON_SCHEMA

if TYPE_CHECKING:
    import httpx

MAX_RETRIES: Final = 2
MAX_WAIT_S: Final = 20.0
_BACKOFF_S: Final = 0.5
_MAX_ERROR_CHARS: Final = 200
_MAX_EXCERPT_CHARS: Final = 120
_OVERFLOW_PHRASES: Final = (
    "context_length_exceeded",
    "context length",
    "maximum context",
    "context window",
    "prompt is too long",
    "too many tokens",
    "input is too long",
    "exceeds the limit of",
)
_REFUSAL_CODES: Final = ("content_filter", "content_policy_violation", "safety")


def completion_body(
    model: str, prompt: list[dict[str, str]], *, seed: int, temperature: float, max_tokens: int
) -> dict[str, Any]:
    """Return the request body. Its key order is fixed, so that the same prompt is always the same bytes."""
    return {
        "model": model,
        "messages": prompt,
        "temperature": temperature,
        "seed": seed,
        "max_tokens": max_tokens,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "summary", "strict": True, "schema": SUMMARY_JSON_SCHEMA},
        },
    }


async def request_completion(
    client: httpx.AsyncClient, url: str, body: dict[str, Any], *, headers: Mapping[str, str], max_tokens: int
) -> str:
    """Return the text of the model's reply. Busy and failing endpoints are retried with backoff."""
    # A retry library would not simplify this: some rounds change the request, and the delay depends on the response.
    retries = 0
    while True:
        response = await client.post(url, json=body, headers=dict(headers))
        status = response.status_code
        if status == 200:
            return _reply_text(response, max_tokens)
        problem = _error_text(response)
        _raise_if_permanent(status, problem)
        if status in (400, 404, 422) and (reduced := _without_unsupported(body, problem)) is not None:
            body = reduced
            continue
        delay_s = _retry_delay_s(response, retries)
        if delay_s is None:
            raise SummarizationError(f"The endpoint returned status {status}: {problem[:_MAX_ERROR_CHARS]}")
        retries += 1
        await asyncio.sleep(delay_s)


def _reply_text(response: httpx.Response, max_tokens: int) -> str:
    try:
        data = response.json()
        choice = data["choices"][0]
        message = dict(choice["message"])
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        excerpt = response.text[:_MAX_EXCERPT_CHARS]
        raise SummarizationError(f"The endpoint's response is not a chat completion: {excerpt!r}") from error
    if message.get("refusal"):
        raise SummaryRefused(f"The model refused: {str(message['refusal'])[:_MAX_EXCERPT_CHARS]}")
    reason = choice.get("finish_reason")
    if reason == "content_filter":
        raise SummaryRefused("The endpoint's content filter blocked the summary.")
    if reason == "length":
        usage = data.get("usage")
        used = usage.get("completion_tokens") if isinstance(usage, dict) else None
        raise SummaryTooLong(summary_tokens=used if isinstance(used, int) else max_tokens + 1, max_tokens=max_tokens)
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _error_text(response: httpx.Response) -> str:
    """Return the message, code and parameter of an error response as one line."""
    try:
        error = response.json().get("error", {})
    except (ValueError, AttributeError, RecursionError):
        return " ".join(response.text.split())
    if isinstance(error, dict):
        return " ".join(str(error[name]) for name in ("message", "code", "type", "param") if error.get(name))
    return str(error)


def _raise_if_permanent(status: int, problem: str) -> None:
    if status in (400, 413, 422) and _is_overflow(status, problem):
        raise SummarizerOverflow(f"The prompt is too long for the summarizer model: {problem[:_MAX_ERROR_CHARS]}")
    if status in (400, 403) and any(code in problem for code in _REFUSAL_CODES):
        raise SummaryRefused(f"The endpoint refused: {problem[:_MAX_ERROR_CHARS]}")


def _is_overflow(status: int, problem: str) -> bool:
    text = problem.lower()
    return status == 413 or any(phrase in text for phrase in _OVERFLOW_PHRASES)


def _without_unsupported(body: Mapping[str, Any], problem: str) -> dict[str, Any] | None:
    """Return the body without the parameter that the error names, or None if it names none of them."""
    text = problem.lower()
    reduced = dict(body)
    if "response_format" in reduced and any(name in text for name in ("response_format", "json_schema", "json_object")):
        if reduced["response_format"]["type"] == "json_schema":
            reduced["response_format"] = {"type": "json_object"}
        else:
            del reduced["response_format"]
        return reduced
    if "max_tokens" in reduced and "max_tokens" in text:
        reduced["max_completion_tokens"] = reduced.pop("max_tokens")
        return reduced
    for name in ("temperature", "seed", "max_completion_tokens"):
        if name in reduced and name in text:
            del reduced[name]
            return reduced
    return None


def _retry_delay_s(response: httpx.Response, retries: int) -> float | None:
    """Return the delay before the next attempt, or None if the request must not be retried."""
    status = response.status_code
    if retries >= MAX_RETRIES or not (status in (408, 409, 429) or status >= 500):
        return None
    delay_s = _retry_after_s(response.headers)
    if delay_s is None:
        delay_s = _BACKOFF_S * 2**retries
    return delay_s if delay_s <= MAX_WAIT_S else None


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the `Retry-After` header in seconds. It is either a number or a date."""
    value = headers.get("retry-after")
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None
