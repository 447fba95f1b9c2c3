"""Draft a compaction: what stays, what goes, and how long the summary may be.

Pure arithmetic over counts that are already known. It finds out before any summary is made whether the budget can
be met at all, and says so with the numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from compact.exceptions import InsufficientBudget
from compact.messages import Message
from compact.messages.units import Unit, group_units
from compact.planning.non_replayable import hold, with_held
from compact.planning.partition import Partition, partition, partition_for_bridge, pin_rules, reductions
from compact.planning.pruning import prune
from compact.policy import CompactPolicy

MIN_SUMMARY_TOKENS = 96  # limits for the tag, the version line and a few lines; below that a summary says nothing
SMALL_SUMMARY_TOKENS = 400
LEAST_RATIO = 0.2  # of what is summarised: shorter than that, a summary by hand is not worth having
HEADROOM = 0.92  # of the trigger, for a session whose pace is known
FIRST_HEADROOM = 0.99  # for one that comes with its whole history: nobody knows yet how fast it grows
LEAST_SHARE = 0.125  # of the limits beside what is pinned: below that, a summary of a long history says too little
LEAST_TARGET_PCT = 0.45  # of the window: below that, limits for later is bought with too much memory


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """The limits of a request, in the planner's own tokens."""

    budget_tokens: int
    target_tokens: int
    """Where a rung of the ladder may stop."""
    soft_limit_tokens: int
    """What is kept and a summary of the usual size should not pass: just below the trigger."""
    summary_ceiling_tokens: int
    """How far a summary may fill the request: it leaves some calls at the session's own pace."""

    def scale(self, factor: float) -> TokenLimits:
        return TokenLimits(
            int(self.budget_tokens * factor),
            int(self.target_tokens * factor),
            int(self.soft_limit_tokens * factor),
            int(self.summary_ceiling_tokens * factor),
        )


@dataclass(frozen=True, slots=True)
class Draft:
    """A compaction that will fit: its units, the reductions it took, and the summary's limit."""

    limits: TokenLimits
    """The limits it was made for."""
    partition: Partition
    units: tuple[Unit, ...]
    sizes: Mapping[int, int]
    """The tokens of each unit, by its first place."""
    reductions: tuple[str, ...]
    summary_tokens: int
    """The longest summary that fits; 0 means there is no limits for one."""
    fixed_tokens: int
    pinned_tokens: int
    recent_tokens: int
    remainder_tokens: int
    evicted: tuple[Unit, ...] = ()
    """Results that cannot be had again and that the budget could not hold."""
    folds_replacements: bool = False
    """What stands for earlier spans takes all the limits there is for summaries: it becomes one summary."""


def limits_for(
    policy: CompactPolicy, window_tokens: int | None, trigger_tokens: int | None, growth_tokens: float = 0.0
) -> TokenLimits:
    """The limits a policy sets for a window; with an unknown window the configured limit stands for it.

    `growth_tokens` is what a call of this session adds on average; 0 while that is not known.
    """
    window = window_tokens or policy.auto_compact_token_limit or 0
    budget = window if window_tokens is None else window - policy.hard_cap_buffer
    trigger = window if trigger_tokens is None else trigger_tokens
    comfort = int(min(budget, trigger) * (HEADROOM if growth_tokens else FIRST_HEADROOM))
    paced = trigger - int(policy.headroom_calls * growth_tokens)
    return TokenLimits(
        budget,
        min(budget, int(window * policy.target_pct), int(trigger * 0.7)),
        comfort,
        min(comfort, max(paced, int(window * LEAST_TARGET_PCT))),
    )


