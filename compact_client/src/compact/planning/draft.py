"""Draft a compaction: decide which units stay and how long the summary may be.

Pure arithmetic over known token counts. If the budget cannot be met, the draft fails with the numbers before any
summary is written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from compact.exceptions import InsufficientBudget
from compact.messages.units import Unit
from compact.planning.limits import TokenLimits
from compact.planning.partition import Partition, newest_unit
from compact.planning.partition_search import Conversation, PartitionSearch, SearchStart, Step
from compact.planning.story import RULE as STORY_RULE
from compact.planning.tool_results.non_replayable import RULE, NonReplayableUnits, select_non_replayable
from compact.policy import CompactPolicy, Floor

MIN_SUMMARY_TOKENS = 96
"""The tag, the version line and a few lines of text. A shorter summary is useless."""
SMALL_SUMMARY_TOKENS = 400
# A manual compaction does not shorten a summary below this share of the text that it covers.
_MIN_MANUAL_RATIO = 0.2
# A manual compaction reduces the recent window if everything older is less than this share of it.
_MIN_MANUAL_SHARE = 0.05
# Share of the unpinned budget below which a summary of a long history says too little.
_MIN_SUMMARY_SHARE = 0.125

Partitions = Callable[[PartitionSearch], Iterator[Step]]
"""Yields partitions that keep less and less. Each layout of the prompt has its own."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A compaction that fits the budget."""

    limits: TokenLimits
    partition: Partition
    units: tuple[Unit, ...]
    sizes: Mapping[int, int]
    """The tokens of each unit, by its first index."""
    reductions: tuple[str, ...]
    """The reasons for keeping less than the policy asks for, in order."""
    summary_tokens: int
    """Maximum length of the summary. 0 if no summary fits."""
    fixed_tokens: int
    """Tokens that are sent with every request: tools, instructions and schema."""
    pinned_tokens: int
    """Tokens that no reduction can remove: fixed tokens, pinned units, and replacements that are not folded."""
    recent_tokens: int
    remainder_tokens: int
    """Tokens that leave the prompt, also those of truncated user messages."""
    wanted_summary_tokens: int
    """Length of a summary that has its share of the budget. At the floor, there may be less room."""
    evicted: tuple[Unit, ...] = ()
    """Units with non-replayable results that do not fit the budget."""
    folds_replacements: bool = False
    """True if the summaries and pointers of earlier compactions use up the summary's share of the budget. They are
    then merged into one summary."""

    @property
    def is_reduced(self) -> bool:
        """True if the draft keeps less than the policy asks for."""
        return bool(self.reductions)

    @property
    def kept_tokens(self) -> int:
        """Tokens of the request without its summary."""
        return self.pinned_tokens + self.recent_tokens

    @property
    def lacks_summary_room(self) -> bool:
        """True if the kept messages leave the summary less than its share of the budget."""
        return self.limits.budget_tokens - self.kept_tokens < self.wanted_summary_tokens


class EarlierTokens(NamedTuple):
    """Tokens that were removed from the prompt before this draft, and of the summaries and pointers in their place."""

    removed: int
    replacements: int
    summary: int = 0
    """Tokens of the summary that should keep its length."""


