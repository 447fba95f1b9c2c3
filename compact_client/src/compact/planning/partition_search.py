"""Partitions that keep less and less, for the search for the largest part of a conversation that fits."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from compact.messages import Message
from compact.messages.units import Unit
from compact.planning.partition import (
    MIN_USER_TOKENS,
    Partition,
    Reduction,
    partition_for_bridge,
    partition_units,
    reduction_steps,
)
from compact.planning.pruning import prune
from compact.policy import CompactPolicy, Floor

# A smaller limit for user messages is not worth another attempt.
_MIN_USER_TOKENS = 100
# The last user message gets these shares of the budget if it does not fit.
_LAST_USER_SHARES = (0.5, 0.25)


class Step(NamedTuple):
    """One attempt to keep less: the partition, the reason if the policy asks for more, and whether it is the least."""

    partition: Partition
    reason: str
    is_floor: bool


SearchStart = Literal["policy", "everything"]
# From one partition that keeps more than the policy asks for to the next.
_STEP_RATIO = 0.95


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation in units, with the tokens of each."""

    units: Sequence[Unit]
    messages: Sequence[Message]
    pins: Mapping[int, str]
    """The results of `pin_rules`."""
    sizes: Mapping[int, int]
    """The tokens of each unit by its first index."""

    @classmethod
    def measure(
        cls, units: Sequence[Unit], messages: Sequence[Message], pins: Mapping[int, str], counts: Sequence[int]
    ) -> Conversation:
        """Return the conversation of these messages. `counts` are the tokens of each message."""
        sizes = {unit.first: sum([counts[index] for index in unit.indices]) for unit in units}
        return cls(units, messages, pins, sizes)

    def tokens_of(self, units: Iterable[Unit]) -> int:
        """Return the tokens of some units."""
        return sum([self.sizes[unit.first] for unit in units])


@dataclass(frozen=True, slots=True)
class PartitionSearch:
    """The terms of a search for the largest part of a conversation that fits."""

    conversation: Conversation
    policy: CompactPolicy
    floor: Floor
    available_tokens: int
    """The limit for all unpinned messages and the summary."""
    start: SearchStart = "policy"
    """The first partition to try. `everything`: all turns and tool pairs, so that no more goes than has to."""


def recent_partitions(search: PartitionSearch) -> Iterator[Step]:
    """Yield partitions that keep the recent turns and tool pairs, less and less of them."""
    conversation = search.conversation
    larger = _larger_steps(search) if search.start == "everything" else ()
    for reduction in itertools.chain(larger, reduction_steps(search.policy, search.floor)):
        partition = partition_units(
            conversation.units,
            conversation.messages,
            conversation.pins,
            keep_turns=reduction.keep_turns,
            keep_pairs=reduction.keep_pairs,
        )
        partition = prune(partition, conversation.messages, conversation.sizes, search.policy, search.available_tokens)
        yield Step(partition, reduction.reason, reduction.is_floor)


def _larger_steps(search: PartitionSearch) -> Iterator[Reduction]:
    """Yield numbers of turns and tool pairs from those of the whole conversation down to the policy's."""
    units, policy = search.conversation.units, search.policy
    turns = sum(unit.kind in ("user", "assistant") for unit in units)
    pairs = sum(unit.pairs for unit in units)
    while turns > policy.keep_recent_turns or pairs > policy.keep_tool_io_pairs:
        yield Reduction(max(turns, policy.keep_recent_turns), max(pairs, policy.keep_tool_io_pairs), "")
        turns, pairs = int(turns * _STEP_RATIO), int(pairs * _STEP_RATIO)


def bridge_partitions(search: PartitionSearch) -> Iterator[Step]:
    """Yield partitions that keep the newest user messages: those within the policy's limit, then within halves.

    The last one is whole up to the policy's limit, and truncated to a part of the budget if it does not fit.
    """
    most = search.policy.user_message_tokens
    limit = min(most, max(0, search.available_tokens // 2))
    while limit > 0:
        yield Step(_bridge_partition(search, limit, most), "", False)
        limit = limit // 2 if limit > _MIN_USER_TOKENS else 0
    yield Step(_bridge_partition(search, 0, most), "", True)
    for share in _LAST_USER_SHARES:
        tokens = int(search.available_tokens * share)
        if MIN_USER_TOKENS <= tokens < most:
            reason = f"over budget: the last user message is limited to {tokens:,} tokens"
            yield Step(_bridge_partition(search, 0, tokens), reason, True)


def _bridge_partition(search: PartitionSearch, user_tokens: int, last_user_tokens: int) -> Partition:
    conversation = search.conversation
    return partition_for_bridge(
        conversation.units,
        conversation.messages,
        conversation.pins,
        sizes=conversation.sizes,
        user_tokens=user_tokens,
        last_user_tokens=last_user_tokens,
    )
