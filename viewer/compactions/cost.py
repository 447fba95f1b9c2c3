"""The cost of a compaction and its savings so far, in tokens and in money. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal

from compact.events import PrunedMessagesEvent, SummaryCreatedEvent

from viewer.costs.amounts import format_price, round_usd
from viewer.costs.prices import Rates
from viewer.kinds import DISCARDED_SUMMARY, SUMMARY
from viewer.numbers import format_count, to_count
from viewer.sessions.checks import Check


@dataclass(frozen=True, slots=True)
class CompactionRates:
    """Rates of the agent's model for the prompt before and after, and of the summarizer.

    `summary` is None if the price of the summarizer's model is unknown. A summarizer without a model costs nothing.
    `is_cached` is False if the calls of the session report that the provider cached nothing.
    """

    model: str
    before: Rates
    after: Rates
    summary_model: str
    summary: Rates | None
    is_cached: bool


@dataclass(frozen=True, slots=True)
class CompactionMoney:
    """Costs and savings of a compaction, in US dollars."""

    model: str
    rates: Rates  # for the prompt after the compaction
    sent_again: int  # tokens after the unchanged prefix, which the provider has to cache again
    cache_lost: Decimal  # the price of sending them as cache writes instead of cached input
    summary_model: str
    summary: Decimal | None  # None: the price of the summarizer's model is unknown
    saved_per_call: Decimal
    saved: Decimal
    is_cached: bool

    @property
    def spent(self) -> Decimal:
        """The known costs."""
        return self.cache_lost + (self.summary or Decimal(0))

    @property
    def net(self) -> Decimal | None:
        return None if self.summary is None else self.saved - self.spent

    def round(self) -> CompactionMoney:
        """Return the amounts as a page shows them, so that they add up to the net amount."""
        return replace(
            self,
            cache_lost=round_usd(self.cache_lost),
            summary=None if self.summary is None else round_usd(self.summary),
            saved=round_usd(self.saved),
        )

    @property
    def break_even(self) -> int | None:
        """Calls after which the compaction has paid for itself, or None if it never does or a price is unknown."""
        if self.summary is None or self.saved_per_call <= 0:
            return None
        return math.ceil(self.spent / self.saved_per_call)


@dataclass(frozen=True, slots=True)
class CacheEffect:
    """Tokens that a compaction freed, cached tokens that it invalidated, and the money if prices are known."""

    freed: int
    invalidated: int
    break_even: int | None
    calls: int
    latency_ms: float | None
    sentence: str
    money: CompactionMoney | None = None


def cache_effect(check: Check, calls: int, rates: CompactionRates | None = None) -> CacheEffect:
    """Return the effect of a compaction after `calls` later calls."""
    freed = check.freed_tokens
    pruned, summary = check.event(PrunedMessagesEvent), check.event(SummaryCreatedEvent)
    cache = (pruned and pruned.cache) or {}
    invalidated = to_count(cache.get("invalidated_tokens"))
    calls_needed = cache.get("break_even_calls")
    break_even = int(calls_needed) if isinstance(calls_needed, int | float) else None
    money = _money(check, invalidated, calls, rates) if rates is not None and check.after is not None else None
    if money is not None and money.break_even is not None:
        # The client assumes typical prices. These are the prices of the model.
        break_even = money.break_even
    return CacheEffect(
        freed=freed,
        invalidated=invalidated,
        break_even=break_even,
        calls=calls,
        latency_ms=summary.latency_ms if summary is not None else None,
        sentence=" ".join(_sentences(freed, invalidated, break_even, calls, money))
        if check.after is not None
        else "The client didn't report the size of the prompt afterward.",
        money=money,
    )


def _money(check: Check, invalidated: int, calls: int, rates: CompactionRates) -> CompactionMoney:
    before, after = check.before, check.after or 0
    kept_prefix = max(0, before - invalidated) if invalidated else 0
    # Without caching, the prompt is sent and billed in full on every call, before and after.
    sent_again = max(0, after - kept_prefix) if rates.is_cached else 0
    per_token_before = rates.before.cached if rates.is_cached else rates.before.input
    per_token_after = rates.after.cached if rates.is_cached else rates.after.input
    summary: Decimal | None = Decimal(0)
    if rates.summary_model:
        summary = _summary_cost(check, rates.summary)
    saved_per_call = before * per_token_before - after * per_token_after
    return CompactionMoney(
        model=rates.model,
        rates=rates.after,
        sent_again=sent_again,
        cache_lost=sent_again * max(Decimal(0), rates.after.cache_write - rates.after.cached),
        summary_model=rates.summary_model,
        summary=summary,
        saved_per_call=saved_per_call,
        saved=calls * saved_per_call,
        is_cached=rates.is_cached,
    )


def _summary_cost(check: Check, rates: Rates | None) -> Decimal | None:
    if rates is None:
        return None
    cost = Decimal(0)
    for span in check.spans_of(SUMMARY, DISCARDED_SUMMARY):
        if span.data.get("model"):
            cost += rates.request + to_count(span.data.get("input_tokens")) * rates.input
            cost += to_count(span.data.get("summary_tokens")) * rates.output
    return cost


def _sentences(
    freed: int, invalidated: int, break_even: int | None, calls: int, money: CompactionMoney | None
) -> list[str]:
    sentences = [f"Each later prompt is {freed:,} tokens smaller." if freed else "Later prompts are not smaller."]
    if money is not None and money.saved_per_call > 0:
        sentences = [f"Each later prompt is {freed:,} tokens smaller and saves {format_price(money.saved_per_call)}."]
    # Without cached tokens in the usage of the calls there was no cache to lose.
    if invalidated and (money is None or money.is_cached):
        sent_again = f" {money.sent_again:,} tokens were sent again uncached." if money is not None else ""
        sentences.append(f"It invalidated {invalidated:,} tokens in the provider's prompt cache.{sent_again}")
    elif money is not None and money.sent_again:
        sentences.append(
            "The client didn't report what it invalidated in the provider's prompt cache, so the whole prompt counts "
            "as sent again."
        )
    if break_even is not None:
        sentences.append(_describe_break_even(break_even, calls))
    return sentences


def _describe_break_even(break_even: int, calls: int) -> str:
    if break_even == 0:
        return "It saves from the first call on."
    needed, so_far = format_count(break_even, "call"), format_count(calls, "call")
    if calls >= break_even:
        return f"It broke even after {needed}, and {calls:,} followed."
    return f"It breaks even after {needed}. So far, {so_far} followed."