def draft_compaction(
    conversation: Conversation,
    *,
    partitions: Partitions,
    policy: CompactPolicy,
    limits: TokenLimits,
    fixed_tokens: int,
    earlier: EarlierTokens,
    non_replayable_ids: Collection[str] = (),
    goal_tokens: int | None = None,
    floor: Floor = "turn",
    start: SearchStart = "policy",
    keep_least: bool = False,
    story: Collection[int] = (),
) -> Draft:
    """Return the draft that keeps the most messages and fits the budget.

    `partitions` is the search of the renderer. `goal_tokens` is the request size that a manual compaction tries to
    reach by shortening the summary. `start` is the most that is tried, and `floor` the least that may be kept.
    `keep_least` skips every draft above that floor, for a summary that needs as much space as possible.
    `story` are the first indices of older units to keep in the room that a short summary leaves, newest first.

    Raises `InsufficientBudget` if even the smallest draft does not fit.
    """
    units, pins, sizes = conversation.units, conversation.pins, conversation.sizes
    pin_tokens = sum(sizes[first] for first in pins)
    limits = limits.beside(fixed_tokens + pin_tokens, summary_tokens=earlier.summary, room_pct=policy.summary_room_pct)
    summary_share = _summary_share(policy, limits, fixed_tokens + pin_tokens)

    def draft(*, folds_replacements: bool) -> Draft:
        overhead_tokens = fixed_tokens if folds_replacements else fixed_tokens + earlier.replacements
        pinned_tokens = overhead_tokens + pin_tokens
        free = [unit for unit in units if unit.first not in pins]
        newest = newest_unit(free) if free else None
        newest_tokens = sizes[newest.first] if newest else 0
        _require_space(limits, overhead_tokens, pin_tokens, newest_tokens)
        reserved_tokens = pinned_tokens + newest_tokens + SMALL_SUMMARY_TOKENS
        drafter = _Drafter(
            conversation=conversation,
            partitions=partitions,
            policy=policy,
            limits=limits,
            fixed_tokens=fixed_tokens,
            pinned_tokens=pinned_tokens,
            removed_tokens=earlier.removed,
            folds_replacements=folds_replacements,
            goal_tokens=goal_tokens,
            floor=floor,
            start=start,
            story=() if keep_least else story,
            non_replayable=select_non_replayable(
                [unit for unit in free if unit is not newest],
                conversation.messages,
                sizes,
                non_replayable_ids,
                budget_tokens=limits.budget_tokens - reserved_tokens,
                soft_limit_tokens=limits.soft_limit_tokens - reserved_tokens,
            ),
        )
        return drafter.draft(keep_least=keep_least)

    folds_replacements = earlier.replacements > max(0, summary_share)
    try:
        return draft(folds_replacements=folds_replacements)
    except InsufficientBudget:
        if folds_replacements or not earlier.replacements:
            raise
        # Earlier summaries and pointers are within their share, but the rest does not fit beside them.
        return draft(folds_replacements=True)