def draft_compaction(
    messages: Sequence[Message],
    counts: Sequence[int],
    *,
    policy: CompactPolicy,
    limits: TokenLimits,
    fixed_tokens: int,
    removed_tokens: int = 0,
    replacement_tokens: int = 0,
    protected_ids: Collection[str] = (),
    non_replayable_ids: Collection[str] = (),
    goal_tokens: int | None = None,
    keep_only_newest: bool = False,
) -> Draft:
    """The mildest partition whose kept part and summary fit the budget.

    `keep_only_newest` starts below the floor, for a summary that needs all the space. `goal_tokens` is where a
    caller who compacts by hand wants the request to end, if a short summary can do it.

    `removed_tokens` were compacted before, `replacement_tokens` are messages that stand for them and stay as they are
    while the summaries' share of the limits holds them.
    Raises `InsufficientBudget` when even the floor does not fit.
    """
    units = group_units(messages)
    sizes = {unit.first: sum(counts[index] for index in unit.indices) for unit in units}
    pins = pin_rules(units, messages, policy, protected_ids)
    must_stay = fixed_tokens + sum(sizes[first] for first in pins)
    folds_replacements = replacement_tokens > max(0, _summary_share(policy, limits, must_stay))
    base = fixed_tokens + (0 if folds_replacements else replacement_tokens)
    pinned_tokens = must_stay - fixed_tokens + base
    newest = _require_floor(units, sizes, pins, limits, base, pinned_tokens)
    reserve = pinned_tokens + (sizes[newest.first] if newest else 0) + SMALL_SUMMARY_TOKENS
    holding = hold(
        [unit for unit in units if unit.first not in pins and unit is not newest],
        messages,
        sizes,
        non_replayable_ids,
        budget_tokens=limits.budget_tokens - reserve,
        soft_limit_tokens=limits.soft_limit_tokens - reserve,
    )
    held_tokens = sum(sizes[first] for first in holding.held)

    lines: list[str] = []
    latest: Draft | None = None
    for found, line, is_floor in _partitions(
        messages, counts, units, pins, policy, limits, pinned_tokens + held_tokens
    ):
        part = with_held(found, holding.held)
        if line:
            lines.append(line)
        if keep_only_newest and part.keep_turns > 0:
            continue
        recent_tokens = sum(sizes[unit.first] for unit in part.recent)
        remainder_tokens = sum(sizes[unit.first] for unit in part.remainder)
        covered = removed_tokens + remainder_tokens
        # At the floor a short summary is better than giving up one more message.
        wish = MIN_SUMMARY_TOKENS if is_floor and covered else _summary_wish(policy, limits, pinned_tokens, covered)
        latest = Draft(
            limits,
            part,
            tuple(units),
            sizes,
            tuple(lines),
            wish,
            fixed_tokens,
            pinned_tokens,
            recent_tokens,
            remainder_tokens,
            tuple(unit for unit in holding.released if unit in part.remainder),
            folds_replacements,
        )
        if is_floor and part.keep_turns >= 0 and _is_squeezed(latest, limits, covered):
            continue
        # Reductions aim below the trigger, so that the next call does not compact again; the floor only at the budget.
        if pinned_tokens + recent_tokens + wish <= (limits.budget_tokens if is_floor else limits.soft_limit_tokens):
            # What the recent messages leave unused goes to the summary, up to where the next call would trigger.
            most = min(policy.summary_max_tokens, _share_of(covered, policy))
            if goal_tokens is not None:
                most = min(most, max(int(covered * LEAST_RATIO), goal_tokens - pinned_tokens - recent_tokens))
                wish = min(wish, max(MIN_SUMMARY_TOKENS, most))
            roof = limits.soft_limit_tokens if is_floor else limits.summary_ceiling_tokens
            if is_floor and roof - pinned_tokens - recent_tokens < (limits.budget_tokens - pinned_tokens) // 4:
                # Large recent messages leave the summary almost nothing: memory is worth more than a rest.
                roof = limits.budget_tokens
            return replace(latest, summary_tokens=max(wish, min(most, roof - pinned_tokens - recent_tokens)))
    assert latest is not None
    return _at_floor(latest, limits)


