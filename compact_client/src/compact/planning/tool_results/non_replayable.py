"""Non-replayable tool results: keep them in the prompt while they fit.

Calling the tool again would not return the same result, so a result that is not written to an artifact store stays
in the prompt. If not all of them fit, the newest stay, and the draft lists the others as evicted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from compact.messages import Message
from compact.messages.units import Unit
from compact.planning.tool_results.durability import ToolDurability, ToolDurabilityPolicy, durability_of

RULE = "non-replayable"


@dataclass(frozen=True, slots=True)
class NonReplayableUnits:
    """Units with non-replayable results: those that stay, and those that do not fit."""

    kept: tuple[Unit, ...] = ()
    evicted: tuple[Unit, ...] = ()


def non_replayable_ids(messages: Sequence[Message], policies: Mapping[str, ToolDurabilityPolicy]) -> set[str]:
    """Return the ids of the messages that contain a non-replayable tool result."""
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    ids: set[str] = set()
    for message in messages:
        if message.id is None or not (message.answers or message.role == "tool"):
            continue
        tools = _tools_of(message, names)
        if any(durability_of(tool, message, policies) is ToolDurability.NON_REPLAYABLE for tool in tools):
            ids.add(message.id)
    return ids


def _tools_of(message: Message, names: Mapping[str, str]) -> list[str]:
    """Return the tools that a message has results of. `names` has those of the calls in the prompt."""
    own_name = message.name or str(message.meta.get("tool_name", ""))
    return [names.get(call_id) or own_name for call_id in message.answers] or [own_name]


def select_non_replayable(
    units: Sequence[Unit],
    messages: Sequence[Message],
    sizes: Mapping[int, int],
    ids: Collection[str],
    *,
    budget_tokens: int,
    soft_limit_tokens: int,
) -> NonReplayableUnits:
    """Keep all units with non-replayable results if the budget allows it, else the newest within the soft limit.

    The soft limit prevents the next call from compacting again.
    """
    candidates = [unit for unit in units if any(messages[index].id in ids for index in unit.indices)]
    if sum(sizes[unit.first] for unit in candidates) <= budget_tokens:
        return NonReplayableUnits(tuple(candidates))
    left = soft_limit_tokens
    kept: list[Unit] = []
    evicted: list[Unit] = []
    for unit in reversed(candidates):
        left -= sizes[unit.first]
        (kept if left >= 0 else evicted).append(unit)
    return NonReplayableUnits(tuple(reversed(kept)), tuple(reversed(evicted)))
