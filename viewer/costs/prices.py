"""Published prices of models, from the data in the `genai-prices` package.

Pure and offline: nothing is downloaded. A model that the package does not know has no price, and is never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import lru_cache

from genai_prices.data_snapshot import find_provider_by_id, get_snapshot
from genai_prices.types import ModelInfo, ModelPrice, Provider, TieredPrices

_PER_MILLION = Decimal(1_000_000)
_PER_THOUSAND = Decimal(1_000)
# Names of frameworks and gateways in the place of a provider. They do not say who bills.
_NEUTRAL = frozenset(
    {"", "_other", "other", "unknown", "custom", "langchain", "langgraph", "litellm", "llama_index", "llamaindex"}
)
# Prefixes of model names in LiteLLM, LangChain, Pydantic AI and the Vercel AI SDK.
_PREFIXES = {
    "azure_openai": "azure",
    "azure_ai": "azure",
    "bedrock": "aws",
    "bedrock_converse": "aws",
    "amazon-bedrock": "aws",
    "fireworks_ai": "fireworks",
    "gemini": "google",
    "google-gla": "google",
    "google-genai": "google",
    "google_genai": "google",
    "google-vertex": "google",
    "google_vertexai": "google",
    "mistralai": "mistral",
    "models": "google",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "together_ai": "together",
    "vertex_ai": "google",
    "xai": "x-ai",
}
# `us.anthropic.claude-sonnet-4-20250514-v1:0`: a Bedrock model, with or without the region of its inference profile.
_BEDROCK = re.compile(
    r"((us|eu|apac|jp|au|ca|global|us-gov)\.)?(anthropic|amazon|meta|mistral|cohere|ai21|deepseek)\..+"
)


@dataclass(frozen=True, slots=True)
class Rates:
    """Prices in US dollars: per token, and per request for the few models that charge for it."""

    input: Decimal
    cached: Decimal
    cache_write: Decimal
    output: Decimal
    reasoning: Decimal
    request: Decimal = Decimal(0)
    source: str = ""  # `openai/gpt-5` of the package, or `override`

    @classmethod
    def per_million(
        cls, *, input_price: Decimal, output_price: Decimal, cached_price: Decimal | None, write_price: Decimal | None
    ) -> Rates:
        """Return the rates of an override. Missing prices are the input price."""
        cached = input_price if cached_price is None else cached_price
        write = input_price if write_price is None else write_price
        return cls(
            input=input_price / _PER_MILLION,
            cached=cached / _PER_MILLION,
            cache_write=write / _PER_MILLION,
            output=output_price / _PER_MILLION,
            reasoning=output_price / _PER_MILLION,
            source="override",
        )


@lru_cache(maxsize=8192)
def published_rates(model: str, provider: str, at: datetime, prompt_size: int) -> Rates | None:
    """Return the rates of a call at a time, or None if the model is unknown.

    `prompt_size` is one of `PROMPT_SIZES`: some models cost more per token above a size.
    """
    entry = _find(model, provider)
    if entry is None:
        return None
    owner, info = entry
    return _rates(info.get_prices(at), prompt_size, f"{owner.id}/{info.id}")


def _rates(price: ModelPrice, prompt_size: int, source: str) -> Rates | None:
    fresh, output = _amount(price, "input_mtok", prompt_size), _amount(price, "output_mtok", prompt_size)
    if fresh is None or output is None:
        # Priced by time, pages or images.
        return None
    cached, write, reasoning, request = (
        _amount(price, name, prompt_size)
        for name in ("cache_read_mtok", "cache_write_mtok", "output_reasoning_mtok", "requests_kcount")
    )
    return Rates(
        input=fresh / _PER_MILLION,
        cached=(fresh if cached is None else cached) / _PER_MILLION,
        cache_write=(fresh if write is None else write) / _PER_MILLION,
        output=output / _PER_MILLION,
        reasoning=(output if reasoning is None else reasoning) / _PER_MILLION,
        request=(request or Decimal(0)) / _PER_THOUSAND,
        source=source,
    )


def _amount(price: ModelPrice, name: str, prompt_size: int) -> Decimal | None:
    value = getattr(price, name)
    if isinstance(value, TieredPrices):
        # Above the start of a tier, all tokens have its price.
        tiers = [tier.price for tier in value.tiers if prompt_size >= tier.start]
        return tiers[-1] if tiers else value.base
    return Decimal(value) if value is not None else None


@lru_cache(maxsize=4096)
def _find(model: str, provider: str) -> tuple[Provider, ModelInfo] | None:
    snapshot = get_snapshot()
    for provider_id, name in _candidates(model.strip().lower(), provider.strip().lower()):
        try:
            return snapshot.find_provider_model(name, None, provider_id, None)
        except LookupError:
            continue
    return None


def _candidates(model: str, provider: str) -> Iterator[tuple[str | None, str]]:
    """Yield provider and name in the ways that a model may be listed, most specific first."""
    if not model:
        return
    prefix, name = _split_prefix(model)
    if provider not in _NEUTRAL:
        billed_by = _provider_id(provider)
        if billed_by is not None:
            yield billed_by, model
            if name:
                yield billed_by, name
        # Another provider may have the same model at another price.
        return
    if _BEDROCK.fullmatch(model):
        yield "aws", model
    elif prefix:
        yield prefix, name
    else:
        yield None, model


def _provider_id(provider: str) -> str | None:
    if provider.startswith(("azure", "az.")):
        return "azure"
    known = find_provider_by_id(get_snapshot().providers, provider)
    return known.id if known else _PREFIXES.get(provider)


def _split_prefix(model: str) -> tuple[str, str]:
    """Split `openai/gpt-5` or `openai:gpt-5`. Both parts are empty if the prefix is no provider."""
    match = re.match(r"([a-z0-9_-]+)[/:](.+)", model)
    if match is None:
        return "", ""
    prefix = _PREFIXES.get(match[1], match[1])
    is_provider = any(prefix == known.id for known in get_snapshot().providers)
    return (prefix, match[2]) if is_provider else ("", "")
