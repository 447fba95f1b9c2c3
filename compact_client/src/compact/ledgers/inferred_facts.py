"""Find what a foreign compaction lost: rules, decisions, open items, file changes, ids, numbers and paths.

The facts are found by the extraction rules of the built-in summarizer, without a model. A model has written the
summary in its own words, so a sentence counts as kept if one line of the new prompt has most of its words and all of
its ids, numbers and paths. Pure: the same messages give the same facts.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from compact.messages import Message, Role, text_of
from compact.summarizers.extraction.blocks import Block, read_blocks
from compact.summarizers.extraction.entities import (
    TYPE_WEIGHTS,
    Mention,
    find_entities,
    original_spelling,
    scan_entities,
)
from compact.summarizers.extraction.line_classifier import is_instruction, summary_field
from compact.summarizers.extraction.state.file_ledger import failed_calls, read_ledger
from compact.summarizers.extraction.state.requests import request_positions, request_text, without_wrappers
from compact.summarizers.extraction.state.todo_list import read_todo_list
from compact.summarizers.retention import FACT_KINDS
from compact.summary.entries import normalize

# How much each kind looks like a commitment. Facts that only a tool showed are needed again far less often.
_WEIGHTS: Final = {"goal": 3.5, "constraint": 3.0, "decision": 0.7, "open_item": 1.0, "file": 1.5, "todo": 1.8}
_FIRM_WEIGHTS: Final = {"constraint": 4.0, "decision": 2.0, "open_item": 1.4}
_FIRM: Final = {
    "constraint": re.compile(
        r"\b(?:never|always|must(?: not|n't)?|do not|don'?t|forbidden|only|under no circumstances)\b", re.IGNORECASE
    ),
    "decision": re.compile(
        r"\b(?:decid(?:ed|ing)|decision|going with|go with|went with|settled on|agreed|chose|chosen|opted|root cause"
        r"|we(?:'ll| will) (?:use|keep|go|not)|from now on|as agreed|you (?:want|prefer|asked))\b",
        re.IGNORECASE,
    ),
    "open_item": re.compile(
        r"\b(?:todo|fixme|not yet|still (?:need|have|missing|fail\w*)|blocked|left to do|unresolved|outstanding"
        r"|follow[- ]?up|waiting (?:for|on))\b",
        re.IGNORECASE,
    ),
}
# Diffs and numbered listings that a user pasted, announcements, and headings.
_PASTED: Final = re.compile(r"\s*(?:\d+\s*[-+|:→]|[-+]{3}\s|@@|#|\|)")
_ANNOUNCEMENT: Final = re.compile(
    r"(?:(?:now|next|first|ok(?:ay)?|good|great)\b[,.!:]? )*(?:let me|i'll|i need to)\b", re.I
)
_MIN_SENTENCE_WORDS: Final = 4
_SOURCE_WEIGHTS: Final = {"user": 1.0, "prose": 0.8, "output": 0.1, "record": 0.1}
_ENTITY_WEIGHTS: Final = {name: TYPE_WEIGHTS[name] for name in FACT_KINDS}
_DONE: Final = 0.3  # in a call, a command or an edit
# A file that a tool printed is not a list of facts. Both ends of an output are read.
_MAX_OUTPUT_CHARS: Final = 3_000
_MAX_USER_CHARS: Final = 40_000
_LINE_NUMBERS: Final = re.compile(r"^[ \t]*\d+(?:→|\t|\| ?)[ \t]*", re.MULTILINE)
_SAME_WORDS: Final = 0.6
_MIN_WORDS: Final = 3
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+")
_WORD: Final = re.compile(r"[^\W_]{3,}")
_STEM_CHARS: Final = 5
_STOP: Final = (
    "the and for that this with from are was were will would should could have has had not but you your our its it's"
    " they them then than there these those what when which who how all any can may also into onto about please must"
    " never always only don't"
)
_STOP_WORDS: Final = frozenset(_STOP.split())


@dataclass(frozen=True, slots=True)
class InferredFact:
    """One fact of the messages that left the prompt."""

    kind: str
    text: str
    source_ids: tuple[str, ...]
    weight: float
    is_kept: bool
    order: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the fact as `compact.retention` lists it."""
        return {"kind": self.kind, "text": self.text, "source_ids": list(self.source_ids)}


