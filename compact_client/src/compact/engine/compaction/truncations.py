"""Truncate outputs of a prompt, if the recent window or the summary does not fit, and user messages over a limit.

The newest unit is truncated last, if nothing else would meet the budget. Each step returns another prompt, or the same
one if nothing could be truncated. The session does not change.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from compact import events
from compact.engine.compaction.drafts import DraftTerms, floor_units, goal_tokens_of, recent_units, results_to_keep
from compact.engine.compaction.prompt import Prompt, read_prompt
from compact.engine.effects import Steps
from compact.engine.session import Session
from compact.engine.truncation import is_truncatable, output_excerpt, policy_limit, truncate_message, user_limit
from compact.messages.codecs.base import ChangeOutput
from compact.messages.units import Unit
from compact.planning.draft import Draft, story_room
from compact.planning.limits import TokenLimits
from compact.planning.partition import PROTECTED_TOOL, Partition, newest_unit, protected_tools_of
from compact.planning.story import Story, StoryUnit, choose_story
from compact.planning.tool_results.truncation import truncate_with_split

if TYPE_CHECKING:
    from compact.engine.engine import Engine

_OUTPUT_SHARE = 0.8  # of the free budget, for the outputs of the newest unit
_ANSWERED_SHARE = 0.3  # of the free budget, for the outputs before it
_MIN_OUTPUT_TOKENS = 64
_MARKER_TOKENS = 16  # the line that says how much was cut


class PromptTruncation:
    """Truncates outputs of the prompts of one compaction."""

    def __init__(self, engine: Engine, session: Session, check: events.CheckSpan, terms: DraftTerms) -> None:
        self._engine = engine
        self._session = session
        self._check = check
        self._terms = terms
        self._policy = terms.policy
        self._count_text = engine.counter.count_text

    def truncate_recent(self, prompt: Prompt) -> Steps[Prompt]:
        """Truncate long outputs that the policy wants to keep, except for the newest unit."""
        newest = newest_unit(prompt.units) if prompt.units else None
        partition = prompt.policy_partition(self._policy)
        units = [*partition.recent, *_recent_protected(prompt, partition)]
        older = [unit for unit in units if unit is not newest]
        # Without the buffer, so that outputs which were truncated on arrival become shorter, too.
        policy = replace(self._policy, tool_output_serialization_buffer=1.0)
        shorten = policy_limit(policy, self._count_text)
        return (yield from self._truncate(prompt, older, shorten, "the recent window does not fit"))

    def truncate_answered(self, prompt: Prompt, draft: Draft | None, limits: TokenLimits) -> Steps[Prompt]:
        """Truncate the outputs before the newest unit, so that the summary gets its share of the budget.

        The agent has answered them, and the summary keeps the rest of them by value. Without a draft, they are the
        outputs that the smallest one keeps.
        """
        kept = self._kept_units(prompt, draft)
        newest = newest_unit(prompt.units)
        answered = [unit for unit in kept if unit is not newest]
        largest = self._largest_output(prompt, kept, answered, limits, _ANSWERED_SHARE)
        max_tokens = max(_MIN_OUTPUT_TOKENS, largest)
        reason = "the summary needs its share of the budget"
        return (yield from self._truncate_to(prompt, answered, max_tokens, reason))

    def truncate_to_fit(self, prompt: Prompt, limits: TokenLimits) -> Steps[Prompt]:
        """Truncate the outputs that must stay to the rest of the budget."""
        kept = self._kept_units(prompt)
        max_tokens = self._largest_output(prompt, kept, kept, limits, _OUTPUT_SHARE)
        if max_tokens < _MIN_OUTPUT_TOKENS:
            return prompt
        return (yield from self._truncate_to(prompt, kept, max_tokens, "the output does not fit the budget"))

    def choose_story(self, prompt: Prompt, draft: Draft) -> Story:
        """Choose the units that a draft would remove but that fit with shortened outputs.

        An outdated state, such as an older todo list, is not kept: it would stand after the newest, which is pinned.
        """
        room_tokens = story_room(
            self._policy, draft.limits, draft.pinned_tokens, draft.recent_tokens, goal_tokens_of(prompt, self._terms)
        )
        lasting_ids = results_to_keep(prompt, self._terms)
        candidates = [
            StoryUnit(unit, draft.sizes[unit.first], tuple(self._output_tokens(prompt, unit)))
            for unit in draft.partition.remainder
            if unit.kind != "context"
            and not any(prompt.messages[index].id in lasting_ids for index in unit.indices)
            and not protected_tools_of(unit, prompt.messages, self._policy)
        ]
        return choose_story(candidates, room_tokens)

    def truncate_story(self, prompt: Prompt, story: Story) -> Steps[Prompt]:
        """Shorten the outputs of older units that stay."""
        reason = "an older output, shortened so that the conversation around it stays"

        shorten = output_excerpt(story.output_tokens, self._count_text)
        shorter = yield from self._truncate(prompt, story.units, shorten, reason)
        new = {
            message_id: replace(truncation, excerpt_tokens=story.output_tokens)
            for message_id, truncation in shorter.truncations.items()
            if prompt.truncations.get(message_id) is not truncation
        }
        return replace(shorter, truncations={**shorter.truncations, **new})

    def _output_tokens(self, prompt: Prompt, unit: Unit) -> Iterator[int]:
        for texts in self._outputs_of(prompt, unit).values():
            yield from map(self._count_text, texts.values())

    def truncate_user_messages(self, prompt: Prompt, draft: Draft) -> Steps[tuple[Prompt, Draft]]:
        """Truncate the user messages that a draft limits. Those whose text cannot be truncated leave the prompt."""
        limits, engine, changes = draft.partition.user_limits, self._engine, []
        for index, limit in limits.items():
            message = prompt.messages[index]
            logged = self._session.thread.get(message.id or "") or message
            changes.append((index, user_limit(engine, logged, limit), f"user messages are limited to {limit:,} tokens"))
        prompt = yield from self._apply(prompt, changes)
        failed = [index for index, limit in limits.items() if prompt.counts[index] > limit]
        return prompt, replace(draft, partition=draft.partition.without_truncating(failed))

    def _kept_units(self, prompt: Prompt, draft: Draft | None = None) -> list[Unit]:
        """Return the units of a draft's recent window, or of the smallest one, and those of protected tools in it."""
        if draft is None:
            recent = floor_units(prompt, self._terms)
        else:
            recent = recent_units(prompt, self._terms, draft.partition.keep_turns, draft.partition.keep_pairs)
        return [*recent, *_recent_protected(prompt, prompt.policy_partition(self._policy))]

    def _largest_output(
        self, prompt: Prompt, kept: Sequence[Unit], units: Sequence[Unit], limits: TokenLimits, share: float
    ) -> int:
        """Return the most tokens of an output, if those of some of the kept units may take a share of the budget."""
        counts = prompt.counts
        outputs = [
            text for unit in units for texts in self._outputs_of(prompt, unit).values() for text in texts.values()
        ]
        output_tokens = [self._count_text(text) for text in outputs]
        firsts = {*prompt.pins, *(unit.first for unit in kept)}
        kept_tokens = sum(counts[index] for unit in prompt.units if unit.first in firsts for index in unit.indices)
        needed_tokens = self._terms.fixed_tokens + kept_tokens - sum(output_tokens)
        free_tokens = int((limits.budget_tokens - needed_tokens) * share)
        return _largest_share(output_tokens, free_tokens) - _MARKER_TOKENS

    def _outputs_of(self, prompt: Prompt, unit: Unit) -> dict[int, dict[str, str]]:
        """Return the outputs that may be truncated, by message index and call id.

        A pinned unit keeps the protected one.
        """
        codec, messages = self._session.codec, prompt.messages
        assert codec is not None
        protected_tools = self._policy.protected_tools if unit.first in prompt.pins else ()
        calls = (call for index in unit.indices for call in messages[index].tool_calls)
        protected = {call.id for call in calls if call.name in protected_tools}
        return {
            index: {call_id: text for call_id, text in codec.outputs(messages[index]) if call_id not in protected}
            for index in unit.indices
            if is_truncatable(self._policy, self._session.protected_ids, messages[index])
        }

    def _truncate_to(self, prompt: Prompt, units: Sequence[Unit], max_tokens: int, reason: str) -> Steps[Prompt]:
        """Truncate the outputs of some units that are longer than a limit and its marker."""
        if self._policy.tool_output_truncation == "none":
            return prompt

        def shorten(_: str, text: str) -> str:
            is_long = self._count_text(text) > max_tokens + _MARKER_TOKENS
            return truncate_with_split(text, max_tokens, self._count_text) if is_long else text

        return (yield from self._truncate(prompt, units, shorten, reason))

    def _truncate(self, prompt: Prompt, units: Sequence[Unit], shorten: ChangeOutput, reason: str) -> Steps[Prompt]:
        """Truncate the outputs of some units."""
        outputs = (item for unit in units for item in self._outputs_of(prompt, unit).items())
        return (
            yield from self._apply(prompt, [(index, _limit_to(texts, shorten), reason) for index, texts in outputs])
        )

    def _apply(self, prompt: Prompt, changes: Sequence[tuple[int, ChangeOutput, str]]) -> Steps[Prompt]:
        """Truncate some messages. A change has the index of the message, its new texts, and the reason."""
        engine, session = self._engine, self._session
        forms, truncations, is_changed = dict(prompt.forms), dict(prompt.truncations), False
        for index, change, reason in changes:
            message = prompt.messages[index]
            truncation = yield from truncate_message(engine, session, forms, message, change, reason, self._check)
            if truncation is None:
                continue
            is_changed = True
            forms[truncation.message_id] = truncation.form
            earlier = truncations.get(truncation.message_id)
            if earlier is not None:
                # Several of one output count as one, from the tokens before this compaction.
                truncation = replace(truncation, tokens_before=earlier.tokens_before)
            truncations[truncation.message_id] = truncation
        if not is_changed:
            return prompt
        request = session.render_request(session.plan, forms, engine.render_options)
        return read_prompt(session, request, self._policy, self._count_text, forms=forms, truncations=truncations)


def _recent_protected(prompt: Prompt, partition: Partition) -> list[Unit]:
    """Return the units of protected tools in the recent window. In older ones, other outputs are cleared."""
    return [
        unit
        for unit in partition.pinned
        if unit.last >= partition.window_start and prompt.pins[unit.first].startswith(PROTECTED_TOOL)
    ]


def _largest_share(sizes: Sequence[int], free_tokens: int) -> int:
    """Return the most that one of several outputs may take. Small ones leave their share to the others."""
    for number, size in enumerate(sorted(sizes)):
        share = free_tokens // (len(sizes) - number)
        if size > share:
            return share
        free_tokens -= size
    return max(sizes, default=0)


def _limit_to(call_ids: Container[str], change: ChangeOutput) -> ChangeOutput:
    """Return a function that changes only the outputs of these calls."""
    return lambda call_id, text: change(call_id, text) if call_id in call_ids else text
