"""Index the lines of a span, the entities that each line mentions, and the value of each line.

`entity_usage` estimates how likely each entity is to be needed again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Final

from compact.reading.blocks import Block, LineKind
from compact.reading.entities import (
    TYPE_WEIGHTS,
    Mention,
    find_entities,
)
from compact.reading.lines.line_classifier import is_instruction, summary_field
from compact.reading.text_cache import TextCache
from compact.summarizers.extraction.call_runs import run_line, split_run
from compact.summarizers.extraction.entity_usage import CHARS_PER_TOKEN, EntityUsage, reuse_scores
from compact.summarizers.extraction.records.record_state import FIRST_LINE_VALUE
from compact.summary.entries import Mentions
from compact.summary.record_tree import shown_text
from compact.summary.renderer import USER_PREFIX

LINE_TOKENS: Final = 2.0  # a newline and, for some lines, a marker

# The value of a line for its summary field alone, where 1 is an id that will certainly be needed again. They were tuned
# on recorded sessions, see tests/bench/quality.
FIELD_BONUS: Final[dict[str, float]] = {
    "current_task": 4.0,
    "artifacts": 2.0,
    "constraints": 1.6,
    "goals": 0.6,
    "open_items": 1.3,
    "files": 1.3,
    "checks": 2.0,
    "changed_values": 0.6,
    "records": 0.22,
    "changes": 1.3,  # a file and its change, only in the `code_delta` style
    "decisions": 1.2,
    "sources": 0.3,
    "current_plan": 0.8,
    "milestones": 0.6,  # commits, and completed items of earlier plans
    "commands": 0.25,
    "files_read": 0.05,
    "statements": 1.3,  # what the user says or asks in a short message
    "questions": 0.5,  # of the user, in a long message
    "requests": 0.06,
    "reports": 0.6,  # of a program in the user's turn, about what is not possible
    "tool_outcomes": 0.05,
    "facts": 0.1,  # ordinary prose, which only fills leftover space
}
# Lines of these fields that an earlier summary kept are worth more, so that newer lines do not displace them.
_STABLE_FIELDS: Final = frozenset(
    {"constraints", "decisions", "milestones", "open_items", "questions", "reports", "statements"}
)
_STABLE_BONUS: Final = 3.5
_REPEATED_CALL_BONUS: Final = 0.3
_MAX_LINES_PER_TEMPLATE: Final = 3  # lines that differ only in their numbers and still get the bonus
# An agent repeats what it still has to do, and its commands, with each attempt. Only the last of these lines gets the
# bonus.
_SUPERSEDED_FIELDS: Final = frozenset({"open_items", "decisions", "commands"})
_REPEATED_FIELDS: Final = frozenset({"commands", "tool_outcomes"})
# The steps of a plan, records, and the files of a directory such as `v2` may differ only in words with a digit.
_NUMBERED_FIELDS: Final = frozenset({"current_plan", "records", "files", "changed_values"})
_OPENING_WORDS: Final = 3
_SAME_WORDS_SHARE: Final = 0.6
_EXCERPT_LINES: Final = 5  # of tool text, which stays or goes together
# What was said is worth this much per token, whatever it mentions.
_STORY_FIELDS: Final = frozenset({"facts", "statements", "questions", "requests"})
_STORY_VALUE_PER_TOKEN: Final = 0.008
_DIGIT: Final = re.compile(r"\d")
_WORD_WITH_DIGIT: Final = re.compile(r"(?<!\S)[^\s\d]*+\d\S*+")
# The name of a field is not an entity, nor are those above the columns of a table.
_FIELD_NAME: Final = re.compile(r"(?<![\w.])[A-Za-z_][\w.]*+[=(](?:(?:[\w.-]+, )+[\w.-]+: )?")
_QUOTATION_MARKS: Final = frozenset("\"'`")
_LONE_WORD: Final = re.compile(r"[\"'`][^\"'`\s]{0,80}[\"'`],?")
_SHOWN_KINDS: Final = frozenset({"output", "record"})
_EXCERPT_KINDS: Final = frozenset({"output", "code", "pasted"})
_TOOL_TEXT_KINDS: Final = frozenset({"output", "code"})
_UNSAID_KINDS: Final = frozenset({"output", "code", "record"})
_FILE_FIELDS: Final = frozenset({"files", "files_read"})
_USER_KINDS: Final = frozenset({"user", "pasted"})
_CALL_KINDS: Final = frozenset({"call", "command", "edit"})
_OPTION: Final = re.compile(r"[(,] ?([\w-]+)=(?!true|false|null)([A-Za-z][\w-]{2,30})(?=[,)])")
_ID_OPTION: Final = re.compile(r"id|.*(?:[_-]id|Id|ID)")
# Fields whose lines are tool calls and may carry excerpts of their output.
CALL_FIELDS: Final = frozenset({"commands", "tool_outcomes", "files", "files_read", "changes"})

_WORD_TYPES: Final = frozenset({"acronym", "name", "num", "unit"})
_LineEntities = tuple[tuple[int, ...], Sequence[int]]  # those of a line, and those that its message mentioned before


@dataclass(slots=True)
class Candidate:
    """A line that may be kept in the summary. Priority lines are selected before all others."""

    text: str
    block: Block
    field: str
    entities: tuple[int, ...]
    bonus: float
    tokens: float
    order: int
    is_priority: bool
    record: str = ""  # for a record: its name, with that of its parent
    after: int = -1  # for a record: the order of the line with the fields that are used more
    subject: int = -1  # for a record: the entity that identifies it
    subject_worth: float = 0.0  # for a record: how much of the reuse score of that entity the line is worth
    unexplained: tuple[int, ...] = ()  # entities about which another line says more
    start: int = 0  # for an excerpt: the number of lines of its block before it


class _EntityIds(dict[Mention, int]):
    """Maps mentions to entity ids and creates ids on first access. Later lookups run entirely in C."""

    def __init__(self, usages: list[EntityUsage], keys: list[str], earlier: Mapping[str, Mentions]) -> None:
        self.line = ""  # the line being indexed
        self._usages = usages
        self._keys = keys
        self.earlier = earlier  # mentions in the messages that an earlier summary replaced
        self.by_key: dict[str, int] = {}

    def __missing__(self, mention: Mention) -> int:
        key, kind = mention
        usages = self._usages
        entity = self.by_key.get(key)
        if entity is None:
            entity = self.by_key[key] = len(usages)
            mentions = self.earlier.get(key)
            usages.append(
                EntityUsage(kind, self.line) if mentions is None else EntityUsage.continued(kind, self.line, mentions)
            )
            self._keys.append(key)
        elif TYPE_WEIGHTS[kind] > TYPE_WEIGHTS[usages[entity].type]:
            usages[entity].type = kind
        self[mention] = entity
        return entity


class SpanIndex:
    """The distinct lines of a span, the entities they mention, and the usage of each entity.

    An entity id is an index into `usages` and `keys`. `visible` holds the entities that stay in the prompt anyway.
    """

    def __init__(
        self,
        keep_keys: Sequence[str] = (),
        *,
        mentions: Iterable[Mentions] = (),
        continues_summary: bool = False,
    ) -> None:
        self.continues_summary = continues_summary
        """True if some of the lines are those of an earlier summary."""
        self.usages: list[EntityUsage] = []
        self.keys: list[str] = []
        self.candidates: list[Candidate] = []
        self.visible: set[int] = set()
        self._mentions: dict[str, Mentions] = {}  # by key, without those in lines that stay in the prompt
        self._chars = 0
        self._last_lines: dict[str, int] = {}  # the order of the last line of each record
        self._template_counts: Counter[str] = Counter()
        self._line_by_opening: dict[str, Candidate] = {}
        self._entity_ids = _EntityIds(self.usages, self.keys, {item.key: item for item in mentions})
        self._entities_by_line: dict[str, tuple[int, ...]] = {}
        self._candidates_by_line: dict[str, Candidate | None] = {}  # None for lines that stay in the prompt
        self._keep = re.compile("|".join(map(re.escape, sorted(keep_keys))), re.IGNORECASE) if keep_keys else None

    def add(self, blocks: Iterable[Block], *, last_user: int = -1) -> None:
        """Index lines that may be kept. `last_user` is the position of the last user message."""
        candidates = self._candidates_by_line
        for block in blocks:
            values = chain(block.values, repeat(FIRST_LINE_VALUE))
            mentions = self._record_usage(block, last_user)
            if block.field == "entities":
                continue  # Earlier versions listed names.
            start = block.start
            for text, (entities, repeated), value in _passages(block, mentions, values):
                if text in candidates:
                    if (candidate := candidates[text]) is not None:
                        _record_repetition(candidate, text, block)
                elif self._keep is not None or self._is_informative(text, block, entities):
                    candidate = candidates[text] = self._add_candidate(text, block, entities, value)
                    candidate.unexplained = _unexplained_entities(candidate, repeated)
                    candidate.start = start
                start += text.count("\n") + 1

    def add_visible(self, blocks: Iterable[Block], *, last_user: int = -1) -> None:
        """Index lines that stay in the prompt, so that the summary does not repeat what they mention.

        They come after those that may be kept, and a summary does not count them among the messages that it replaces.
        """
        self._mentions = self._mentions or self._count_mentions()
        for block in blocks:
            self.visible.update(*(entities for entities, _ in self._record_usage(block, last_user)))
            for text in block.lines:
                self._candidates_by_line.setdefault(text)

    def unshown_mentions(self, lines: Iterable[Candidate]) -> tuple[Mentions, ...]:
        """Return the mentions of entities that a summary of these lines does not show.

        These are entities that several messages mention, that were said but only remain in tool output, or that are
        left to the messages after the span.
        """
        said: set[int] = set()
        shown: set[int] = set()
        for line in lines:
            (shown if line.block.kind in _UNSAID_KINDS else said).update(line.entities)
        known = self._mentions or self._count_mentions()
        entities = sorted(entity for entity in said | shown | self.visible if self.keys[entity] in known)
        return tuple(
            mentions
            for entity, mentions in ((entity, known[self.keys[entity]]) for entity in entities)
            if entity in self.visible or mentions.messages > 1 or (mentions.said and entity not in said)
        )

    def _count_mentions(self) -> dict[str, Mentions]:
        """Return the mentions so far of each entity in the messages that the summary replaces."""
        pairs = zip(self.keys, self.usages, strict=True)
        return {**self._entity_ids.earlier, **{key: usage.mentions(key) for key, usage in pairs}}

    def reuse_scores(self) -> list[float]:
        """Return the weight of each entity times the probability that it is needed again."""
        return reuse_scores(self.usages, self._chars)

    def _place_in_record(self, candidate: Candidate, value: float) -> None:
        """Link a line of a record with the line before it, and with the name of the record."""
        candidate.record = candidate.text.partition(": ")[0]
        candidate.after = self._last_lines.get(candidate.record, -1)
        self._last_lines[candidate.record] = candidate.order
        label = candidate.record.partition(" ")[2]
        mentions = find_entities(label) if label else ()
        candidate.subject, candidate.subject_worth = self._entity_ids[mentions[0]] if mentions else -1, value

    def _add_candidate(self, text: str, block: Block, entities: tuple[int, ...], value: float) -> Candidate:
        field = block.field or summary_field(text, block.kind)
        tokens = len(shown_text(text, block.parent)) / CHARS_PER_TOKEN + LINE_TOKENS
        is_priority = self._is_priority(text, block, field)
        bonus = _line_bonus(block, field, tokens)
        if bonus and not is_priority and field not in _NUMBERED_FIELDS and self._is_boilerplate(text):
            bonus = 0.0
        candidate = Candidate(text, block, field, entities, bonus, tokens, len(self.candidates), is_priority)
        if block.kind == "record":
            self._place_in_record(candidate, value)
        if field in _REPEATED_FIELDS and (earlier := self._earlier_run(text)) is not None:
            candidate.bonus += earlier.bonus + _REPEATED_CALL_BONUS
            earlier.bonus = 0.0
        elif field in _SUPERSEDED_FIELDS and not is_priority:
            self._supersede(candidate)
        self.candidates.append(candidate)
        return candidate

    def _earlier_run(self, text: str) -> Candidate | None:
        """Return the run of a repeated call before the one of this line."""
        call, run = split_run(text)
        return self._candidates_by_line.get(run_line(call, run - 1)) if run > 1 else None

    def _supersede(self, candidate: Candidate) -> None:
        """Take the bonus from the last line with the same beginning if the new one mentions all that it mentions."""
        words = candidate.text.lower().split()
        opening = " ".join(words[:_OPENING_WORDS])
        earlier = self._line_by_opening.get(opening)
        self._line_by_opening[opening] = candidate
        if earlier is None or not earlier.bonus or not set(earlier.entities) <= set(candidate.entities):
            return
        old, new = set(earlier.text.lower().split()), set(words)
        if len(old & new) >= _SAME_WORDS_SHARE * len(old | new):
            earlier.bonus = 0.0

    def _is_informative(self, text: str, block: Block, entities: tuple[int, ...]) -> bool:
        """False for lines that say nothing: tool text without entities, a lone quoted word, an announcement."""
        if block.kind in _TOOL_TEXT_KINDS:
            return bool(entities) and not _is_lone_word(text)
        return bool(block.field) or not self._is_announcement(text, block.kind, entities)

    def _is_announcement(self, text: str, kind: LineKind, entities: tuple[int, ...]) -> bool:
        """True for headings, labels and exclamations that mention nothing but words and numbers."""
        if text[0] != "#" and text[-1] not in ":*" and text.count(" ") > 1:
            return False
        is_plain = all(self.usages[entity].type in _WORD_TYPES for entity in entities)
        return is_plain and FIELD_BONUS.get(summary_field(text, kind), 0.0) <= FIELD_BONUS["requests"]

    def _is_boilerplate(self, text: str) -> bool:
        """True if several lines so far differ only in their numbers, as in program output."""
        template = _templates[text]
        if not template:
            return False
        self._template_counts[template] += 1
        return self._template_counts[template] > _MAX_LINES_PER_TEMPLATE

    def _is_priority(self, text: str, block: Block, field: str) -> bool:
        if field in ("current_task", "goals", "artifacts", "checks"):
            return True
        # A kept decision of the user is no longer a line of the user, but still says who decided.
        if field == "decisions" and (block.kind == "user" or text.startswith(USER_PREFIX)):
            return True
        if field == "constraints" and (block.field or is_instruction(text)):
            return True
        return self._keep is not None and self._keep.search(text) is not None

    def _record_usage(self, block: Block, last_user: int) -> list[_LineEntities]:
        """Update the usage of every entity in a block and return the entities of each line.

        These are the innermost loops of a compaction, so they avoid function calls.
        """
        known, usages, chars = self._entities_by_line, self.usages, self._chars
        entity_id = self._entity_ids.__getitem__
        kind, position, parent = block.kind, block.position, block.parent
        is_shown, is_code = kind in _SHOWN_KINDS, kind == "code"
        # Excerpts of an earlier summary have no entry of their own.
        is_earlier = block.entry is not None or block.field == "outputs"
        lines: list[_LineEntities] = []
        for text in block.lines:
            chars += len(text) + 1
            entities = known.get(text)
            if entities is None:
                self._entity_ids.line = text
                shown = shown_text(text, parent) if parent else text
                mentions = _mentions(shown, kind)
                entities = known[text] = tuple(dict.fromkeys(map(entity_id, mentions)))
            repeated: list[int] = []
            for entity in entities:
                usage = usages[entity]
                usage.last_chars = chars
                if is_earlier and usage.is_counted:
                    continue
                if usage.last_position == position:
                    repeated.append(entity)
                else:
                    usage.last_position = position
                    usage.messages += 1
                if is_shown:
                    usage.shown += 1
                elif is_code:
                    usage.written += 1
                else:
                    usage.said += 1
            lines.append((entities, repeated))
        self._chars = chars
        self._record_source(block, lines, last_user)
        return lines

    def _record_source(self, block: Block, lines: list[_LineEntities], last_user: int) -> None:
        """Update the usage of every entity in a block by who mentioned it."""
        kind, is_kept, usages = block.kind, block.entry is not None, self.usages
        for entity in lines[0][0] if len(lines) == 1 else set().union(*(entities for entities, _ in lines)):
            usage = usages[entity]
            usage.is_kept |= is_kept
            if kind in _SHOWN_KINDS:
                usage.smallest_output_chars = min(usage.smallest_output_chars, block.size)
            elif kind in _USER_KINDS:
                usage.by_user = True
                usage.in_last_request |= block.position == last_user
            elif kind in _CALL_KINDS:
                usage.as_argument = True


def _line_bonus(block: Block, field: str, tokens: float) -> float:
    """Return the value of a line for its field."""
    bonus = FIELD_BONUS.get(field, 0.0)
    if block.entry is not None and field in _STABLE_FIELDS:  # a line of an earlier summary
        bonus *= _STABLE_BONUS
    if field in _STORY_FIELDS and block.kind in ("prose", "user"):
        bonus = max(bonus, tokens * _STORY_VALUE_PER_TOKEN)
    return bonus


def _mentions(text: str, kind: LineKind) -> tuple[Mention, ...]:
    if kind == "record":
        return find_entities(_record_values[text])
    if kind not in _CALL_KINDS or "=" not in text:
        return find_entities(text)
    # Option values are plain words, but the next call of the same tool is likely to use them again.
    options = (
        (word.lower(), "id" if _ID_OPTION.fullmatch(option) else "option") for option, word in _OPTION.findall(text)
    )
    return find_entities(text) + tuple(options)


def _without_field_names(text: str) -> str:
    """Return the line of a record without its kind and the names of its fields, which are not entities."""
    kind_name, space, rest = text.partition(" ")
    return _FIELD_NAME.sub(" ", rest if space and "=" not in kind_name and "(" not in kind_name else text)


def _record_repetition(candidate: Candidate, text: str, block: Block) -> None:
    if candidate.field in CALL_FIELDS:
        # A call that was repeated is likely to be made again, even if it mentions no entity.
        candidate.bonus += _REPEATED_CALL_BONUS
    elif block.kind == "user" != candidate.block.kind and is_instruction(text):
        # The user repeated a rule that first appeared in other text, so it is now the user's instruction.
        candidate.block, candidate.field = block, "constraints"
        candidate.bonus, candidate.is_priority = FIELD_BONUS["constraints"], True


def _passages(
    block: Block, mentions: Sequence[_LineEntities], values: Iterable[float]
) -> Iterable[tuple[str, _LineEntities, float]]:
    """Return the parts of a block that are kept or left out as a whole: lines, or excerpts of tool text."""
    if block.kind not in _EXCERPT_KINDS or (block.kind == "pasted" and block.field):
        return zip(block.lines, mentions, values, strict=False)
    passages = []
    size = max(2, -(-len(block.lines) // max(1, round(len(block.lines) / _EXCERPT_LINES))))
    starts = list(range(0, len(block.lines), size))
    if len(starts) > 1 and len(block.lines) - starts[-1] < 2:
        starts.pop()
    for start, end in zip(starts, [*starts[1:], len(block.lines)], strict=True):
        part = mentions[start:end]
        entities = tuple(dict.fromkeys(entity for line, _ in part for entity in line))
        repeated = tuple(dict.fromkeys(entity for _, line in part for entity in line))
        passages.append(("\n".join(block.lines[start:end]), (entities, repeated), FIRST_LINE_VALUE))
    return passages


def _unexplained_entities(candidate: Candidate, repeated: Sequence[int]) -> tuple[int, ...]:
    """Return the entities about which another line says more.

    The first line of an output that mentions an entity introduces it, as a comment or a definition does, and later ones
    repeat it. The list of files says nothing about a file except that it was changed.
    """
    if candidate.field in _FILE_FIELDS:
        return candidate.entities
    # Those of an earlier summary have a field. They are excerpts of several outputs, in which no line is the first.
    is_output = candidate.block.kind in _TOOL_TEXT_KINDS and not candidate.block.field
    return tuple(repeated) if is_output else ()


def _is_lone_word(text: str) -> bool:
    return text[0] in _QUOTATION_MARKS and _LONE_WORD.fullmatch(text) is not None


def _template(text: str) -> str:
    """Return a line without its numbers, or an empty text if it has none."""
    return _WORD_WITH_DIGIT.sub("#", text) if _DIGIT.search(text) else ""


_templates: Final = TextCache(_template, max_chars=1_000_000)
_record_values: Final = TextCache(_without_field_names, max_chars=1_000_000)
