"""Prices of models come from the package's data, and an unknown model has none."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from genai_prices import Usage as PackageUsage
from genai_prices import calc_price, data
from genai_prices.types import ModelPrice, TieredPrices

from ingest.decoding.token_usage import PROMPT_SIZES, prompt_size
from viewer.costs.amounts import Usage, format_usd, price
from viewer.costs.prices import published_rates

AT = datetime(2026, 11, 17, 3, tzinfo=UTC)
FIVE = [
    ("gpt-5", "openai"),
    ("claude-sonnet-4-5", "anthropic"),
    ("gemini-2.5-pro", "google"),
    ("mistral-large-latest", "mistral"),
    ("gpt-4o", "azure"),
]


@pytest.mark.parametrize("tokens", [1_000, 150_000, 200_001, 300_000])
@pytest.mark.parametrize(("model", "provider"), FIVE)
def test_the_cost_equals_that_of_the_package(model: str, provider: str, tokens: int) -> None:
    """For small and long prompts, with cached, written and output tokens."""
    expected = calc_price(
        PackageUsage(
            input_tokens=tokens, cache_read_tokens=tokens // 2, cache_write_tokens=tokens // 10, output_tokens=700
        ),
        model,
        provider_id=provider,
        genai_request_timestamp=AT,
    )
    usage = Usage(AT, model, provider, False, prompt_size(tokens), 1, tokens, tokens // 2, tokens // 10, 700, 0)
    assert price([usage], published_rates).total == expected.total_price


def test_every_price_threshold_of_the_package_is_stored() -> None:
    """Otherwise long prompts of a model would be billed at the wrong price. Add missing ones to `PROMPT_SIZES`."""
    starts = set()
    for provider in data.providers:
        for model in provider.models:
            prices = [model.prices] if isinstance(model.prices, ModelPrice) else [p.prices for p in model.prices]
            values = [value for entry in prices for value in vars(entry).values()]
            starts |= {tier.start for value in values if isinstance(value, TieredPrices) for tier in value.tiers}
    assert starts <= set(PROMPT_SIZES)


@pytest.mark.parametrize(
    ("model", "provider", "source"),
    [
        ("gpt-5-2025-08-07", "", "openai/gpt-5"),
        ("openai/gpt-5", "", "openai/gpt-5"),
        ("openai:gpt-5", "", "openai/gpt-5"),
        ("gpt-5", "openai.responses", "openai/gpt-5"),
        ("gpt-4o", "az.ai.openai", "azure/gpt-4o"),
        ("azure/gpt-4o", "", "azure/gpt-4o"),
        ("claude-sonnet-4-20250514", "", "anthropic/claude-sonnet-4-0"),
        (
            "us.anthropic.claude-sonnet-4-20250514-v1:0",
            "",
            "aws/regional.anthropic.claude-sonnet-4-20250514-v1:0",
        ),
        ("models/gemini-2.5-pro", "", "google/gemini-2.5-pro"),
        ("gemini-2.5-pro", "gcp.vertex_ai", "google/gemini-2.5-pro"),
        ("GPT-4o-mini", "Langchain", "openai/gpt-4o-mini"),
    ],
)
def test_a_model_is_known_under_its_usual_names(model: str, provider: str, source: str) -> None:
    """With vendor prefixes, dates, and the names of Azure and Bedrock."""
    rates = published_rates(model, provider, AT, 0)
    assert rates is not None
    assert rates.source == source


@pytest.mark.parametrize(
    ("model", "provider"),
    [("gpt-99", ""), ("", ""), ("[hidden]", ""), ("deepseek-r1", "ollama"), ("my-org/gpt-5", ""), ("llama3:8b", "")],
)
def test_an_unknown_model_has_no_price(model: str, provider: str) -> None:
    """Also a known model at an unknown provider, which may be free."""
    assert published_rates(model, provider, AT, 0) is None
    cost = price([Usage(AT, model, provider, False, 0, 1, 1_000, 0, 0, 0, 0)], published_rates)
    assert cost.total is None
    assert cost.unknown_models == [model or "unnamed model"]


def test_a_total_without_some_models_is_partial() -> None:
    usages = [Usage(AT, name, "", False, 0, 1, 1_000_000, 0, 0, 0, 0) for name in ("gpt-5", "house-model")]
    cost = price(usages, published_rates)
    assert (cost.total, cost.is_partial, cost.unknown_models) == (Decimal("1.25"), True, ["house-model"])


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("1234.5", "$1,234.50"),
        ("0.0421", "$0.042"),
        ("0.00132", "$0.0013"),
        ("0.00001", "<$0.0001"),
        ("0", "$0"),
        ("-2", "−$2.00"),
    ],
)
def test_tiny_amounts_are_readable(amount: str, text: str) -> None:
    assert format_usd(Decimal(amount)) == text
