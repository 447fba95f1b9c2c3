"""Decide whether to compact, and give the reason.

Pure: the same usage and policy always give the same decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal, NamedTuple

from compact.policy import CompactPolicy

Rule = Literal[
    "manual",
    "token_limit",
    "tokens_left",
    "trigger_pct",
    "min_left_pct",
    "soft_trigger_pct",
    "budget",
    "below",
    "unknown_window",
    "overflow",
]
# A buffer above this share was chosen for a larger window. It does not trigger a compaction.
_MAX_BUFFER_PCT = 0.25


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision, the rule that made it, and the distance to the nearest rule."""

    triggered: bool
    rule: Rule
    reason: str
    used_tokens: int
    trigger_tokens: int | None
    """The token count at which the nearest rule fires, or None if no rule can fire."""

    @property
    def margin_tokens(self) -> int | None:
        """Tokens left before the nearest rule fires. Negative if it has fired."""
        return None if self.trigger_tokens is None else self.trigger_tokens - self.used_tokens


class _Threshold(NamedTuple):
    rule: Rule
    tokens: int
    description: str


def decide(
    used_tokens: int,
    *,
    window_tokens: int | None,
    policy: CompactPolicy,
    at_turn_start: bool = True,
    is_manual: bool = False,
) -> Decision:
    """Decide whether a request of `used_tokens` is compacted before it is sent."""
    thresholds = _thresholds(window_tokens, policy, at_turn_start=at_turn_start)
    nearest = min(thresholds, key=lambda threshold: threshold.tokens, default=None)
    if is_manual:
        return Decision(True, "manual", "requested by the caller", used_tokens, nearest.tokens if nearest else None)
    if nearest is None:
        reason = "the window is unknown and auto_compact_token_limit is not set, so no rule can fire"
        return Decision(False, "unknown_window", reason, used_tokens, None)
    usage = f"{used_tokens:,} tokens"
    if window_tokens:
        usage += f" are {used_tokens / window_tokens:.1%} of {window_tokens:,}"
    # Reaching the threshold counts: 108,800 of 128,000 at 0.85 compacts.
    if used_tokens >= nearest.tokens:
        reason = f"{usage}: at or over {nearest.tokens:,} ({nearest.description})"
        return Decision(True, nearest.rule, reason, used_tokens, nearest.tokens)
    reason = f"{usage}: {nearest.tokens - used_tokens:,} below {nearest.tokens:,} ({nearest.description})"
    return Decision(False, "below", reason, used_tokens, nearest.tokens)


def _thresholds(window_tokens: int | None, policy: CompactPolicy, *, at_turn_start: bool) -> list[_Threshold]:
    thresholds: list[_Threshold] = []
    if window_tokens is not None:
        thresholds += _window_thresholds(window_tokens, policy, at_turn_start=at_turn_start)
    if policy.auto_compact_token_limit is not None:
        thresholds.append(_Threshold("token_limit", policy.auto_compact_token_limit, "auto_compact_token_limit"))
    return thresholds


def _window_thresholds(window_tokens: int, policy: CompactPolicy, *, at_turn_start: bool) -> list[_Threshold]:
    """Return the thresholds that depend on the window."""
    pct = policy.trigger_pct
    thresholds = [_Threshold("trigger_pct", _share(window_tokens, pct), f"trigger_pct {pct:g}")]
    if policy.min_left_pct > 0:
        tokens = _share(window_tokens, 1 - policy.min_left_pct)
        thresholds.append(_Threshold("min_left_pct", tokens, f"at most {policy.min_left_pct:.0%} of the window left"))
    if policy.hard_cap_buffer <= window_tokens * _MAX_BUFFER_PCT:
        budget = window_tokens - policy.hard_cap_buffer
        thresholds.append(_Threshold("budget", budget + 1, f"over the budget of {budget:,}"))
    if policy.trigger_tokens_left is not None:
        tokens = max(0, window_tokens - policy.trigger_tokens_left)
        thresholds.append(_Threshold("tokens_left", tokens, f"at most {policy.trigger_tokens_left:,} tokens left"))
    if policy.soft_trigger_pct is not None and at_turn_start:
        pct = policy.soft_trigger_pct
        thresholds.append(
            _Threshold("soft_trigger_pct", _share(window_tokens, pct), f"new turn above soft_trigger_pct {pct:g}")
        )
    return thresholds


def _share(window_tokens: int, pct: float) -> int:
    # Round up, so that `used / window >= pct` is true exactly when `used >= tokens`. Rounding to 6 digits first removes
    # floating-point errors such as in 0.85 * 128000.
    return ceil(round(window_tokens * pct, 6))
