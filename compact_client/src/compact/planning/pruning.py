"""Pruning policies: choose which units go first.

`recency` is the plain partition. `fifo`, `stage_aware` and `semantic` move units between the recent ones and the
remainder. Pinned units always stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from compact.messages import Message
from compact.messages.units import Unit
from compact.planning.partition import Partition
from compact.policy import CompactPolicy


def prune(
    partition: Partition,
    messages: Sequence[Message],
    sizes: Mapping[int, int],
    policy: CompactPolicy,
    available_tokens: int,
) -> Partition:
    """Apply the policy's pruning to a partition.

    `sizes` are the tokens of each unit by its first index. `available_tokens` is the limit for all unpinned messages
    and the summary.
    """
    if policy.pruning == "fifo":
        return _keep_newest(partition, sizes, int(available_tokens * (1 - policy.summary_room_pct)))
    if policy.pruning == "stage_aware":
        return _keep_requests(partition)
    if policy.pruning == "semantic":
        from compact.planning.similarity import keep_related

        return keep_related(partition, messages, sizes, available_tokens)
    return partition


def _keep_newest(partition: Partition, sizes: Mapping[int, int], available_tokens: int) -> Partition:
    """Keep the newest units that fit, of any kind, and at least one."""
    free = _unpinned_units(partition)
    kept: list[Unit] = []
    left = available_tokens
    for unit in reversed(free):
        left -= sizes[unit.first]
        if left < 0 and kept:
            break
        kept.append(unit)
    rules = {unit.first: partition.rules[unit.first] for unit in partition.pinned}
    rules |= {unit.first: "fifo: newest that fit" for unit in kept}
    return replace(
        partition,
        recent=tuple(unit for unit in free if unit.first in rules),
        remainder=tuple(unit for unit in free if unit.first not in rules),
        rules=rules,
        window_start=kept[-1].first if kept else partition.window_start,
    )


def _keep_requests(partition: Partition) -> Partition:
    """Keep the user message that led to each kept tool call."""
    recent = {unit.first for unit in partition.recent}
    requests: list[Unit] = []
    request: Unit | None = None
    for unit in _unpinned_units(partition):
        if unit.kind == "user":
            request = unit
        elif unit.kind == "tool" and unit.first in recent and request is not None:
            requests.append(request)
    return partition.keep(requests, "stage of a kept tool pair")


def _unpinned_units(partition: Partition) -> list[Unit]:
    return sorted((*partition.recent, *partition.remainder), key=lambda unit: unit.first)