def _partitions(
    messages: Sequence[Message],
    counts: Sequence[int],
    units: Sequence[Unit],
    pins: dict[int, str],
    policy: CompactPolicy,
    limits: TokenLimits,
    pinned_tokens: int,
) -> Iterator[tuple[Partition, str, bool]]:
    """What could be kept, most first, the line that names each reduction, and whether it is at the floor."""
    if policy.renderer == "bridge":
        users = min(policy.user_message_tokens, max(0, (limits.soft_limit_tokens - pinned_tokens) // 2))
        while True:
            part = partition_for_bridge(messages, policy, counts=counts, user_tokens=users, units=units, pins=pins)
            yield part, "", users == 0
            if users == 0:
                return
            users = users // 2 if users > 100 else 0
    for turns, pairs, line in reductions(policy):
        part = partition(messages, policy, keep_turns=turns, keep_pairs=pairs, units=units, pins=pins)
        yield (
            prune(part, messages, counts, policy, limits.soft_limit_tokens - pinned_tokens),
            line,
            turns <= 1 and pairs <= 1,
        )


def _summary_wish(policy: CompactPolicy, limits: TokenLimits, pinned_tokens: int, removed_tokens: int) -> int:
    if removed_tokens == 0:
        return 0
    share = _summary_share(policy, limits, pinned_tokens)
    return max(MIN_SUMMARY_TOKENS, min(share, policy.summary_max_tokens, _share_of(removed_tokens, policy)))


def _summary_share(policy: CompactPolicy, limits: TokenLimits, pinned_tokens: int) -> int:
    return int((limits.summary_ceiling_tokens - pinned_tokens) * policy.summary_room_pct)


def _is_squeezed(latest: Draft, limits: TokenLimits, removed_tokens: int) -> bool:
    """Whether one large recent message would leave next to nothing of all that went before it."""
    free = limits.budget_tokens - latest.pinned_tokens
    return free - latest.recent_tokens < min(LEAST_SHARE * free, removed_tokens // 4)


def _share_of(removed_tokens: int, policy: CompactPolicy) -> int:
    """The policy's share of what is summarised; of little text half, for there a share would say nothing."""
    least = max(MIN_SUMMARY_TOKENS, min(SMALL_SUMMARY_TOKENS, removed_tokens // 2))
    return max(least, int(removed_tokens * policy.summary_ratio))


def _at_floor(latest: Draft, limits: TokenLimits) -> Draft:
    left = limits.budget_tokens - latest.pinned_tokens - latest.recent_tokens
    if left < 0:
        raise InsufficientBudget(
            needed_tokens=latest.pinned_tokens + latest.recent_tokens,
            budget_tokens=limits.budget_tokens,
            parts={
                "instructions and tools": latest.fixed_tokens,
                "pinned messages": latest.pinned_tokens - latest.fixed_tokens,
                "newest turn and tool pair": latest.recent_tokens,
            },
            detail="protected messages, one turn and one tool pair",
        )
    return replace(latest, summary_tokens=left if left >= MIN_SUMMARY_TOKENS else 0)


def _require_floor(
    units: Sequence[Unit],
    sizes: dict[int, int],
    pins: dict[int, str],
    limits: TokenLimits,
    base: int,
    pinned_tokens: int,
) -> Unit | None:
    """The newest unit that is not pinned; refuses at once what no summary could ever make fit."""
    newest = max((unit for unit in units if unit.first not in pins), key=lambda unit: unit.last, default=None)
    newest_tokens = sizes[newest.first] if newest else 0
    if pinned_tokens + newest_tokens > limits.budget_tokens:
        raise InsufficientBudget(
            needed_tokens=pinned_tokens + newest_tokens,
            budget_tokens=limits.budget_tokens,
            parts={
                "instructions and tools": base,
                "pinned messages": pinned_tokens - base,
                "newest unit": newest_tokens,
            },
            detail="protected messages" if not newest_tokens else "protected messages and the newest unit",
        )
    return newest
