"""Which units make way first: by recency, strictly oldest first, by stage, or by meaning.

Recency is the plain partition. The others move units between what is kept and the remainder; none of them touches
what is pinned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compact.messages import Message
from compact.messages.units import Unit
from compact.planning.partition import Partition
from compact.policy import CompactPolicy


def prune(
    part: Partition, messages: Sequence[Message], counts: Sequence[int], policy: CompactPolicy, room_tokens: int
) -> Partition:
    """The partition as the pruning policy wants it; `room_tokens` is what all unpinned messages may take."""
    if policy.pruning == "fifo":
        return _fifo(part, counts, int(room_tokens * (1 - policy.summary_room_pct)))
    if policy.pruning == "stage_aware":
        return _stage_aware(part)
    if policy.pruning == "semantic":
        from compact.planning.similarity import keep_related

        return keep_related(part, messages, counts, room_tokens)
    return part


def _fifo(part: Partition, counts: Sequence[int], room_tokens: int) -> Partition:
    """Everything stays that fits, newest first; the rest goes oldest first, whatever its kind."""
    free = sorted((*part.recent, *part.remainder), key=lambda unit: unit.first)
    kept: list[Unit] = []
    left = room_tokens
    for unit in reversed(free):
        left -= sum(counts[index] for index in unit.indices)
        if left < 0 and kept:
            break
        kept.append(unit)
    rules = {first: rule for first, rule in part.rules.items() if first in {unit.first for unit in part.pinned}}
    rules.update({unit.first: "fifo: newest that fit" for unit in kept})
    return replace(
        part,
        recent=tuple(unit for unit in free if unit.first in rules),
        remainder=tuple(unit for unit in free if unit.first not in rules),
        rules=rules,
    )


def _stage_aware(part: Partition) -> Partition:
    """A kept tool pair keeps the user message that asked for it: the stage it belongs to."""
    tools = [unit for unit in part.recent if unit.kind == "tool"]
    users = [unit for unit in part.remainder if unit.kind == "user"]
    stage = {max(before, key=lambda user: user.first) for tool in tools if (before := _earlier(users, tool))}
    # Only where no kept user message already stands between them.
    kept_users = [unit for unit in part.recent if unit.kind == "user"]
    stage = {
        user
        for user in stage
        if any(user.first < tool.first and not _between(kept_users, user, tool) for tool in tools)
    }
    rules = {**part.rules, **{user.first: "stage of a kept tool pair" for user in stage}}
    return replace(
        part,
        recent=tuple(sorted((*part.recent, *stage), key=lambda unit: unit.first)),
        remainder=tuple(unit for unit in part.remainder if unit not in stage),
        rules=rules,
    )


def _earlier(users: Sequence[Unit], tool: Unit) -> list[Unit]:
    return [user for user in users if user.first < tool.first]


def _between(users: Sequence[Unit], first: Unit, last: Unit) -> bool:
    return any(first.first < user.first < last.first for user in users)
