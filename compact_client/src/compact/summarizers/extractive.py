"""Summarize without a model by keeping the lines that are most likely to be needed again, verbatim.

Works offline, is deterministic to the byte, and runs in linear time. A summary contains only text from the messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from compact.messages import Message
from compact.messages.span import SpanReference
from compact.reading.blocks import Block
from compact.reading.entities import find_entities, original_spelling
from compact.reading.lines.line_classifier import is_open_item
from compact.reading.state.todo_list import PLAN_FIELD, TodoList, read_todo_list
from compact.reading.summary_blocks import earlier_blocks, message_blocks
from compact.reading.tokens import estimate_tokens
from compact.summarizers.extraction.call_runs import number_repeated_calls
from compact.summarizers.extraction.coverage import request_chars
from compact.summarizers.extraction.span_index import SpanIndex
from compact.summarizers.extraction.state.decision_context import DecisionContexts
from compact.summarizers.extraction.state.state_blocks import insert_session_state
from compact.summarizers.extraction.summary_builder import build_summary
from compact.summary.structured_summary import StructuredSummary, merge_spans

DEFAULT_MAX_TOKENS: Final = 2_000
_FIELDS_OF_STYLE: Final = {
    "decision_log": ("decisions",),
    "code_delta": ("files",),
    "step_ledger": ("commands", "tool_outcomes"),
}
_STYLE_FIELD_BONUS: Final = 2.0
_PATH_PREFIX: Final = re.compile(r"[\w./~@+-]+\Z")
_CHANGE_VERB: Final = re.compile(
    r"\b(?:add|chang|updat|creat|remov|delet|renam|modif|refactor|fix|mov|replac|rewr"  # codespell:ignore updat,delet
    r"|wrote|written|implement|introduc|edit|extract|patch|convert|migrat)\w*"
)


class ExtractiveSummarizer:
    """Selects verbatim lines by budgeted coverage and sorts them into typed sections."""

    name = "extractive"
    prompt_version = "extractive-1"
    model = ""
    continues_summary = True
    """`summarize_span` accepts the previous summary and returns one that replaces it."""

    def summarize_span(
        self,
        messages: Sequence[Message],
        *,
        style: str = "task_state",
        keep_keys: Sequence[str] = (),
        max_tokens: int = DEFAULT_MAX_TOKENS,
        visible: Sequence[Message] = (),
        count_tokens: Callable[[str], int] | None = None,
        previous: StructuredSummary | None = None,
    ) -> StructuredSummary:
        """Return a summary of the messages whose rendered text has at most `max_tokens` tokens.

        With a `previous` summary, the lines of both are selected together.
        """
        all_messages = [*messages, *visible]
        last_user = max((index for index, message in enumerate(all_messages) if message.role == "user"), default=-1)
        read = [*(earlier_blocks(previous) if previous is not None else ()), *message_blocks(messages)]
        todo = _read_todo_list(messages, visible, read)
        blocks = insert_session_state(
            messages, visible, read, todo, style=style, request_chars=request_chars(max_tokens)
        )
        continues_summary = any(block.entry is not None for block in read)
        mentions = previous.mentions if previous is not None else ()
        index = SpanIndex(keep_keys, mentions=mentions, continues_summary=continues_summary)
        numbered = number_repeated_calls(blocks)
        index.add(_group_by_file(numbered) if style == "code_delta" else numbered, last_user=last_user)
        _prefer_fields_of_style(index, style)
        index.add_visible(message_blocks(visible), last_user=last_user - len(messages))
        ids = tuple(message.id for message in messages if message.id)
        return build_summary(
            index,
            span=merge_spans(previous.span if previous is not None else None, SpanReference(ids) if ids else None),
            style=style,
            max_tokens=max_tokens,
            count_tokens=count_tokens or estimate_tokens,
            completed=todo.done,
            contexts=DecisionContexts(messages),
        )

    def summarize(self, messages: Sequence[Message], style: str, keep_keys: Sequence[str]) -> Message:
        """Return the summary as one assistant message (the `Summarizer` protocol)."""
        summary = self.summarize_span(messages, style=style, keep_keys=keep_keys)
        return Message("assistant", summary.render(version=1))


def _read_todo_list(messages: Sequence[Message], visible: Sequence[Message], read: Iterable[Block]) -> TodoList:
    """Return the to-do list, without a plan that stays in the prompt. An older plan would contradict it."""
    earlier_plan = [line for block in read if block.field == PLAN_FIELD for line in block.lines]
    todo = read_todo_list([*messages, *visible], earlier_plan)
    is_visible = todo.plan is not None and todo.first_position >= len(messages)
    return todo._replace(plan=None) if is_visible else todo


def _prefer_fields_of_style(index: SpanIndex, style: str) -> None:
    """Let the lines that a style is named after come first, so that many instructions cannot displace them."""
    for line in index.candidates:
        if line.field in _FIELDS_OF_STYLE.get(style, ()):
            line.bonus, line.is_priority = line.bonus + _STYLE_FIELD_BONUS, True


def _group_by_file(blocks: Iterable[Block]) -> Iterable[Block]:
    """Yield the blocks. If no edit is known, each sentence about a change is a line of the first file it names."""
    blocks = list(blocks)
    if any(block.field == "files" for block in blocks):
        yield from blocks
        return
    for block in blocks:
        if block.kind != "prose" or block.field:
            yield block
            continue
        for text in block.lines:
            path = None if is_open_item(text) else _changed_file(text)
            if path is None:
                yield block._replace(lines=(text,))
            else:
                yield block._replace(lines=(f"{path}: {text}",), field="changes")


def _changed_file(text: str) -> str | None:
    lowered = text.lower()
    if not _CHANGE_VERB.search(lowered) or lowered.endswith(("?", ":")):
        return None
    paths = [key for key, entity_type in find_entities(text) if entity_type in ("path", "file")]
    if not paths:
        return None
    # The entity is only the end of the path. The text before it, up to the previous space, is the rest.
    name = original_spelling(text, min(paths, key=lowered.find))
    prefix = _PATH_PREFIX.search(text[: max(0, text.find(name))])
    return f"{prefix[0]}{name}" if prefix else name
