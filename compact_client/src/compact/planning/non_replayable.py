"""Tool results that cannot be had again: what no store will take stays in the prompt while the budget can hold it.

Pure arithmetic. Where not all of them fit, the oldest give way first, and the draft says which.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from compact.messages import Message
from compact.messages.units import Unit
from compact.planning.durability import ToolDurability, ToolDurabilityPolicy, durability_of
from compact.planning.partition import Partition

RULE = "non-replayable"


@dataclass(frozen=True, slots=True)
class Holding:
    """Units by their first place: those that stay, and those there is no room for."""

    held: frozenset[int] = field(default_factory=frozenset)
    released: tuple[Unit, ...] = ()


def non_replayable_ids(messages: Sequence[Message], policies: Mapping[str, ToolDurabilityPolicy]) -> set[str]:
    """The ids of the results that no tool could give a second time."""
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    found: set[str] = set()
    for message in messages:
        if message.id is None or not (message.answers or message.role == "tool"):
            continue
        own = message.name or str(message.meta.get("tool_name", ""))
        tools = [names.get(call_id) or own for call_id in message.answers] or [own]
        if any(durability_of(tool, message, policies) is ToolDurability.NON_REPLAYABLE for tool in tools):
            found.add(message.id)
    return found


def hold(
    units: Sequence[Unit],
    messages: Sequence[Message],
    sizes: Mapping[int, int],
    irreplaceable: Collection[str],
    *,
    budget_tokens: int,
    soft_limit_tokens: int,
) -> Holding:
    """All of them if the budget leaves room; else the newest, up to where the next call would not compact again."""
    wanted = [unit for unit in units if any(messages[index].id in irreplaceable for index in unit.indices)]
    if sum(sizes[unit.first] for unit in wanted) <= budget_tokens:
        return Holding(frozenset(unit.first for unit in wanted))
    left = soft_limit_tokens
    held: set[int] = set()
    released: list[Unit] = []
    for unit in reversed(wanted):
        left -= sizes[unit.first]
        if left >= 0:
            held.add(unit.first)
        else:
            released.append(unit)
    return Holding(frozenset(held), tuple(reversed(released)))


def with_held(part: Partition, held: Collection[int]) -> Partition:
    """The partition with these units among what stays, each in its own place."""
    moved = [unit for unit in part.remainder if unit.first in held]
    if not moved:
        return part
    return replace(
        part,
        recent=tuple(sorted((*part.recent, *moved), key=lambda unit: unit.first)),
        remainder=tuple(unit for unit in part.remainder if unit.first not in held),
        rules={**part.rules, **dict.fromkeys((unit.first for unit in moved), RULE)},
    )
