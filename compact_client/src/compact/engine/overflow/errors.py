"""Recognize context overflow errors of any provider, and read their numbers.

A provider counts the prompt and the completion that the caller asked for together. Only the prompt can be compacted, so
the two are separated here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# Error texts of providers, in lower case.
_PHRASES = (
    "context_length_exceeded",
    "context length exceeded",
    "context window exceeded",
    "contextwindowexceeded",
    "exceeds the context window",
    "exceeds the context length",
    "exceed context limit",
    "exceed context window",
    "exceeds the model's context",
    "exceeds the model's maximum context",
    "maximum context length",
    "max context length",
    "maximum context size",
    "maximum prompt length",
    "maximum model length",
    "context window exceeds limit",
    "context_window_exceeded",
    "context length of only",
    "reached context length of",
    "greater than the context length",
    "longer than the model's context length",
    "exceed_context_size_error",
    "context size has been exceeded",
    "prompt exceeds max length",
    "max_tokens must be at least 1, got -",
    "exceeded model token limit",
    "request_too_large",
    "max_context_length",
    "model's context length",
    "model's maximum context",
    "prompt is too long",
    "prompt too long",
    "too long to fit into the model",
    "input is too long",
    "input too long",
    "input length and `max_tokens` exceed",
    "range of input length should be",
    "input token count",
    "too many input tokens",
    "exceeds the maximum number of tokens",
    "exceeds the available context size",
    "too many tokens",
    "tokens in request more than max tokens allowed",
    "reduce the length of the messages",
    "request too large for model context",
    "string_above_max_length",
    "the input is longer than",
    "longer than the context window",
    "messages too long",
    "number of tokens in the prompt exceeds",
    "kv cache is full",
)
# Texts that also occur in other errors, such as "temperature must be <= 2", unless they count tokens.
_COUNTED = re.compile(
    r"token count\D{0,20}\d+ exceeds the limit of|tokens? \+ .{0,40}must be <=|must have less than [\d,]+ tokens"
    r"|request \([\d,]+ tokens\) exceeds context size"
    r"|input length \(?[\d,]+(?: tokens)?\)? exceeds (?:the )?maximum allowed"
)
_NOT_OVERFLOW = (
    "rate limit",
    "rate_limit",
    "tokens per min",
    "tokens per day",
    "tpm",
    "quota",
    "too many requests",
    "requests per",
)
_CLASS_NAMES = (
    "contextwindowexceedederror",
    "contextlengtherror",
    "contextlengthexceedederror",
    "contextoverflowerror",
)
_N = r"(\d[\d,_]*)"
# The window of the model. The first pattern that matches wins.
_LIMIT = (
    rf"n_ctx\W{{1,4}}{_N}",
    rf"too large for model with {_N}",
    rf"(?:must be <=|less than) {_N}",
    rf"should be \[\d+, ?{_N}\]",
    rf"supports up to {_N}",
    rf"max input (?:tokens:?|length is) {_N}",
    rf"tokens allowed \({_N}\)",
    rf"tokens? > {_N}",
    rf"\d \+ \d+ > {_N}",
    rf"(?:context (?:length|window|size)|prompt length|model length|token limit|the limit)(?! by )\D{{0,12}}?{_N}",
    rf"cannot exceed {_N}",
    rf"maximum allowed (?:length|token size|context) \(?{_N}",
    rf"(?:limit is|maximum length:) {_N}",
)
# The tokens of the whole request, with the completion that it asks for.
_REQUESTED = (
    rf"n_prompt_tokens\W{{1,4}}{_N}",
    rf"n_keep\W{{1,4}}{_N}",
    rf"requested (?:about |a total of )?{_N} tokens",
    rf"requested(?: tokens)?:? \(?{_N}\)?",
    rf"(?:request|input|prompt) \((?:total length |length )?{_N}(?: tokens)?\)",
    rf"(?:resulted in|contains|supplied|keep the first) {_N} tokens",
    rf"token count:? ?(?:of |is )?\(?{_N}",
    rf"too long: {_N}",
    rf"length is {_N}",
    rf"input length \(?{_N}",
    rf"given: {_N}",
    rf"{_N} tokens? >",
)
# The parts of a request. Several matches of the prompt are added: messages, functions, tool input.
_PROMPT = re.compile(
    rf"{_N} (?:in the messages|in the functions|in your prompt|of \w+ input|`inputs` tokens|"
    rf"tokens from the input messages)|(?:request has|contains at least) {_N} input tokens|{_N} \+ \d+ >"
)
_COMPLETION = re.compile(
    rf"{_N} (?:(?:in|for) (?:the )?(?:completion|output)|`max_new_tokens`|tokens for the completion|output tokens and)|"
    rf"max_completion_tokens' is too large: {_N}|\d \+ {_N} >"
)
_EXCESS = re.compile(rf"context length by {_N} tokens")
_MAX_CHAIN = 8


@dataclass(frozen=True, slots=True)
class Overflow:
    """The numbers of a context overflow error, None where the provider gave none.

    Both are about the prompt: tokens that the caller reserved for the completion are subtracted.
    """

    limit_tokens: int | None
    requested_tokens: int | None
    excess_tokens: int | None = None
    """Tokens over the limit, for an error that has no other numbers."""


def is_context_length_error(error: BaseException | str) -> bool:
    """True if a provider rejected a request because it exceeds the context window."""
    for link in _error_chain(error):
        if type(link).__name__.lower() in _CLASS_NAMES:
            return True
        text = _text(link)
        if getattr(link, "code", None) == "context_length_exceeded":
            return True
        if any(phrase in text for phrase in _NOT_OVERFLOW):
            continue
        if any(phrase in text for phrase in _PHRASES) or _COUNTED.search(text):
            return True
    return False


def read_overflow(error: BaseException | str) -> Overflow:
    """Return the numbers in a context overflow error."""
    for link in _error_chain(error):
        overflow = _read_text(_text(link))
        if overflow != Overflow(None, None):
            return overflow
    return Overflow(None, None)


def _read_text(text: str) -> Overflow:
    limit = _first_number(_LIMIT, text)
    prompt = _sum(_PROMPT, text)
    completion = _sum(_COMPLETION, text)
    if not prompt:
        requested = _first_number(_REQUESTED, text)
        # Some providers print the two numbers in the other order.
        if limit and requested and requested < limit and not completion:
            limit, requested = requested, limit
        prompt = max(0, requested - completion)
    excess = _EXCESS.search(text)
    return Overflow(
        limit_tokens=max(1, limit - completion) if limit else None,
        requested_tokens=prompt or None,
        excess_tokens=_number(excess[1]) if excess else None,
    )


def _first_number(patterns: Sequence[str], text: str) -> int:
    for pattern in patterns:
        if match := re.search(pattern, text):
            return _number(match[1])
    return 0


def _sum(pattern: re.Pattern[str], text: str) -> int:
    """Return the sum of the numbers in all matches. A number that an error repeats counts once."""
    numbers = {next(filter(None, match.groups())): match.start() for match in pattern.finditer(text)}
    return sum(_number(number) for number in numbers)


def _error_chain(error: BaseException | str) -> Iterator[BaseException | str]:
    if isinstance(error, str):
        yield error
        return
    link: BaseException | None = error
    for _ in range(_MAX_CHAIN):
        if link is None:
            return
        yield link
        link = link.__cause__ or link.__context__


def _text(error: BaseException | str) -> str:
    if isinstance(error, str):
        return error.lower()
    body = getattr(error, "body", "") or getattr(error, "message", "")
    return f"{type(error).__name__} {error} {body}".lower()


def _number(text: str) -> int:
    return int(re.sub(r"\D", "", text) or 0)
