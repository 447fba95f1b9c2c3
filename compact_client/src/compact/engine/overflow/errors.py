"""Recognize context overflow errors of any provider, and choose what to remove.

The oldest units are removed as a whole until the provider's numbers fit. Pinned units and the newest one are kept.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from compact.messages import Message
from compact.messages.units import Unit, group_units
from compact.planning.partition import pin_rules
from compact.policy import CompactPolicy

# Error texts of providers, in lower case.
_PHRASES = (
    "context_length_exceeded",
    "context length exceeded",
    "context window exceeded",
    "contextwindowexceeded",
    "exceeds the context window",
    "exceed context limit",
    "exceeds the model's context",
    "maximum context length",
    "maximum context size",
    "maximum prompt length",
    "context window exceeds limit",
    "context_window_exceeded",
    "context length of only",
    "exceeded model token limit",
    "request_too_large",
    "max_context_length",
    "model's context length",
    "model's maximum context",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input too long",
    "input length and `max_tokens` exceed",
    "input token count",
    "exceeds the maximum number of tokens",
    "exceeds the available context size",
    "too many tokens",
    "tokens in request more than max tokens allowed",
    "reduce the length of the messages",
    "request too large for model context",
    "string_above_max_length",
    "the input is longer than",
    "kv cache is full",
)
# Texts that also occur in other errors, such as "temperature must be <= 2", unless they count tokens.
_COUNTED = re.compile(
    r"token count\D{0,20}\d+ exceeds the limit of|tokens? \+ .{0,40}must be <=|must have less than [\d,]+ tokens"
)
_NOT_OVERFLOW = ("rate limit", "rate_limit", "tokens per min", "tpm", "quota", "too many requests", "requests per")
_CLASS_NAMES = (
    "contextwindowexceedederror",
    "contextlengtherror",
    "contextlengthexceedederror",
    "contextoverflowerror",
)
_NUMBER = r"(\d[\d,._]*)"
# The two numbers of an error, by the order in which providers print them.
_LIMIT_FIRST = (
    re.compile(
        rf"(?:context (?:length|window|size)|prompt length|token limit|cannot exceed)\D{{0,40}}{_NUMBER}"
        rf"\D{{1,160}}?{_NUMBER}",
        re.I,
    ),
)
_REQUESTED_FIRST = (
    re.compile(rf"{_NUMBER} tokens? > {_NUMBER}", re.I),
    re.compile(rf"input token count \({_NUMBER}\) exceeds[^(\d]*\(?{_NUMBER}", re.I),
    re.compile(rf"{_NUMBER}\D{{0,60}}exceeds?\D{{0,60}}{_NUMBER}", re.I),
    re.compile(rf"contains {_NUMBER} tokens.{{0,60}}too large for model with {_NUMBER}", re.I),
    re.compile(rf"(?:length is|too long:) {_NUMBER}\D{{1,40}}(?:limit is|length:) {_NUMBER}", re.I),
)
# Anthropic adds the reply's max_tokens to the prompt: "sent + reply > window".
_SUM_FIRST = re.compile(rf"{_NUMBER} \+ {_NUMBER} > {_NUMBER}")
_MAX_CHAIN = 8


@dataclass(frozen=True, slots=True)
class Overflow:
    """The numbers of a context overflow error, None where the provider gave none."""

    limit_tokens: int | None
    requested_tokens: int | None


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
        text = _text(link)
        if match := _SUM_FIRST.search(text):
            return _overflow(_number(match[3]) - _number(match[2]), _number(match[1]))
        for pattern in _REQUESTED_FIRST:
            if match := pattern.search(text):
                return _overflow(_number(match[2]), _number(match[1]))
        for pattern in _LIMIT_FIRST:
            if match := pattern.search(text):
                return _overflow(_number(match[1]), _number(match[2]))
    return Overflow(None, None)


def oldest_units(
    messages: Sequence[Message],
    counts: Sequence[int],
    policy: CompactPolicy,
    *,
    tokens_to_free: int,
    protected_ids: Collection[str] = (),
    non_replayable_ids: Collection[str] = (),
) -> list[Unit]:
    """Return the oldest removable units that free enough tokens, or all of them. Non-replayable results come last."""
    units = group_units(messages)
    pins = pin_rules(units, messages, policy, protected_ids)
    free = [unit for unit in units if unit.first not in pins]
    if not free:
        return []
    newest = max(free, key=lambda unit: unit.last)
    old = [unit for unit in free if unit is not newest]
    # The sort is stable, so the oldest of each group stays first.
    old.sort(key=lambda unit: any(messages[index].id in non_replayable_ids for index in unit.indices))
    selected: list[Unit] = []
    freed_tokens = 0
    for unit in old:
        if freed_tokens >= tokens_to_free:
            break
        selected.append(unit)
        freed_tokens += sum(counts[index] for index in unit.indices)
    return selected


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


def _overflow(limit: int, requested: int) -> Overflow:
    # The larger number is the requested size, regardless of the order in the text.
    if limit > requested:
        limit, requested = requested, limit
    return Overflow(limit or None, requested or None)