@dataclass(frozen=True, slots=True)
class _Drafter:
    """A measured conversation, and the search for the largest part of it that fits."""

    conversation: Conversation
    partitions: Partitions
    policy: CompactPolicy
    limits: TokenLimits
    fixed_tokens: int
    pinned_tokens: int
    removed_tokens: int
    folds_replacements: bool
    goal_tokens: int | None
    floor: Floor
    start: SearchStart
    story: Collection[int]
    non_replayable: NonReplayableUnits

    def draft(self, *, keep_least: bool) -> Draft:
        """Return the first draft that fits, or the smallest one with whatever the budget leaves for a summary."""
        smallest: Draft | None = None
        for draft, is_floor in self._drafts():
            smallest = draft
            if self._is_rejected(draft, keep_least=keep_least, is_floor=is_floor):
                continue
            # Ordinary drafts stay below the trigger, so that the next call does not compact again. At the floor, only
            # the budget counts.
            limit = self.limits.budget_tokens if is_floor else self.limits.soft_limit_tokens
            if draft.kept_tokens + draft.summary_tokens <= limit:
                return replace(draft, summary_tokens=self._largest_summary(draft, is_floor=is_floor))
        assert smallest is not None
        return _with_remaining_budget(smallest)

    def _is_rejected(self, draft: Draft, *, keep_least: bool, is_floor: bool) -> bool:
        """True if a draft cannot be the one, whatever its size."""
        if self.goal_tokens is not None and self._frees_too_little(draft, is_floor=is_floor):
            return True
        if keep_least and draft.partition.keep_turns > (1 if self.floor == "turn" else 0):
            return True
        return is_floor and draft.partition.keep_turns >= 0 and self._leaves_too_little(draft)

    def _frees_too_little(self, draft: Draft, *, is_floor: bool) -> bool:
        """True if a manual compaction must keep less than the policy asks for, because it would free nothing."""
        return not is_floor and draft.remainder_tokens < draft.kept_tokens * _MIN_MANUAL_SHARE

    def _drafts(self) -> Iterator[tuple[Draft, bool]]:
        """Yield drafts with the smallest acceptable summary, largest part first, and whether each is at the floor."""
        reasons: list[str] = []
        for partition, reason, is_floor in self._steps():
            if reason:
                reasons.append(reason)
            yield self._measure(partition, tuple(reasons), is_floor=is_floor), is_floor

    def _steps(self) -> Iterator[Step]:
        kept_tokens = self.pinned_tokens + self.conversation.tokens_of(self.non_replayable.kept)
        available_tokens = self.limits.soft_limit_tokens - kept_tokens
        search = PartitionSearch(self.conversation, self.policy, self.floor, available_tokens, self.start)
        for step in self.partitions(search):
            yield step._replace(partition=step.partition.keep(self.non_replayable.kept, RULE))

    def _measure(self, partition: Partition, reasons: tuple[str, ...], *, is_floor: bool) -> Draft:
        partition = partition.keep(self._story_units(partition), STORY_RULE)
        cut_tokens = partition.cut_tokens(self.conversation.sizes)
        remainder_tokens = self.conversation.tokens_of(partition.remainder) + cut_tokens
        wanted_tokens = self._wanted_summary(self.removed_tokens + remainder_tokens)
        return Draft(
            limits=self.limits,
            partition=partition,
            units=tuple(self.conversation.units),
            sizes=self.conversation.sizes,
            reductions=reasons,
            # At the floor, a short summary is better than removing one more message.
            summary_tokens=min(MIN_SUMMARY_TOKENS, wanted_tokens) if is_floor else wanted_tokens,
            fixed_tokens=self.fixed_tokens,
            pinned_tokens=self.pinned_tokens,
            recent_tokens=self.conversation.tokens_of(partition.recent) - cut_tokens,
            remainder_tokens=remainder_tokens,
            wanted_summary_tokens=wanted_tokens,
            evicted=tuple(unit for unit in self.non_replayable.evicted if unit in partition.remainder),
            folds_replacements=self.folds_replacements,
        )

    def _story_units(self, partition: Partition) -> list[Unit]:
        """Return the units of the story that a partition has room for, newest first."""
        kept_tokens = self.conversation.tokens_of(partition.recent) - partition.cut_tokens(self.conversation.sizes)
        left = story_room(self.policy, self.limits, self.pinned_tokens, kept_tokens, self.goal_tokens)
        units = []
        for unit in reversed(partition.remainder):
            if unit.first in self.story:
                left -= self.conversation.sizes[unit.first]
                if left < 0:
                    break
                units.append(unit)
        return units

    def _wanted_summary(self, covered_tokens: int) -> int:
        """Return the length of a summary of this many tokens that has its share of the budget."""
        if covered_tokens == 0:
            return 0
        share = _summary_share(self.policy, self.limits, self.pinned_tokens)
        if self.start == "everything":
            # The messages come first, and the summary gets what they leave.
            share = min(share, int((self.limits.budget_tokens - self.pinned_tokens) * _MIN_SUMMARY_SHARE))
        if self.story:
            share = min(share, int(_story_limit(self.limits, self.pinned_tokens) * (1 - self.policy.story_pct)))
        return max(MIN_SUMMARY_TOKENS, min(share, self._useful_summary(covered_tokens)))

    def _largest_summary(self, draft: Draft, *, is_floor: bool) -> int:
        """Return the summary length that uses the space which the recent messages leave."""
        covered_tokens = self.removed_tokens + draft.remainder_tokens
        smallest, largest = draft.summary_tokens, self._useful_summary(covered_tokens)
        if self.goal_tokens is not None:
            within_goal = self.goal_tokens - draft.kept_tokens
            largest = min(largest, max(int(covered_tokens * _MIN_MANUAL_RATIO), within_goal))
            smallest = min(smallest, max(MIN_SUMMARY_TOKENS, largest))
        return max(smallest, min(largest, self._request_ceiling(draft, is_floor=is_floor) - draft.kept_tokens))

    def _request_ceiling(self, draft: Draft, *, is_floor: bool) -> int:
        """Return the request size up to which the summary may grow."""
        limits = self.limits
        if not is_floor:
            return limits.summary_ceiling_tokens
        if limits.soft_limit_tokens - draft.kept_tokens < (limits.budget_tokens - draft.pinned_tokens) // 4:
            # Large recent messages leave the summary almost nothing. Memory matters more than delaying the next
            # compaction.
            return limits.budget_tokens
        return limits.soft_limit_tokens

    def _useful_summary(self, covered_tokens: int) -> int:
        """Return the length that the policy allows for a summary of this many tokens, whatever the window."""
        # A share of a short text would be too short to say anything, so short texts get up to a half.
        least = max(MIN_SUMMARY_TOKENS, min(SMALL_SUMMARY_TOKENS, covered_tokens // 2))
        return min(self.policy.summary_max_tokens, max(least, int(covered_tokens * self.policy.summary_ratio)))

    def _leaves_too_little(self, draft: Draft) -> bool:
        """True if large recent messages leave almost no space for a summary of everything before them."""
        covered_tokens = self.removed_tokens + draft.remainder_tokens
        unpinned_tokens = draft.limits.budget_tokens - draft.pinned_tokens
        return unpinned_tokens - draft.recent_tokens < min(_MIN_SUMMARY_SHARE * unpinned_tokens, covered_tokens // 4)


def story_room(
    policy: CompactPolicy, limits: TokenLimits, pinned_tokens: int, recent_tokens: int, goal_tokens: int | None
) -> int:
    """Return the tokens for older units beside the recent ones and a summary."""
    most = _story_limit(limits, pinned_tokens)
    if goal_tokens is not None:
        most = min(most, goal_tokens - pinned_tokens)
    return int(most * policy.story_pct) - recent_tokens


def _story_limit(limits: TokenLimits, pinned_tokens: int) -> int:
    """Return the tokens of everything that is not pinned, if older units stay."""
    return min(limits.summary_ceiling_tokens, limits.story_ceiling_tokens) - pinned_tokens


def _summary_share(policy: CompactPolicy, limits: TokenLimits, pinned_tokens: int) -> int:
    return int((limits.summary_ceiling_tokens - pinned_tokens) * policy.summary_room_pct)


def _require_space(limits: TokenLimits, overhead_tokens: int, pin_tokens: int, newest_tokens: int) -> None:
    """Raise `InsufficientBudget` if the pinned messages and the newest unit alone exceed the budget."""
    needed_tokens = overhead_tokens + pin_tokens + newest_tokens
    if needed_tokens > limits.budget_tokens:
        raise InsufficientBudget(
            needed_tokens=needed_tokens,
            budget_tokens=limits.budget_tokens,
            parts={
                "instructions and tools": overhead_tokens,
                "pinned messages": pin_tokens,
                "newest unit": newest_tokens,
            },
            detail="Protected messages and the newest unit" if newest_tokens else "Protected messages",
        )


def _with_remaining_budget(draft: Draft) -> Draft:
    """Return the draft with a summary as long as the budget allows. Raise `InsufficientBudget` if nothing fits."""
    left = draft.limits.budget_tokens - draft.kept_tokens
    if left < 0:
        raise InsufficientBudget(
            needed_tokens=draft.kept_tokens,
            budget_tokens=draft.limits.budget_tokens,
            parts={
                "instructions and tools": draft.fixed_tokens,
                "pinned messages": draft.pinned_tokens - draft.fixed_tokens,
                "newest turn and tool pair": draft.recent_tokens,
            },
            detail="Protected messages, one turn and one tool pair",
        )
    return replace(draft, summary_tokens=left if left >= MIN_SUMMARY_TOKENS else 0)
