"""Billed tokens of one model call, as its span reports them.

Pure. Providers and conventions disagree on names and on whether the input includes cached tokens. Here it always does.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

_INT_MAX = 2**31 - 1
_PROVIDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,63}")
_PROVIDER_KEYS = ("gen_ai.provider.name", "gen_ai.system", "provider", "llm.provider", "ai.model.provider")
# Attributes of OpenTelemetry, Traceloop and Pydantic AI, OpenInference and the Vercel AI SDK.
_CACHED = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.cache_read_tokens",
    "gen_ai.usage.details.cache_read_tokens",
    "llm.token_count.prompt_details.cache_read",
    "ai.usage.cachedInputTokens",
)
_CACHE_WRITES = (
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.cache_write_tokens",
    "gen_ai.usage.details.cache_write_tokens",
    "llm.token_count.prompt_details.cache_write",
)
_REASONING = (
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "gen_ai.usage.details.reasoning_tokens",
    "llm.token_count.completion_details.reasoning",
    "ai.usage.reasoningTokens",
)
# The same in a `usage` object of OpenAI, Anthropic or an importer.
_INPUT_DETAILS = ("input_tokens_details", "prompt_tokens_details", "input_token_details")
_OUTPUT_DETAILS = ("output_tokens_details", "completion_tokens_details", "output_token_details")
_USAGE_CACHED = ("cache_read_input_tokens", "cached_tokens", "cached_input_tokens", "cache_read_tokens")
_USAGE_CACHE_WRITES = ("cache_creation_input_tokens", "cache_write_tokens")
_USAGE_REASONING = ("reasoning_tokens", "reasoning_output_tokens")
# Most calls report none of these, and asking for each of them would take most of the time of decoding a call.
_ANY_DETAIL = frozenset((*_CACHED, *_CACHE_WRITES, *_REASONING))
_ANY_USAGE_DETAIL = frozenset(
    (*_INPUT_DETAILS, *_OUTPUT_DETAILS, *_USAGE_CACHED, *_USAGE_CACHE_WRITES, *_USAGE_REASONING)
)
_ANY_PROVIDER = frozenset(_PROVIDER_KEYS)
# Providers charge more for long prompts. These are all sizes at which a known price changes.
PROMPT_SIZES = (0, 32_000, 100_000, 128_000, 199_999, 200_000, 256_000, 272_000, 512_000, 524_288)


class Usage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, array_like=True):
    """Tokens of one call. `input` includes `cached` and `cache_write`, and `output` includes `reasoning`."""

    model: str = ""
    provider: str = ""
    is_summary: bool = False
    input: int = 0
    cached: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0


def prompt_size(tokens: int) -> int:
    """Return the largest of `PROMPT_SIZES` below `tokens`, which decides the price per token."""
    return PROMPT_SIZES[bisect_left(PROMPT_SIZES, tokens, 1) - 1]


def call_usage(
    model: str, data: Mapping[str, Any], input_tokens: int | None, output_tokens: int | None
) -> Usage | None:
    """Return the usage of a model call with these input and output tokens, or None if it reports none."""
    if input_tokens is None and output_tokens is None:
        return None
    usage = data.get("usage")
    total = input_tokens or 0
    cached = written = reasoning = 0
    if isinstance(usage, dict):
        if not _ANY_USAGE_DETAIL.isdisjoint(usage):
            cached, written, reasoning = _read_object(usage)
            if "cache_read_input_tokens" in usage or "cache_creation_input_tokens" in usage:
                # Anthropic reports cached tokens in addition to `input_tokens`.
                total += cached + written
    elif not _ANY_DETAIL.isdisjoint(data):
        cached, written, reasoning = (_first(data.get, keys) for keys in (_CACHED, _CACHE_WRITES, _REASONING))
    provider = "" if _ANY_PROVIDER.isdisjoint(data) else _provider(data)
    total = min(total, _INT_MAX)
    cached = min(cached, total)
    output = output_tokens or 0
    return Usage(model, provider, False, total, cached, min(written, total - cached), output, min(reasoning, output))


def _read_object(usage: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return the cached, cache write and reasoning tokens of a `usage` object."""
    inputs, outputs = _details(usage, _INPUT_DETAILS), _details(usage, _OUTPUT_DETAILS)
    return (
        _first(inputs.get, ("cached_tokens", "cache_read")) or _first(usage.get, _USAGE_CACHED),
        _first(inputs.get, ("cache_write_tokens", "cache_creation")) or _first(usage.get, _USAGE_CACHE_WRITES),
        _first(outputs.get, ("reasoning_tokens", "reasoning")) or _first(usage.get, _USAGE_REASONING),
    )


def _details(usage: Mapping[str, Any], names: tuple[str, ...]) -> Mapping[str, Any]:
    for name in names:
        details = usage.get(name)
        if isinstance(details, dict):
            return details
    return {}


def _first(get: Callable[[str], Any], names: tuple[str, ...]) -> int:
    for name in names:
        value = get(name)
        if value is not None and type(value) in (int, float) and 0 <= value <= _INT_MAX:
            return int(value)
    return 0


def _provider(data: Mapping[str, Any]) -> str:
    """Return the provider. Everybody sees it with the price, so other text does not get through."""
    for key in _PROVIDER_KEYS:
        value = data.get(key)
        if isinstance(value, str) and _PROVIDER.fullmatch(value):
            return value
    return ""
