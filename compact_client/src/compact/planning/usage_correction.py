"""Correct our token counts by the provider's: a constant overhead, and a factor.

A provider adds hidden tokens to every request, such as its own instructions, and its tokenizer may differ from ours.
One report cannot tell the two apart, so its difference counts as overhead up to a limit. Several reports of
requests with different sizes can: their slope is the factor.
"""

from __future__ import annotations

import statistics
from collections import deque
from itertools import combinations

from compact.planning.limits import TokenLimits

_MAX_SAMPLES = 8
# Hidden instructions and tool definitions of the large providers are below this.
_MAX_ASSUMED_OVERHEAD = 1_500
_MIN_FACTOR, _MAX_FACTOR = 0.5, 4.0
# Requests whose sizes differ less than this say nothing about the factor.
_MIN_DISTANCE_TOKENS = 200
_MIN_DISTANCE_PCT = 0.05


class UsageCorrection:
    """The relation between our counts and the provider's in one session."""

    def __init__(self) -> None:
        self.overhead_tokens = 0
        self.factor = 1.0
        self._samples: deque[tuple[int, int]] = deque(maxlen=_MAX_SAMPLES)

    @property
    def has_samples(self) -> bool:
        """True once a provider reported its count."""
        return bool(self._samples)

    def observe_overflow(self, own_tokens: int, reported_tokens: int) -> None:
        """Learn from a rejected request.

        Without other requests to compare with, its difference is a factor, because more overhead would leave no budget.
        """
        if own_tokens <= 0 or reported_tokens <= 0:
            return
        self._samples.append((own_tokens, reported_tokens))
        slope = self._slope()
        overhead = self.overhead_tokens if slope is None else max(0, round(reported_tokens - slope * own_tokens))
        self.overhead_tokens = min(overhead, reported_tokens // 2)
        self.factor = _clamp((reported_tokens - self.overhead_tokens) / own_tokens)

    def observe(self, own_tokens: int, reported_tokens: int) -> None:
        """Learn from one request. Reports of zero and of unknown requests are ignored."""
        if own_tokens <= 0 or reported_tokens <= 0:
            return
        self._samples.append((own_tokens, reported_tokens))
        slope = self._slope()
        if slope is None:
            overhead = min(max(0, reported_tokens - own_tokens), _MAX_ASSUMED_OVERHEAD)
        else:
            overhead = max(0, round(reported_tokens - slope * own_tokens))
        # The newest request has exactly the reported tokens, unless that is implausible.
        self.overhead_tokens = overhead
        self.factor = _clamp((reported_tokens - overhead) / own_tokens)

    def apply(self, own_tokens: int) -> int:
        """Return the provider's tokens of a request."""
        return round(own_tokens * self.factor) + self.overhead_tokens

    def revert(self, tokens: int) -> int:
        """Return our tokens of a request, given the provider's."""
        return max(0, round((tokens - self.overhead_tokens) / self.factor))

    def revert_limits(self, limits: TokenLimits) -> TokenLimits:
        """Return limits in our tokens, given limits in the provider's."""
        if self.overhead_tokens == 0 and self.factor == 1.0:
            return limits
        return TokenLimits(
            self.revert(limits.budget_tokens),
            self.revert(limits.target_tokens),
            self.revert(limits.soft_limit_tokens),
            self.revert(limits.summary_ceiling_tokens),
            self.revert(limits.story_ceiling_tokens),
        )

    def _slope(self) -> float | None:
        """Return the median slope between requests of different sizes, which one odd report does not change."""
        slopes = [
            (second[1] - first[1]) / (second[0] - first[0])
            for first, second in combinations(self._samples, 2)
            if abs(second[0] - first[0]) >= max(_MIN_DISTANCE_TOKENS, _MIN_DISTANCE_PCT * max(first[0], second[0]))
        ]
        return _clamp(statistics.median(slopes)) if slopes else None


def _clamp(factor: float) -> float:
    return min(_MAX_FACTOR, max(_MIN_FACTOR, factor))
