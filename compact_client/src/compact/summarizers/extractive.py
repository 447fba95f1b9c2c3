"""The summariser that needs no model: it keeps the lines most likely to be needed again, word for word.

Offline, deterministic to the byte, linear in the text; nothing is written that was not in the messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from compact.messages import Message
from compact.messages.span import SpanReference
from compact.summarizers.extraction.blocks import Block
from compact.summarizers.extraction.coverage import Reading
from compact.summarizers.extraction.decision_context import Grounds
from compact.summarizers.extraction.entities import find_entities, surface
from compact.summarizers.extraction.line_classifier import is_open_item
from compact.summarizers.extraction.selection import estimate_tokens, select
from compact.summarizers.extraction.summary_blocks import blocks_of
from compact.summarizers.extraction.todo_list import read_todo_list
from compact.summary.structured_summary import StructuredSummary

DEFAULT_MAX_TOKENS: Final = 2_000
_PATH_BEFORE: Final = re.compile(r"[\w./~@+-]+\Z")
_CHANGE: Final = re.compile(
    r"\b(?:add|chang|updat|creat|remov|delet|renam|modif|refactor|fix|mov|replac|rewr|wrote|written|implement|introduc"
    r"|edit|extract|patch|convert|migrat)\w*"
)


class ExtractiveSummarizer:
    """Budgeted coverage of verbatim lines, in typed sections."""

    name = "extractive"
    prompt_version = "extractive-1"
    model = ""

    def summarize_span(
        self,
        messages: Sequence[Message],
        *,
        style: str = "task_state",
        keep_keys: Sequence[str] = (),
        max_tokens: int = DEFAULT_MAX_TOKENS,
        visible: Sequence[Message] = (),
        count_tokens: Callable[[str], int] | None = None,
    ) -> StructuredSummary:
        """What these messages said, in at most `max_tokens` tokens of rendered text."""
        reading = Reading(keep_keys)
        everything = [*messages, *visible]
        last_user = max((place for place, message in enumerate(everything) if message.role == "user"), default=-1)
        plan, done = read_todo_list(everything)
        # A list that stays in the prompt need not be kept twice, and an older one would contradict it.
        if plan is not None and plan.position >= len(messages):
            plan = None
        blocks = _with_task(blocks_of(messages), last_user, plan)
        reading.add(_by_file(blocks) if style == "code_delta" else blocks, last_user=last_user)
        reading.add_visible(blocks_of(visible), last_user=last_user - len(messages))
        ids = tuple(message.id for message in messages if message.id)
        return select(
            reading,
            span=SpanReference(ids) if ids else None,
            style=style,
            max_tokens=max_tokens,
            count_tokens=count_tokens or estimate_tokens,
            completed=done,
            grounds=Grounds(messages),
        )

    def summarize(self, messages: Sequence[Message], style: str, keep_keys: Sequence[str]) -> Message:
        """The public seam: the same summary as one assistant message."""
        summary = self.summarize_span(messages, style=style, keep_keys=keep_keys)
        return Message("assistant", summary.render(version=1))


def _by_file(blocks: Iterable[Block]) -> Iterable[Block]:
    """The lines, with each sentence that tells of a change put under the file it names first."""
    for block in blocks:
        if block.kind != "prose" or block.field:
            yield block
            continue
        for text in block.lines:
            path = None if is_open_item(text) else _changed_file(text)
            told = {"lines": (text,)} if path is None else {"lines": (f"{path}: {text}",), "field": "changes"}
            yield block._replace(**told)


def _changed_file(text: str) -> str | None:
    lowered = text.lower()
    if not _CHANGE.search(lowered) or lowered.endswith("?"):
        return None
    paths = [key for key, sort in find_entities(text) if sort in ("path", "file")]
    if not paths:
        return None
    # An entity is the end of a path; what stands before it up to the next space is the rest.
    name = surface(text, min(paths, key=lowered.find))
    before = _PATH_BEFORE.search(text[: max(0, text.find(name))])
    return f"{before[0]}{name}" if before else name


def _with_task(blocks: Iterable[Block], last_user: int, plan: Block | None) -> Iterable[Block]:
    """The lines, with the request that is being worked on marked as the current task."""
    has_task = False
    for block in blocks:
        rest = block
        if block.kind == "user" and block.position == last_user and not has_task and not block.field:
            has_task = True
            yield block._replace(lines=block.lines[:1], field="current_task")
            rest = block._replace(lines=block.lines[1:])
        if rest.lines:
            yield rest
    if plan is not None:
        yield plan
