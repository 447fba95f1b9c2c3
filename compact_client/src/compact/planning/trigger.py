"""Decide whether to compact, and say why.

Pure: the same usage and policy always give the same decision. The manager emits it; nobody else acts on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

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
]
# A buffer larger than this was chosen for another window; there the percentage alone decides.
_LARGEST_BUFFER_PCT = 0.25


@dataclass(frozen=True, slots=True)
class Decision:
    """Yes or no, the rule that decided, and how far away the nearest rule was."""

    triggered: bool
    rule: Rule
    reason: str
    used_tokens: int
    trigger_tokens: int | None
    """Where the nearest rule fires; None when no rule can."""

    @property
    def margin_tokens(self) -> int | None:
        """Tokens left before the nearest rule fires; negative once it has."""
        return None if self.trigger_tokens is None else self.trigger_tokens - self.used_tokens


def decide(
    used_tokens: int,
    *,
    window_tokens: int | None,
    policy: CompactPolicy,
    at_turn_start: bool = True,
    is_manual: bool = False,
) -> Decision:
    """Whether a request of `used_tokens` should be compacted before it is sent."""
    thresholds = _thresholds(window_tokens, policy, at_turn_start=at_turn_start)
    nearest = min(thresholds, key=lambda item: item[1], default=None)
    trigger_tokens = nearest[1] if nearest else None
    if is_manual:
        return Decision(True, "manual", "asked for by the caller", used_tokens, trigger_tokens)
    if nearest is None:
        reason = "the window is unknown and no auto_compact_token_limit is set, so nothing can trigger"
        return Decision(False, "unknown_window", reason, used_tokens, None)
    rule, tokens, says = nearest
    usage = f"{used_tokens:,} tokens"
    if window_tokens:
        usage += f" are {used_tokens / window_tokens:.1%} of {window_tokens:,}"
    # Reaching the threshold counts: 108,800 of 128,000 at 0.85 compacts.
    if used_tokens >= tokens:
        return Decision(True, rule, f"{usage}: at or over {tokens:,} ({says})", used_tokens, tokens)
    reason = f"{usage}: {tokens - used_tokens:,} below {tokens:,} ({says})"
    return Decision(False, "below", reason, used_tokens, tokens)


def _thresholds(
    window_tokens: int | None, policy: CompactPolicy, *, at_turn_start: bool
) -> list[tuple[Rule, int, str]]:
    found: list[tuple[Rule, int, str]] = []
    if window_tokens is not None:
        found.append(("trigger_pct", _share(window_tokens, policy.trigger_pct), f"trigger_pct {policy.trigger_pct:g}"))
        if policy.min_left_pct > 0:
            left = ceil(round(window_tokens * (1 - policy.min_left_pct), 6))
            found.append(("min_left_pct", left, f"at most {policy.min_left_pct:.0%} of the window left"))
        if policy.hard_cap_buffer <= window_tokens * _LARGEST_BUFFER_PCT:
            budget = window_tokens - policy.hard_cap_buffer
            found.append(("budget", budget + 1, f"over the budget of {budget:,}"))
        if policy.trigger_tokens_left is not None:
            tokens = max(0, window_tokens - policy.trigger_tokens_left)
            found.append(("tokens_left", tokens, f"at most {policy.trigger_tokens_left:,} tokens left"))
        if policy.soft_trigger_pct is not None and at_turn_start:
            tokens = _share(window_tokens, policy.soft_trigger_pct)
            found.append(("soft_trigger_pct", tokens, f"a new turn above soft_trigger_pct {policy.soft_trigger_pct:g}"))
    if policy.auto_compact_token_limit is not None:
        found.append(("token_limit", policy.auto_compact_token_limit, "auto_compact_token_limit"))
    return found


def _share(window_tokens: int, pct: float) -> int:
    # Rounded up, so that `used / window >= pct` holds exactly when `used >= tokens`; 6 digits absorb 0.85 * 128000.
    return ceil(round(window_tokens * pct, 6))
