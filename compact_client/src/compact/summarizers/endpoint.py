"""Talk to an OpenAI-compatible endpoint, in steps that a sync and an async caller drive alike.

Every failure becomes one of the summariser's errors; what an endpoint does not support is left out and asked again.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from compact.exceptions import SummarizationError, SummarizerOverflow, SummaryRefused, SummaryTooLong
from compact.summarizers.reply import SUMMARY_JSON_SCHEMA

if TYPE_CHECKING:
    import httpx

MAX_RETRIES: Final = 2
MAX_WAIT_S: Final = 20.0
_BACKOFF_S: Final = 0.5
_OVERFLOW_SIGNS: Final = (
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


@dataclass(frozen=True, slots=True)
class Post:
    """Send this body; the answer is an `httpx.Response` or the transport's error, thrown in."""

    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wait:
    """Let this long pass."""

    seconds: float


Steps: TypeAlias = Generator[Post | Wait, Any, str]


def ask(body: dict[str, Any], *, max_tokens: int) -> Steps:
    """The text of the model's answer."""
    body = {
        **body,
        "max_tokens": max_tokens,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "summary", "strict": True, "schema": SUMMARY_JSON_SCHEMA},
        },
    }
    retries = 0
    while True:
        response: httpx.Response = yield Post(body)
        status = response.status_code
        if status == 200:
            return _answer(response, max_tokens)
        problem = _problem(response)
        if status in (400, 413, 422) and _is_overflow(status, problem):
            raise SummarizerOverflow(f"the endpoint says the prompt is too long: {problem[:200]}")
        if status in (400, 403) and any(code in problem for code in _REFUSAL_CODES):
            raise SummaryRefused(f"the endpoint declined: {problem[:200]}")
        if status in (400, 404, 422) and (milder := _without_unsupported(body, problem)) is not None:
            body = milder
            continue
        if status in (408, 409, 429) or status >= 500:
            wait_s = _retry_after_s(response.headers)
            wait_s = _BACKOFF_S * 2**retries if wait_s is None else wait_s
            if retries < MAX_RETRIES and wait_s <= MAX_WAIT_S:
                retries += 1
                yield Wait(wait_s)
                continue
        raise SummarizationError(f"the endpoint answered {status}: {problem[:200]}")


def _answer(response: httpx.Response, max_tokens: int) -> str:
    try:
        data = response.json()
        choice = data["choices"][0]
        message = dict(choice["message"])
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise SummarizationError(f"the endpoint's answer is not a chat completion: {response.text[:120]!r}") from error
    if message.get("refusal"):
        raise SummaryRefused(f"the model declined: {str(message['refusal'])[:120]}")
    reason = choice.get("finish_reason")
    if reason == "content_filter":
        raise SummaryRefused("the endpoint's content filter stopped the summary")
    if reason == "length":
        usage = data.get("usage")
        used = usage.get("completion_tokens") if isinstance(usage, dict) else None
        raise SummaryTooLong(summary_tokens=used if isinstance(used, int) else max_tokens + 1, max_tokens=max_tokens)
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _problem(response: httpx.Response) -> str:
    """What an error body says, as one line: message, code and parameter."""
    try:
        error = response.json().get("error", {})
    except (ValueError, AttributeError, RecursionError):
        return " ".join(response.text.split())
    if isinstance(error, dict):
        return " ".join(str(error[name]) for name in ("message", "code", "type", "param") if error.get(name))
    return str(error)


def _is_overflow(status: int, problem: str) -> bool:
    text = problem.lower()
    return status == 413 or any(sign in text for sign in _OVERFLOW_SIGNS)


def _without_unsupported(body: Mapping[str, Any], problem: str) -> dict[str, Any] | None:
    """The same request without what the endpoint names as unsupported; None if it names nothing we sent."""
    text = problem.lower()
    milder = dict(body)
    if "response_format" in milder and any(sign in text for sign in ("response_format", "json_schema", "json_object")):
        if milder["response_format"]["type"] == "json_schema":
            milder["response_format"] = {"type": "json_object"}
        else:
            del milder["response_format"]
        return milder
    if "max_tokens" in milder and "max_tokens" in text:
        milder["max_completion_tokens"] = milder.pop("max_tokens")
        return milder
    for name in ("temperature", "seed", "max_completion_tokens"):
        if name in milder and name in text:
            del milder[name]
            return milder
    return None


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
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


def body_for(model: str, prompt: list[dict[str, str]], *, seed: int, temperature: float) -> dict[str, Any]:
    """The request without its limits, in a fixed order so that the same prompt is the same bytes."""
    return {"model": model, "messages": prompt, "temperature": temperature, "seed": seed}