def find_facts(
    removed: Sequence[Message], rendered: Sequence[Message], *, program_ids: Collection[str] = ()
) -> list[InferredFact]:
    """Return the facts of `removed`, best first, each with whether the prompt `rendered` still has it.

    `program_ids` are the user messages that the agent wrote itself, such as earlier summaries.
    """
    prompt = _Prompt(rendered)
    shortened = [_shorten(message, is_program=message.id in program_ids) for message in removed]
    facts = [
        *_goal_facts(shortened, prompt),
        *_block_facts(shortened, prompt),
        *_file_facts(shortened, prompt),
        *_todo_facts(shortened, prompt),
    ]
    # Among equals, what was said last is most likely still needed.
    return sorted(facts, key=lambda fact: (-fact.weight, -fact.order))


class _Prompt:
    """The new prompt, indexed by entity and by word."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.entities: set[str] = set()
        self._lines: list[str] = []
        self._lines_by_stem: defaultdict[str, list[int]] = defaultdict(list)
        for block in read_blocks(messages):
            for line in block.lines:
                self.entities.update(key for key, _ in find_entities(line))
                for stem in _stems(line):
                    self._lines_by_stem[stem].append(len(self._lines))
                self._lines.append(line)
        self._text = normalize("\n".join(self._lines))

    def has_text(self, text: str) -> bool:
        """Return True if the prompt contains a text verbatim, apart from case and spaces."""
        return normalize(text) in self._text

    def has_sentence(self, text: str) -> bool:
        """Return True if a line of the prompt says the same in similar words."""
        if self.has_text(text):
            return True
        stems = _stems(text)
        if len(stems) < _MIN_WORDS or not {key for key, _ in find_entities(text)} <= self.entities:
            return False
        counts = Counter(line for stem in stems for line in self._lines_by_stem.get(stem, ()))
        return bool(counts) and max(counts.values()) >= _SAME_WORDS * len(stems)


def _block_facts(messages: Sequence[Message], prompt: _Prompt) -> Iterator[InferredFact]:
    """Yield sentences of users and agents, and the ids, numbers and paths of all messages."""
    outputs, others = _split_outputs(messages)
    entities = _Entities(prompt)
    sentences: set[str] = set()
    seen: set[tuple[str, str]] = set()
    for block in read_blocks([messages[index] for index in others]):
        weight, position = _SOURCE_WEIGHTS.get(block.kind, _DONE), others[block.position]
        for line in block.lines:
            if (block.kind, line) in seen:
                continue
            seen.add((block.kind, line))
            kind = _sentence_kind(line, block)
            if kind and (key := normalize(line)) not in sentences:
                sentences.add(key)
                importance = (_FIRM_WEIGHTS if _FIRM[kind].search(line) else _WEIGHTS)[kind]
                yield InferredFact(kind, line, block.sources, importance, prompt.has_sentence(line), position)
            entities.add(line, find_entities(line), block.sources, weight, position)
    seen_outputs: set[str] = set()
    for index in outputs:
        message = messages[index]
        sources = (message.id,) if message.id else ()
        for text in _output_parts(message.text):
            if text not in seen_outputs:
                seen_outputs.add(text)
                # A whole output is not read again, so it would only displace lines in the cache.
                mentions = scan_entities(text)
                entities.add(text, mentions, sources, _SOURCE_WEIGHTS["output"], index)
    yield from entities.facts.values()


def _split_outputs(messages: Sequence[Message]) -> tuple[list[int], list[int]]:
    """Return the positions of tool outputs and of all other messages.

    Outputs are not read as tables and records, as a summary reads them, because only ids, numbers and paths are wanted.
    An output that says that a call failed stays with its call.
    """
    failed = failed_calls(messages)
    outputs: list[int] = []
    others: list[int] = []
    for index, message in enumerate(messages):
        is_output = message.role == "tool" or bool(message.answers)
        (outputs if is_output and failed.isdisjoint(message.answers) else others).append(index)
    return outputs, others


def _output_parts(text: str) -> Sequence[str]:
    """Return an output without line numbers. Backslashes mean different things in different lines, so they split it."""
    text = _LINE_NUMBERS.sub("", text)
    return text.split("\n") if "\\" in text else (text,)


class _Entities:
    """Ids, numbers and paths. The mention with the most weight is the one that is shown."""

    def __init__(self, prompt: _Prompt) -> None:
        self._prompt = prompt
        self.facts: dict[str, InferredFact] = {}

    def add(
        self, text: str, mentions: Iterable[Mention], sources: tuple[str, ...], source_weight: float, position: int
    ) -> None:
        """Add the mentions in a text."""
        facts = self.facts
        for key, entity_type in mentions:
            weight = source_weight * _ENTITY_WEIGHTS.get(entity_type, 0.0)
            known = facts.get(key)
            if weight and (known is None or weight > known.weight):
                is_kept = key in self._prompt.entities
                spelling = original_spelling(text, key)
                facts[key] = InferredFact(FACT_KINDS[entity_type], spelling, sources, weight, is_kept, position)


def _sentence_kind(line: str, block: Block) -> str | None:
    if block.kind not in ("user", "prose"):
        return None
    is_short = line.count(" ") + 1 < _MIN_SENTENCE_WORDS
    if is_short or line.endswith(":") or _PASTED.match(line):
        return None
    if block.kind == "user":
        return "constraint" if is_instruction(line) else None
    if _ANNOUNCEMENT.match(line):
        return None
    return {"decisions": "decision", "open_items": "open_item"}.get(summary_field(line, "prose"))


def _goal_facts(messages: Sequence[Message], prompt: _Prompt) -> Iterator[InferredFact]:
    """Yield the first and the newest request of the user."""
    positions = request_positions(messages)
    for position in dict.fromkeys((*positions[:1], *positions[-1:])):
        text, sources = request_text(messages[position]), tuple(filter(None, (messages[position].id,)))
        # A request starts with its goal. The details that follow are facts of their own.
        goal = _SENTENCE_END.split(text, maxsplit=1)[0]
        yield InferredFact("goal", goal, sources, _WEIGHTS["goal"], prompt.has_sentence(goal), position)


def _file_facts(messages: Sequence[Message], prompt: _Prompt) -> Iterator[InferredFact]:
    for file in read_ledger(messages):
        if file.state == "read":
            continue
        name = file.path.rpartition("/")[2].lower()
        is_kept = any(name in key for key in prompt.entities) or prompt.has_text(name)
        position = file.positions[-1] if file.positions else 0
        sources = tuple(filter(None, {messages[index].id for index in file.positions}))
        text = f"{file.path}: {file.description}"
        yield InferredFact("file", text, tuple(sorted(sources)), _WEIGHTS["file"], is_kept, position)


def _todo_facts(messages: Sequence[Message], prompt: _Prompt) -> Iterator[InferredFact]:
    """Yield the items of the latest to-do list that are not done."""
    todo = read_todo_list(messages)
    if todo.plan is None:
        return
    done = {normalize(note.text) for note in todo.done}
    for line in todo.plan.lines:
        text = line.partition("] ")[2] or line
        if normalize(text) not in done:
            is_kept = prompt.has_sentence(text)
            yield InferredFact("open_item", text, todo.plan.sources, _WEIGHTS["todo"], is_kept, todo.plan.position)


def _shorten(message: Message, *, is_program: bool) -> Message:
    """Return a message without program text and thinking, and a long output with only its ends."""
    text = message.text
    if message.role == "tool" or message.answers:
        half = _MAX_OUTPUT_CHARS // 2
        return message if len(text) <= _MAX_OUTPUT_CHARS else _with_text(message, f"{text[:half]}\n{text[-half:]}")
    if message.role == "user":
        clean = without_wrappers(text)[:_MAX_USER_CHARS]
        # What an agent tells itself is not an instruction of the user.
        return _with_text(message, clean, role="assistant") if is_program else _with_text(message, clean)
    blocks = message.source.get("content") if message.source else None
    if not isinstance(blocks, list) or not any(_is_thinking(block) for block in blocks):
        return message
    return _with_text(message, text_of([block for block in blocks if not _is_thinking(block)]))


def _is_thinking(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") in ("thinking", "redacted_thinking", "tool_use")


def _with_text(message: Message, text: str, *, role: Role | None = None) -> Message:
    return Message(
        role or message.role, text, tool_calls=message.tool_calls, tool_call_id=message.tool_call_id, name=message.name,
        id=message.id, kind=message.kind, also_answers=message.also_answers,
    )  # fmt: skip


def _stems(text: str) -> set[str]:
    return {word[:_STEM_CHARS] for word in _WORD.findall(text.lower()) if word not in _STOP_WORDS}


def count_by_kind(facts: Iterable[InferredFact]) -> dict[str, dict[str, int]]:
    """Return the number of facts found, kept and lost per kind."""
    counts: dict[str, dict[str, int]] = {}
    for fact in facts:
        row = counts.setdefault(fact.kind, {"found": 0, "kept": 0, "restored": 0, "lost": 0})
        row["found"] += 1
        row["kept" if fact.is_kept else "lost"] += 1
    return dict(sorted(counts.items()))
