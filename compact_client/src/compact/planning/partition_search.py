"""Partitions that keep less and less, for the search for the largest part of a conversation that fits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from compact.messages import Message
from compact.messages.units import Unit
from compact.planning.partition import Partition, partition_for_bridge, partition_units, reduction_steps
from compact.planning.pruning import prune
from compact.policy import CompactPolicy, Floor

# A smaller limit for user messages is not worth another attempt.
_MIN_USER_TOKENS = 100


class Step(NamedTuple):
    """One attempt to keep less: the partition, the reason if the policy asks for more, and whether it is the least."""

    partition: Partition
    reason: str
    is_floor: bool


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


def recent_partitions(search: PartitionSearch) -> Iterator[Step]:
    """Yield partitions that keep the recent turns and tool pairs, less and less of them."""
    conversation = search.conversation
    for reduction in reduction_steps(search.policy, search.floor):
        partition = partition_units(
            conversation.units,
            conversation.messages,
            conversation.pins,
            keep_turns=reduction.keep_turns,
            keep_pairs=reduction.keep_pairs,
        )
        partition = prune(partition, conversation.messages, conversation.sizes, search.policy, search.available_tokens)
        yield Step(partition, reduction.reason, reduction.is_floor)


def bridge_partitions(search: PartitionSearch) -> Iterator[Step]:
    """Yield partitions that keep the newest user messages: those within the policy's limit, then within halves."""
    conversation = search.conversation
    limit = min(search.policy.user_message_tokens, max(0, search.available_tokens // 2))
    while True:
        partition = partition_for_bridge(
            conversation.units,
            conversation.messages,
            conversation.pins,
            sizes=conversation.sizes,
            user_tokens=limit,
        )
        yield Step(partition, "", limit == 0)
        if limit == 0:
            return
        limit = limit // 2 if limit > _MIN_USER_TOKENS else 0
