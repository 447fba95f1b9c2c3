"""Partition a conversation into pinned units, recent units, and the remainder that may be compacted.

Only whole units are moved, so a tool call is never separated from its output. Every unit that stays has the policy
rule that kept it. The rule is shown in the ledger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from compact.messages import Message
from compact.messages.codecs.base import ABORTED
from compact.messages.units import Unit
from compact.policy import CompactPolicy, Floor

TURN_ABORTED = ("<turn-aborted>", "<turn_aborted>")
PROTECTED_TOOL = "protected tool"
# A shorter part of a user message would be little more than the marker of what is missing.
MIN_USER_TOKENS = 64


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
    window_start: int = 0
    """Index of the first message of the recent window: the kept turns and tool pairs, and the newest unit."""
    user_limits: dict[int, int] = field(default_factory=dict)
    """The tokens to which user messages are truncated, by the index of the message."""

    @property
    def pinned_layer(self) -> tuple[Unit, ...]:
        """Pinned units that are older than the recent window. The others stay where they happened."""
        return tuple(unit for unit in self.pinned if unit.last < self.window_start)

    def cut_tokens(self, sizes: Mapping[int, int]) -> int:
        """Return the tokens that truncated user messages lose. `sizes` are the tokens of each unit."""
        return sum(sizes[index] - limit for index, limit in self.user_limits.items())

    def without_truncating(self, indexes: Collection[int]) -> Partition:
        """Return a copy in which these user messages belong to the remainder. The last one stays as it is."""
        if not indexes:
            return self
        moved = set(indexes) - {max(unit.first for unit in self.recent if unit.kind == "user")}
        gone = [unit for unit in self.recent if unit.first in moved]
        return replace(
            self,
            recent=tuple(unit for unit in self.recent if unit.first not in moved),
            remainder=tuple(sorted((*self.remainder, *gone), key=lambda unit: unit.first)),
            rules={first: rule for first, rule in self.rules.items() if first not in moved},
            user_limits={index: limit for index, limit in self.user_limits.items() if index not in indexes},
        )

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

    With the floor `newest`, continue without tool pairs, and to the newest unit alone.
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
    yield Reduction(1, 0, "over budget with 1 turn and 1 tool pair: last turn only")
    yield Reduction(0, 0, "over budget with 1 turn: newest unit and last user message only")
    yield Reduction(-1, 0, "over budget: newest unit only")


def pin_rules(
    units: Sequence[Unit], messages: Sequence[Message], policy: CompactPolicy, protected_ids: Collection[str] = ()
) -> dict[int, str]:
    """Return the rule of each pinned unit, by the unit's first index.

    Of a protected tool that reports a state, only the newest result is pinned.
    """
    rules: dict[int, str] = {}
    known_states: set[str] = set()
    for unit in reversed(units):
        rule = _pin_rule(unit, messages, policy, protected_ids)
        tools = protected_tools_of(unit, messages, policy)
        states = tools.intersection(policy.state_tools)
        if not rule and (tools - states or states - known_states):
            rule = f"{PROTECTED_TOOL} {', '.join(sorted(tools - known_states))}"
        # A call without a result says nothing about the state, so the result before it stays.
        known_states |= {state for state in states if _has_result(unit, messages, state)}
        if rule:
            rules[unit.first] = rule
    return dict(reversed(rules.items()))


def _pin_rule(unit: Unit, messages: Sequence[Message], policy: CompactPolicy, protected_ids: Collection[str]) -> str:
    """Return the rule that pins a unit because of one of its messages, or an empty string."""
    for index in unit.indices:
        message = messages[index]
        if message.role in policy.roles_never_prune:
            return f"role {message.role}"
        if message.meta.get(policy.protected_flag) or (message.id in protected_ids):
            return "protected"
        if message.kind == "sealed":
            return "provider compaction item"
        if message.role == "user" and message.text.lstrip().startswith(TURN_ABORTED):
            return "turn-aborted marker"
    return ""


def protected_tools_of(unit: Unit, messages: Sequence[Message], policy: CompactPolicy) -> set[str]:
    """Return the protected tools that a unit calls or has a result of."""
    if unit.kind != "tool":
        return set()
    names = {call.name for index in unit.indices for call in messages[index].tool_calls}
    outputs = (messages[index] for index in unit.indices if messages[index].role == "tool")
    names |= {str(output.name or output.meta.get("tool_name")) for output in outputs}
    return names.intersection(policy.protected_tools)


def _has_result(unit: Unit, messages: Sequence[Message], tool: str) -> bool:
    """True if a call of this tool has a result in the unit. Parallel calls may have ended without it."""
    calls = {call.id for index in unit.indices for call in messages[index].tool_calls if call.name == tool}
    outputs = [messages[index] for index in unit.indices if messages[index].role == "tool"]
    results = (set(output.answers).difference(output.meta.get(ABORTED, ())) for output in outputs)
    return any(
        calls & answers or not output.answers
        for output, answers in zip(outputs, results, strict=True)
        if output.text != ABORTED
    )


def partition_units(
    units: Sequence[Unit], messages: Sequence[Message], pins: Mapping[int, str], *, keep_turns: int, keep_pairs: int
) -> Partition:
    """Keep the last turns and tool pairs, the newest unit, and the last user message.

    `pins` are the results of `pin_rules`. A negative `keep_turns` keeps only the newest unit.
    """
    free = _free_units(units, messages, pins)
    turn_rules, recent_turns = _recent_turn_rules(free, keep_turns)
    pair_rules, tool_pairs = recent_pair_rules(free, keep_pairs)
    rules = {**pins, **_required_rules(free, keep_turns), **turn_rules, **pair_rules}
    return Partition(
        *_split(units, free, pins, rules),
        rules,
        keep_turns=keep_turns,
        keep_pairs=keep_pairs,
        recent_turns=recent_turns,
        tool_pairs=tool_pairs,
        window_start=min((*turn_rules, *pair_rules, newest_unit(units).first), default=0) if units else 0,
    )


def smallest_bridge_partition(
    units: Sequence[Unit], messages: Sequence[Message], pins: Mapping[int, str], *, keep_turns: int, keep_pairs: int
) -> Partition:
    """Keep the last user message and the newest unit, whatever numbers of turns and tool pairs are asked for."""
    sizes = dict.fromkeys((unit.first for unit in units), 0)
    return partition_for_bridge(units, messages, pins, sizes=sizes, user_tokens=-1, last_user_tokens=0)


def ids_of(units: Iterable[Unit], messages: Sequence[Message]) -> tuple[str, ...]:
    """Return the ids of the messages of some units."""
    return tuple(messages[index].id or "" for unit in units for index in unit.indices)


def partition_for_bridge(
    units: Sequence[Unit],
    messages: Sequence[Message],
    pins: Mapping[int, str],
    *,
    sizes: Mapping[int, int],
    user_tokens: int,
    last_user_tokens: int,
) -> Partition:
    """Keep the newest user messages within `user_tokens`, and the newest unit.

    The message that exceeds the limit is truncated to the rest of it. The last user message always stays, whole if it
    is the newest unit, and otherwise truncated only to `last_user_tokens`. `sizes` are the tokens of each unit by its
    first index.
    """
    free = _free_units(units, messages, pins)
    rules = dict(pins)
    newest = newest_unit(free) if free else None
    if newest is not None:
        rules[newest.first] = "newest unit"
    users = [unit for unit in reversed(free) if unit.kind == "user"]
    kept, limits = _newest_users(users, newest, sizes, user_tokens, last_user_tokens)
    rules.update(dict.fromkeys(kept, f"user message within {user_tokens:,} tokens"))
    pinned, recent, remainder = _split(units, free, pins, rules)
    return Partition(
        pinned,
        recent,
        remainder,
        rules,
        recent_turns=len(recent),
        window_start=_input_start(units) if units else 0,
        user_limits=limits,
    )


def _newest_users(
    users: Sequence[Unit], newest: Unit | None, sizes: Mapping[int, int], user_tokens: int, last_user_tokens: int
) -> tuple[list[int], dict[int, int]]:
    """Return the user messages to keep, given the newest first, and the tokens of those that are truncated."""
    left, kept = user_tokens, list[int]()
    limits: dict[int, int] = {}
    for number, unit in enumerate(users):
        limit = left if number > 0 else last_user_tokens
        is_whole = sizes[unit.first] <= limit or unit is newest
        if not is_whole and limit >= MIN_USER_TOKENS and len(unit.indices) == 1:
            limits[unit.first] = limit
        elif not is_whole and number > 0:
            break
        kept.append(unit.first)
        left -= limits.get(unit.first, sizes[unit.first])
    return kept, limits


def newest_unit(units: Sequence[Unit]) -> Unit:
    """Return the unit with the newest message. An instruction after it is no input of its own."""
    return max([unit for unit in units if unit.kind != "context"] or units, key=lambda unit: unit.last)


def _input_start(units: Sequence[Unit]) -> int:
    """Return the index at which the input of this call starts: the newest unit, or the last user messages in a row."""
    start = newest_unit(units)
    if start.kind != "user":
        return start.first
    for unit in reversed(units):
        if unit.kind not in ("user", "context"):
            break
        start = unit if unit.kind == "user" else start
    return start.first


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
    rules[newest_unit(free).first] = "newest unit"
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


def recent_pair_rules(free: Sequence[Unit], keep: int) -> tuple[dict[int, str], int]:
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
