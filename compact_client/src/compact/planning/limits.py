"""Token limits of a compaction, derived from the policy, the window and the session's growth."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

from compact.policy import CompactPolicy

# Shares of the trigger that a compacted request may fill. A session without measured growth arrives with its whole
# history, so there is no reason yet to reserve space for the next calls.
_SOFT_LIMIT_PCT = 0.92
_FIRST_SOFT_LIMIT_PCT = 0.99
# Share of the trigger at which the ladder may stop, whatever `target_pct` says.
_TARGET_OF_TRIGGER_PCT = 0.7
# Share of the space beside instructions and pinned messages that a request may always fill. Reserving more of it for
# later calls would cost too much memory.
_MIN_CEILING_PCT = 0.6


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """Limits of a request, in tokens as the estimator counts them."""

    budget_tokens: int
    """Hard limit of the request."""
    target_tokens: int
    """The ladder stops once the request is at most this large."""
    soft_limit_tokens: int
    """Limit for kept messages plus an average summary. It is just below the trigger."""
    summary_ceiling_tokens: int
    """Size up to which a summary may fill the request. It leaves space for the session's next calls."""
    story_ceiling_tokens: int = sys.maxsize
    """Size up to which older messages that stay may fill the request. In a running session, it is the target, because
    the prompt would otherwise hardly get smaller in a large window."""

    def reserve(self, tokens: int) -> TokenLimits:
        """Return limits that leave space for content that is added after the compaction."""
        return TokenLimits(
            self.budget_tokens - tokens,
            min(self.target_tokens, self.budget_tokens - tokens),
            min(self.soft_limit_tokens, self.budget_tokens - tokens),
            min(self.summary_ceiling_tokens, self.budget_tokens - tokens),
            min(self.story_ceiling_tokens, self.budget_tokens - tokens),
        )

    def beside(self, pinned_tokens: int, *, summary_tokens: int = 0, room_pct: float = 0.0) -> TokenLimits:
        """Return limits that leave enough beside instructions and pinned messages.

        A share of that space is never reserved for later calls. An existing summary keeps its length, if its share
        `room_pct` of the space allows it, because what a summary drops is lost for all later rounds.
        """
        least = int((self.budget_tokens - pinned_tokens) * _MIN_CEILING_PCT)
        with_summary = int(summary_tokens / room_pct) if room_pct else 0
        ceiling = max(self.summary_ceiling_tokens, pinned_tokens + max(least, with_summary))
        return replace(self, summary_ceiling_tokens=min(self.soft_limit_tokens, ceiling))

    def scale(self, factor: float) -> TokenLimits:
        return TokenLimits(
            int(self.budget_tokens * factor),
            int(self.target_tokens * factor),
            int(self.soft_limit_tokens * factor),
            int(self.summary_ceiling_tokens * factor),
            int(self.story_ceiling_tokens * factor),
        )


def limits_for(
    policy: CompactPolicy,
    window_tokens: int | None,
    trigger_tokens: int | None,
    growth_tokens: float = 0.0,
    *,
    budget_tokens: int | None = None,
    used_tokens: int = 0,
) -> TokenLimits:
    """Return the limits that a policy sets for a window.

    If the window is unknown, `auto_compact_token_limit` is used in its place, or the request itself, so that only the
    policy's own numbers of turns and tool pairs decide what a manual compaction keeps.

    `growth_tokens` is the average number of tokens that a call of this session adds, or 0 if it has not been measured.
    `budget_tokens` replaces the window minus the policy's buffer.
    """
    window = window_tokens or policy.auto_compact_token_limit or used_tokens
    budget = window if window_tokens is None else window - policy.hard_cap_buffer
    budget = budget if budget_tokens is None else budget_tokens
    trigger = window if trigger_tokens is None else trigger_tokens
    soft_limit = int(min(budget, trigger) * (_SOFT_LIMIT_PCT if growth_tokens else _FIRST_SOFT_LIMIT_PCT))
    space_for_calls = int(policy.headroom_calls * growth_tokens)
    target = min(budget, int(window * policy.target_pct), int(trigger * _TARGET_OF_TRIGGER_PCT))
    return TokenLimits(
        budget_tokens=budget,
        target_tokens=target,
        soft_limit_tokens=soft_limit,
        summary_ceiling_tokens=min(soft_limit, max(0, trigger - space_for_calls)),
        story_ceiling_tokens=target if growth_tokens else soft_limit,
    )


def planned_growth(
    policy: CompactPolicy, window_tokens: int | None, trigger_tokens: int | None, *, average: float, median: float
) -> float:
    """Return the growth per call that a compaction leaves space for, as `limits_for` expects it.

    0 if not even the median call fits into the space that can be left: the next call compacts again anyway.
    """
    window = window_tokens or policy.auto_compact_token_limit or 0
    trigger = window if trigger_tokens is None else trigger_tokens
    return average if median <= trigger - int(window * _MIN_CEILING_PCT) else 0.0
