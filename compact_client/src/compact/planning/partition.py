"""Partition a conversation into pinned units, recent units, and the remainder that may be compacted.

Only whole units are moved, so a tool call is never separated from its output. Every unit that stays has the policy
rule that kept it. The rule is shown in the ledger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from compact.messages import Message
from compact.messages.units import Unit
from compact.policy import CompactPolicy, Floor

TURN_ABORTED = ("<turn-aborted>", "<turn_aborted>")


@dataclass(frozen=True, slots=True)
class Partition:
    """The units of a conversation by fate, each group in conversation order."""

    pinned: tuple[Unit, ...]
    recent: tuple[Unit, ...]
    remainder: tuple[Unit, ...]
    """Units that may be compacted."""
    rules: dict[int, str] = field(default_factory=dict)
    """The rule that keeps each pinned or recent unit, by the unit's first index."""
    keep_turns: int = 0
    """The requested number of turns. See `Reduction`."""
    keep_pairs: int = 0
    recent_turns: int = 0
    """The number of turns that were kept, which may be less than requested."""
    tool_pairs: int = 0

    def keep(self, units: Collection[Unit], rule: str) -> Partition:
        """Return a copy in which these units have moved from the remainder to the recent ones."""
        moved = {unit.first for unit in units}.intersection(unit.first for unit in self.remainder)
        if not moved:
            return self
        kept = (unit for unit in self.remainder if unit.first in moved)
        return replace(
            self,
            recent=tuple(sorted((*self.recent, *kept), key=lambda unit: unit.first)),
            remainder=tuple(unit for unit in self.remainder if unit.first not in moved),
            rules={**self.rules, **dict.fromkeys(moved, rule)},
        )


class Reduction(NamedTuple):
    """Numbers of recent turns and tool pairs to keep, and the reason why they are below the policy's.

    With `keep_turns` 0, only the newest unit and the last user message stay. With -1, only the newest unit stays.
    """

    keep_turns: int
    keep_pairs: int
    reason: str

    @property
    def is_floor(self) -> bool:
        """True if at most one turn and one tool pair are kept."""
        return self.keep_turns <= 1 and self.keep_pairs <= 1


def reduction_steps(policy: CompactPolicy, floor: Floor = "turn") -> Iterator[Reduction]:
    """Yield the policy's own numbers, then smaller ones: one turn less, one pair less, down to one each.

    With the floor `newest`, continue to the newest unit alone.
    """
    turns, pairs = policy.keep_recent_turns, policy.keep_tool_io_pairs
    yield Reduction(turns, pairs, "")
    while turns > 1 or pairs > 1:
        if turns > 1:
            turns -= 1
            yield Reduction(turns, pairs, f"over budget: keep_recent_turns {turns + 1} -> {turns}")
        if pairs > 1:
            pairs -= 1
            yield Reduction(turns, pairs, f"over budget: keep_tool_io_pairs {pairs + 1} -> {pairs}")
    if floor == "turn":
        return
    yield Reduction(0, 0, "over budget with 1 turn and 1 tool pair: newest unit and last user message only")
    yield Reduction(-1, 0, "over budget: newest unit only")


def pin_rule(unit: Unit, messages: Sequence[Message], policy: CompactPolicy, protected_ids: Collection[str]) -> str:
    """Return the rule that pins a unit, or an empty string if the unit may be compacted."""
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
    """Return the rule of each pinned unit, by the unit's first index."""
    rules = ((unit.first, pin_rule(unit, messages, policy, protected_ids)) for unit in units)
    return {first: rule for first, rule in rules if rule}


def partition_units(
    units: Sequence[Unit], messages: Sequence[Message], pins: Mapping[int, str], *, keep_turns: int, keep_pairs: int
) -> Partition:
    """Keep the last turns and tool pairs, the newest unit, and the last user message.

    `pins` are the results of `pin_rules`. A negative `keep_turns` keeps only the newest unit.
    """
    free = _free_units(units, messages, pins)
    turn_rules, recent_turns = _recent_turn_rules(free, keep_turns)
    pair_rules, tool_pairs = _recent_pair_rules(free, keep_pairs)
    rules = {**pins, **_required_rules(free, keep_turns), **turn_rules, **pair_rules}
    return Partition(
        *_split(units, free, pins, rules),
        rules,
        keep_turns=keep_turns,
        keep_pairs=keep_pairs,
        recent_turns=recent_turns,
        tool_pairs=tool_pairs,
    )


