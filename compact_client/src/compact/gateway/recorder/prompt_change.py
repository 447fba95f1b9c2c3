"""Compare a prompt with the one before: an append, an edit, a branch, a cleared result or a compaction. Pure.

Blocks are compared, not messages, and without what moves (see `PromptReader`). Nothing is inferred: both prompts were
seen as they were sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from compact.events import PromptChange
from compact.gateway.recorder.prompt import Block
from compact.ledgers.foreign_compaction import LogFate

_INSTRUCTIONS = {"system", "developer"}
_STEP = 64
Fates = Mapping[str, tuple[LogFate, str]]


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between two prompts."""

    change: PromptChange
    kept: int
    """The number of leading blocks that both prompts have."""


def compare(old: Sequence[Block], new: Sequence[Block], *, is_announced: bool) -> Difference:
    """Return the difference. `is_announced` is True if a summary was requested or the agent says that it compacted."""
    kept = common_prefix(old, new)
    before, after = _without_asides(old[kept:]), _without_asides(new[kept:])
    sent = [block for block in before if not block.is_answer]
    if not sent and all(block.is_aside or block.is_answer for block in old[:kept]):
        return Difference("start", kept)
    if common_prefix(before, after) >= len(sent):
        # All that was sent is still there. An answer may be repeated in parts, for example after an abort.
        return Difference("append", kept)
    before, after = _without_asides(old), _without_asides(new)
    change = _change_of_missing(before, after, common_prefix(before, after), is_announced=is_announced)
    return Difference(change, kept)


def _without_asides(prompt: Sequence[Block]) -> list[Block]:
    return [block for block in prompt if not block.is_aside]


def _change_of_missing(
    before: Sequence[Block], after: Sequence[Block], prefix: int, *, is_announced: bool
) -> PromptChange:
    """Return the change after which some blocks are missing."""
    missing = _find_missing(before, after)
    lasting = {block.role for block in missing if not (block.is_reasoning or block.is_answer)}
    if not lasting:
        return "append"
    if is_announced:
        return "compaction"
    if lasting <= _INSTRUCTIONS:
        # Claude Code writes them again in each run, and a compaction removes what was said.
        return "edit"
    if _are_cleared(missing, after):
        return "clear"
    if len(missing) == len(before):
        return "start"
    if _has_later(before, missing):
        return "compaction"
    is_edit = prefix < len(after) and before[prefix].role == after[prefix].role == "user"
    return "edit" if is_edit else "branch"


def _are_cleared(missing: Sequence[Block], after: Sequence[Block]) -> bool:
    """Return True if the missing blocks are results, and the new prompt has other results of the same calls."""
    results = {block.result_of for block in after if block.result_of}
    return all(block.result_of in results or block.is_reasoning for block in missing)


def fates_of(old: Sequence[Block], new: Sequence[Block], *, summarized: Collection[bytes] | None) -> Fates:
    """Return the fate of every block of the old prompt. `summarized` has the prints that the summary's author has read.

    Without it, no summary was written.
    """
    left = Counter(block.print for block in new)
    results = {block.result_of: block for block in new if block.result_of}
    fates: dict[str, tuple[LogFate, str]] = {}
    for block in old:
        if left[block.print]:
            left[block.print] -= 1
            fates[block.name] = "kept", "sent again"
        elif block.result_of in results:
            is_shorter = results[block.result_of].tokens < block.tokens
            fates[block.name] = "cleared", "the same call has a shorter result" if is_shorter else "another result"
        elif block.is_aside:
            fates[block.name] = "dropped", "reminder of the agent"
        elif summarized is not None and block.print in summarized:
            fates[block.name] = "summarized", "in the request for the summary"
        else:
            fates[block.name] = "dropped", "not in the next prompt"
    return fates


def _find_missing(before: Sequence[Block], after: Sequence[Block]) -> list[Block]:
    """Return the blocks that the new prompt does not have, wherever they were."""
    left = Counter(block.print for block in after)
    missing = []
    for block in before:
        if left[block.print]:
            left[block.print] -= 1
        else:
            missing.append(block)
    return missing


def _has_later(before: Sequence[Block], missing: Sequence[Block]) -> bool:
    """Return True if a block that stays comes after one that is missing."""
    names = {block.name for block in missing}
    has_gap = False
    for block in before:
        if block.name in names:
            has_gap = True
        elif has_gap and not block.is_answer:
            return True
    return False


def common_prefix(one: Sequence[Block], other: Sequence[Block]) -> int:
    """Return the number of leading blocks that both prompts have."""
    length, start = min(len(one), len(other)), 0
    # Prompts of one reader share the blocks that they have in common, and lists compare those without a step for each.
    while start < length and one[start : start + _STEP] == other[start : start + _STEP]:
        start += _STEP
    return next((index for index in range(start, length) if one[index].print != other[index].print), length)
