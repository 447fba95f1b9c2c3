"""The prompt that a compaction works on: the host's messages, grouped and measured.

Some results of a prompt are cleared whatever the draft: siblings of a protected result. A provider rejects a response
without one of its results, so a pinned unit keeps the results of all calls of the response. Once the unit is older than
the recent window or the recent tool pairs, only the protected result must stay whole. The others are cleared after the
summarizer has read them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from compact.engine.session import Request, Session
from compact.engine.truncation import Truncation
from compact.messages import Message
from compact.messages.codecs.base import Codec
from compact.messages.span import SpanReference
from compact.messages.units import Unit, group_units
from compact.planning.partition import (
    PROTECTED_TOOL,
    Partition,
    newest_unit,
    partition_units,
    pin_rules,
    recent_pair_rules,
)
from compact.planning.plan import ClearRecord, CompactionPlan
from compact.planning.strategies import StrategyContext
from compact.policy import CompactPolicy

_PLACEHOLDER_TOKENS = 30
_REASON = "parallel call of a protected tool"


@dataclass(frozen=True, slots=True)
class Sibling:
    """The results in one message that are cleared."""

    unit: Unit
    index: int
    call_ids: tuple[str, ...]
    tokens_freed: int

    def record(self, context: StrategyContext) -> ClearRecord:
        """Return the record with the fields that survive, keyed by call id if the message holds several outputs."""
        message, turn = context.messages[self.index], context.turns[self.index]
        fields = {
            call.id: envelope.preserved_fields
            for index, call, envelope in context.envelopes(self.unit)
            if index == self.index and call.id in self.call_ids
        }
        preserved = fields if message.also_answers else fields[self.call_ids[0]]
        return ClearRecord(SpanReference((message.id or "",), turn, turn), preserved, _REASON)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request under the plan before a compaction, with the outputs that the compaction has truncated so far."""

    request: Request
    forms: Mapping[str, Message]
    """The truncated messages by id, in the form that enters the prompt."""
    truncations: Mapping[str, Truncation]
    """The messages that this compaction truncated, by id."""
    messages: Sequence[Message]
    """The messages of the request without the replacements that a renderer wrote. Units refer to them by index."""
    counts: Sequence[int]
    """The tokens of each message, without its siblings."""
    units: Sequence[Unit]
    pins: Mapping[int, str]
    """The rule of each pinned unit, by the unit's first index."""
    siblings: Sequence[Sibling]

    def policy_partition(self, policy: CompactPolicy) -> Partition:
        """Return the partition that the policy asks for."""
        return _policy_partition(self.units, self.messages, self.pins, policy)

    def newly_truncated_ids(self, plan: CompactionPlan | None) -> set[str]:
        """Return the messages that are truncated now and were not, or less, under the plan."""
        entries = plan.ledger if plan is not None else ()
        known = {entry.id for entry in entries if entry.fate == "truncated"}
        return self.forms.keys() - (known - self.truncations.keys())


def read_prompt(
    session: Session,
    request: Request,
    policy: CompactPolicy,
    count_text: Callable[[str], int],
    *,
    forms: Mapping[str, Message],
    truncations: Mapping[str, Truncation],
) -> Prompt:
    """Return the prompt of a request."""
    assert session.codec is not None
    messages, counts = _host_messages(request)
    units = group_units(messages)
    pins = pin_rules(units, messages, policy, session.protected_ids)
    siblings = list(_find_siblings(units, messages, pins, policy, session.plan, session.codec, count_text))
    for sibling in siblings:
        counts[sibling.index] -= sibling.tokens_freed
    return Prompt(request, forms, truncations, messages, counts, units, pins, siblings)


def is_host_message(message: Message) -> bool:
    """True for a message of the host's, False for a summary, pointer or opening that a renderer wrote."""
    return (message.id or "").startswith(("m", "aborted-"))


def _host_messages(request: Request) -> tuple[list[Message], list[int]]:
    messages, counts = [], []
    for message, tokens in zip(request.messages, request.counts, strict=True):
        if is_host_message(message):
            messages.append(message)
            counts.append(tokens)
    return messages, counts


def _policy_partition(
    units: Sequence[Unit], messages: Sequence[Message], pins: Mapping[int, str], policy: CompactPolicy
) -> Partition:
    return partition_units(
        units, messages, pins, keep_turns=policy.keep_recent_turns, keep_pairs=policy.keep_tool_io_pairs
    )


def _find_siblings(
    units: Sequence[Unit],
    messages: Sequence[Message],
    pins: Mapping[int, str],
    policy: CompactPolicy,
    plan: CompactionPlan | None,
    codec: Codec,
    count_text: Callable[[str], int],
) -> Iterator[Sibling]:
    """Yield the results that only stay because a protected tool was called at the same time."""
    if not any(rule.startswith(PROTECTED_TOOL) for rule in pins.values()):
        return
    # One user message can start many tool calls, so the recent turns alone do not say what is old.
    recent_pairs = min([*recent_pair_rules(units, policy.keep_tool_io_pairs)[0], newest_unit(units).first])
    start = max(recent_pairs, _policy_partition(units, messages, pins, policy).window_start)
    for unit in units:
        if pins.get(unit.first, "").startswith(PROTECTED_TOOL) and unit.last < start:
            yield from _siblings_in(unit, messages, policy.protected_tools, plan, codec, count_text)


def _was_cleared(message: Message, plan: CompactionPlan | None) -> bool:
    """True if an earlier compaction cleared the message, so that it has no original text to clear again."""
    return plan is not None and isinstance(plan.get_action(message.id or "")[1], ClearRecord)


def _siblings_in(
    unit: Unit,
    messages: Sequence[Message],
    protected_tools: Collection[str],
    plan: CompactionPlan | None,
    codec: Codec,
    count_text: Callable[[str], int],
) -> Iterator[Sibling]:
    calls = (call for index in unit.indices for call in messages[index].tool_calls)
    clearable = {call.id for call in calls if call.name not in protected_tools}
    for index in unit.indices:
        message = messages[index]
        if _was_cleared(message, plan):
            continue
        texts = {call_id: text for call_id, text in codec.outputs(message) if call_id in clearable}
        tokens_freed = sum(count_text(text) - _PLACEHOLDER_TOKENS for text in texts.values())
        if tokens_freed > 0:
            yield Sibling(unit, index, tuple(texts), tokens_freed)