def partition_for_bridge(
    units: Sequence[Unit],
    messages: Sequence[Message],
    pins: Mapping[int, str],
    *,
    sizes: Mapping[int, int],
    user_tokens: int,
) -> Partition:
    """Keep the newest user messages within `user_tokens`, and the newest unit if it is a tool call.

    The last user message always stays. `sizes` are the tokens of each unit by its first index.
    """
    free = _free_units(units, messages, pins)
    rules = dict(pins)
    if free and free[-1].kind == "tool":
        rules[free[-1].first] = "newest unit"
    spent = 0
    for number, unit in enumerate(unit for unit in reversed(free) if unit.kind == "user"):
        spent += sizes[unit.first]
        if number > 0 and spent > user_tokens:
            break
        rules[unit.first] = f"user message within {user_tokens:,} tokens"
    pinned, recent, remainder = _split(units, free, pins, rules)
    return Partition(pinned, recent, remainder, rules, recent_turns=len(recent))


def _free_units(units: Sequence[Unit], messages: Sequence[Message], pins: Mapping[int, str]) -> list[Unit]:
    """Return the units that may be recent: neither pinned nor an earlier summary."""
    return [unit for unit in units if unit.first not in pins and not _is_earlier_summary(unit, messages)]


def _is_earlier_summary(unit: Unit, messages: Sequence[Message]) -> bool:
    return len(unit.indices) == 1 and messages[unit.first].is_summary


def _split(
    units: Sequence[Unit], free: Sequence[Unit], pins: Mapping[int, str], rules: Mapping[int, str]
) -> tuple[tuple[Unit, ...], tuple[Unit, ...], tuple[Unit, ...]]:
    """Return the pinned units, the recent units and the remainder."""
    return (
        tuple(unit for unit in units if unit.first in pins),
        tuple(unit for unit in free if unit.first in rules),
        tuple(unit for unit in units if unit.first not in rules),
    )


def _required_rules(free: Sequence[Unit], keep_turns: int) -> dict[int, str]:
    """Return the rules for units without which the next call makes no sense."""
    rules: dict[int, str] = {}
    if not free:
        return rules
    users = [unit for unit in free if unit.kind == "user"]
    if users and keep_turns >= 0:
        rules[users[-1].first] = "last user message"
    newest = max(free, key=lambda unit: unit.last)
    rules[newest.first] = "newest unit"
    return rules


def _recent_turn_rules(free: Sequence[Unit], keep: int) -> tuple[dict[int, str], int]:
    """Return the rules that keep the last turns, and the number of those turns."""
    turns = _group_turns(free)
    rules: dict[int, str] = {}
    # A user message without an answer is the input of this call. It does not count as one of the recent turns.
    if turns and turns[-1][-1].kind == "user" and turns[-1][-1] is free[-1]:
        rules[turns.pop()[-1].first] = "user input"
    kept = turns[-keep:] if keep > 0 else []
    for number, turn in enumerate(reversed(kept), start=1):
        for unit in turn:
            rules[unit.first] = f"recent {number} of {keep}"
    return rules, len(kept)


def _group_turns(units: Sequence[Unit]) -> list[list[Unit]]:
    """Group user and assistant messages into turns of at most one each. Tool units are ignored."""
    turns: list[list[Unit]] = []
    for unit in units:
        if unit.kind not in ("user", "assistant"):
            continue
        if unit.kind == "assistant" and turns and turns[-1][-1].kind == "user":
            turns[-1].append(unit)
        else:
            turns.append([unit])
    return turns


def _recent_pair_rules(free: Sequence[Unit], keep: int) -> tuple[dict[int, str], int]:
    """Return the rules that keep the last tool pairs, and the number of those pairs."""
    rules: dict[int, str] = {}
    kept = 0
    for unit in reversed(free):
        if kept >= keep:
            break
        if unit.kind == "tool":
            kept += max(1, unit.pairs)
            rules[unit.first] = f"tool pair {kept} of {keep}"
    return rules, kept
