"""Sort a conversation into what is pinned, what is recent, and the remainder that may be compacted.

Works on whole units only, so a call never parts from its output. Every message gets the line of policy that
decided its fate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from compact.messages import Message
from compact.messages.units import Unit, group_units
from compact.policy import CompactPolicy

TURN_ABORTED = ("<turn-aborted>", "<turn_aborted>")


@dataclass(frozen=True, slots=True)
class Partition:
    """Units by what happens to them, each in conversation order, and why (`rules`, by a unit's first place)."""

    pinned: tuple[Unit, ...]
    recent: tuple[Unit, ...]
    remainder: tuple[Unit, ...]
    rules: dict[int, str] = field(default_factory=dict)
    keep_turns: int = 0
    keep_pairs: int = 0
    recent_turns: int = 0
    tool_pairs: int = 0


def pin_rule(unit: Unit, messages: Sequence[Message], policy: CompactPolicy, protected_ids: Collection[str]) -> str:
    """Why a unit must stay, or an empty string if it need not."""
    for index in unit.indices:
        message = messages[index]
        if message.role in policy.roles_never_prune:
            return f"role {message.role}"
        if message.meta.get(policy.protected_flag) or (message.id in protected_ids):
            return "protected"
        if message.kind == "sealed":
            return "provider compaction item"
        for call in message.tool_calls:
            if call.name in policy.protected_tools:
                return f"protected tool {call.name}"
        if message.role == "tool" and (message.name or message.meta.get("tool_name")) in policy.protected_tools:
            return f"protected tool {message.name or message.meta.get('tool_name')}"
        if message.role == "user" and message.text.lstrip().startswith(TURN_ABORTED):
            return "turn-aborted marker"
    return ""


def pin_rules(
    units: Sequence[Unit], messages: Sequence[Message], policy: CompactPolicy, protected_ids: Collection[str] = ()
) -> dict[int, str]:
    """Why each pinned unit must stay, by its first place."""
    found = ((unit.first, pin_rule(unit, messages, policy, protected_ids)) for unit in units)
    return {first: rule for first, rule in found if rule}


def partition(
    messages: Sequence[Message],
    policy: CompactPolicy,
    *,
    keep_turns: int | None = None,
    keep_pairs: int | None = None,
    protected_ids: Collection[str] = (),
    units: Sequence[Unit] | None = None,
    pins: Mapping[int, str] | None = None,
) -> Partition:
    """Pinned, recent (the last turns and tool pairs, the newest unit, the last user message) and the remainder.

    A negative `keep_turns` gives up the last user message too, if it is not itself the newest unit.
    """
    units = group_units(messages) if units is None else units
    turns = policy.keep_recent_turns if keep_turns is None else keep_turns
    pairs = policy.keep_tool_io_pairs if keep_pairs is None else keep_pairs
    rules: dict[int, str] = dict(pins if pins is not None else pin_rules(units, messages, policy, protected_ids))
    pinned, free = [], []
    for unit in units:
        if unit.first in rules:
            pinned.append(unit)
        elif not _is_old_summary(unit, messages):
            free.append(unit)
    turn_rules = _recent_turns(free, turns)
    pair_rules, kept_pairs = _recent_pairs(free, pairs)
    rules.update(turn_rules)
    rules.update(pair_rules)
    if free:
        newest = max(free, key=lambda unit: unit.last)
        rules.setdefault(newest.first, "newest unit")
        users = [unit for unit in free if unit.kind == "user"]
        if users and turns >= 0:
            rules.setdefault(users[-1].first, "last user message")
    pinned_set = {unit.first for unit in pinned}
    recent = tuple(unit for unit in free if unit.first in rules)
    remainder = tuple(unit for unit in units if unit.first not in rules and unit.first not in pinned_set)
    return Partition(
        tuple(pinned),
        recent,
        remainder,
        rules,
        keep_turns=turns,
        keep_pairs=pairs,
        recent_turns=len({rule for rule in turn_rules.values() if rule.startswith("recent")}),
        tool_pairs=kept_pairs,
    )


def reductions(policy: CompactPolicy) -> Iterator[tuple[int, int, str]]:
    """How much to keep, most first: turns less one, then pairs less one, down to one each; and the line for it."""
    turns, pairs = policy.keep_recent_turns, policy.keep_tool_io_pairs
    yield turns, pairs, ""
    while turns > 1 or pairs > 1:
        if turns > 1:
            turns -= 1
            yield turns, pairs, f"over budget: keep_recent_turns {turns + 1} -> {turns}"
        if pairs > 1:
            pairs -= 1
            yield turns, pairs, f"over budget: keep_tool_io_pairs {pairs + 1} -> {pairs}"
    # Below the floor of one turn and one pair only what the next call cannot do without is left.
    yield 0, 0, "over budget at one turn and one tool pair: the newest unit and the last user message"
    yield -1, 0, "over budget: the newest unit alone"


def talk_turns(units: Sequence[Unit]) -> list[list[Unit]]:
    """User and assistant messages in pairs: at most one of each, tool calls between them left aside."""
    turns: list[list[Unit]] = []
    for unit in units:
        if unit.kind not in ("user", "assistant"):
            continue
        if unit.kind == "assistant" and turns and turns[-1][-1].kind == "user":
            turns[-1].append(unit)
        else:
            turns.append([unit])
    return turns


def _recent_turns(free: Sequence[Unit], keep: int) -> dict[int, str]:
    turns = talk_turns(free)
    rules: dict[int, str] = {}
    # A user message nobody has answered yet is the input of this call, not one of the turns behind it.
    if turns and turns[-1][-1].kind == "user" and turns[-1][-1] is free[-1]:
        rules[turns.pop()[-1].first] = "user input"
    for number, turn in enumerate(reversed(turns[-keep:] if keep > 0 else []), start=1):
        for unit in turn:
            rules[unit.first] = f"recent {number} of {keep}"
    return rules


def _recent_pairs(free: Sequence[Unit], keep: int) -> tuple[dict[int, str], int]:
    rules: dict[int, str] = {}
    kept = 0
    for unit in reversed(free):
        if kept >= keep:
            break
        if unit.kind == "tool":
            kept += max(1, unit.pairs)
            rules[unit.first] = f"tool pair {kept} of {keep}"
    return rules, kept


def _is_old_summary(unit: Unit, messages: Sequence[Message]) -> bool:
    return len(unit.indices) == 1 and messages[unit.first].is_summary


def partition_for_bridge(
    messages: Sequence[Message],
    policy: CompactPolicy,
    *,
    counts: Sequence[int],
    user_tokens: int,
    protected_ids: Collection[str] = (),
    units: Sequence[Unit] | None = None,
    pins: Mapping[int, str] | None = None,
) -> Partition:
    """Pinned, the users' own words newest first up to a limit, and the unit in flight; the rest is remainder."""
    units = group_units(messages) if units is None else units
    rules: dict[int, str] = dict(pins if pins is not None else pin_rules(units, messages, policy, protected_ids))
    pinned = [unit for unit in units if unit.first in rules]
    pinned_set = set(rules)
    free = [unit for unit in units if unit.first not in pinned_set and not _is_old_summary(unit, messages)]
    spent = 0
    for number, unit in enumerate((unit for unit in reversed(free) if unit.kind == "user"), start=1):
        spent += sum(counts[index] for index in unit.indices)
        if number > 1 and spent > user_tokens:
            break
        rules[unit.first] = f"user message within {user_tokens:,} tokens"
    if free and free[-1].kind == "tool":
        rules.setdefault(free[-1].first, "newest unit")
    recent = tuple(unit for unit in free if unit.first in rules)
    remainder = tuple(unit for unit in units if unit.first not in rules)
    return Partition(tuple(pinned), recent, remainder, rules, recent_turns=len(recent), tool_pairs=0)
