"""Find what a foreign compaction lost: rules, decisions, open items, file changes, ids, numbers and paths.

A model has written the summary in its own words, so a sentence counts as kept if one line of the new prompt has most of
its words and all of its ids, numbers and paths. Pure: the same messages give the same facts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Final

from compact.messages import Message, Role
from compact.reading.blocks import Block, read_blocks
from compact.reading.entities import find_entities
from compact.reading.facts import Fact, FactFinder, PromptText
from compact.reading.line_words import LineWords, stems
from compact.reading.parts import spoken_text
from compact.reading.state.file_ledger import failed_calls, read_ledger
from compact.reading.state.requests import request_positions, request_text, without_wrappers
from compact.reading.state.todo_list import read_todo_list
from compact.summary.entries import normalize

# A file that a tool printed is not a list of facts. Both ends of an output are read.
_MAX_OUTPUT_CHARS: Final = 3_000
_MAX_USER_CHARS: Final = 40_000
_LINE_NUMBERS: Final = re.compile(r"^[ \t]*\d+(?:→|\t|\| ?)[ \t]*", re.MULTILINE)
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+")
_MIN_STEM_SHARE: Final = 0.6
_MIN_STEMS: Final = 3


def find_facts(
    removed: Sequence[Message], rendered: Sequence[Message], *, program_ids: Collection[str] = ()
) -> list[Fact]:
    """Return the facts of `removed`, best first, each with whether the prompt `rendered` still has it.

    `program_ids` are the user messages that the agent wrote itself, such as earlier summaries.
    """
    messages = [_shorten(message, is_program=message.id in program_ids) for message in removed]
    prompt = PromptText(rendered)
    finder = FactFinder(prompt, _Paraphrases(prompt).says)
    for position in _first_and_last(request_positions(messages)):
        # A request starts with its goal. The details that follow are facts of their own.
        goal = _SENTENCE_END.split(request_text(messages[position]), maxsplit=1)[0]
        finder.add_sentence("goal", goal, tuple(filter(None, (messages[position].id,))))
    for file in read_ledger(messages):
        if file.state != "read":
            finder.add_file(file.path, file.sources(messages))
    _add_todo_items(finder, messages)
    finder.add_blocks(sorted(_blocks(messages), key=lambda block: block.position))
    # Among equals, what was said last is most likely still needed.
    return sorted(finder.facts, key=lambda fact: (fact.rank, -fact.order))


class _Paraphrases:
    """Says if a prompt states a sentence in other words, with the same ids, numbers and paths."""

    def __init__(self, prompt: PromptText) -> None:
        self._prompt = prompt

    def says(self, kind: str, text: str) -> bool:
        if kind == "file":
            return self._has_name(text.rpartition("/")[2].lower())
        return {key for key, _ in find_entities(text)} <= self._prompt.keys and self._words.has(text)

    def _has_name(self, name: str) -> bool:
        return any(name in key for key in self._prompt.keys) or name in self._prompt.text

    @cached_property
    def _words(self) -> LineWords:
        return LineWords(self._prompt.lines, split=stems, min_share=_MIN_STEM_SHARE, min_words=_MIN_STEMS)


def _first_and_last(positions: Sequence[int]) -> Iterator[int]:
    yield from dict.fromkeys((*positions[:1], *positions[-1:]))


def _add_todo_items(finder: FactFinder, messages: Sequence[Message]) -> None:
    """Add the items of the latest to-do list that are not done."""
    todo = read_todo_list(messages)
    if todo.plan is None:
        return
    done = {normalize(note.text) for note in todo.done}
    for line in todo.plan.lines:
        text = line.partition("] ")[2] or line
        if normalize(text) not in done:
            finder.add_sentence("open_item", text, todo.plan.sources)


def _blocks(messages: Sequence[Message]) -> Iterator[Block]:
    """Yield the blocks of messages.

    Outputs are not read as tables and records, as a summary reads them, because only ids, numbers and paths are wanted.
    An output that says that a call failed stays with its call.
    """
    failed = failed_calls(messages)
    others: list[int] = []
    for index, message in enumerate(messages):
        if (message.role == "tool" or message.answers) and failed.isdisjoint(message.answers):
            yield Block(_output_parts(message.text), "output", (message.id,) if message.id else (), index)
        else:
            others.append(index)
    for block in read_blocks([messages[index] for index in others]):
        yield block._replace(position=others[block.position])


def _output_parts(text: str) -> Sequence[str]:
    """Return an output without line numbers. Backslashes mean different things in different lines, so they split it."""
    text = _LINE_NUMBERS.sub("", text)
    return text.split("\n") if "\\" in text else (text,)


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
    spoken = spoken_text(message)
    return message if spoken == text else _with_text(message, spoken)


def _with_text(message: Message, text: str, *, role: Role | None = None) -> Message:
    return Message(
        role or message.role, text, tool_calls=message.tool_calls, tool_call_id=message.tool_call_id, name=message.name,
        id=message.id, kind=message.kind, also_answers=message.also_answers,
    )  # fmt: skip
