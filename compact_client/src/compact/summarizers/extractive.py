"""The summariser that needs no model: it keeps the lines most likely to be needed again, word for word.

Offline, deterministic to the byte, linear in the text; nothing is written that was not in the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from compact.extraction.compose import estimate_tokens, lines_of, select
from compact.extraction.coverage import Reading
from compact.extraction.grounds import Grounds
from compact.extraction.lines import Line
from compact.extraction.todo_list import read_todo_list
from compact.messages import Message
from compact.span import SpanReference
from compact.summary import StructuredSummary

DEFAULT_MAX_TOKENS: Final = 2_000


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
        plan = [line for line in plan if line.position < len(messages)]
        reading.add(_with_task(lines_of(messages), last_user, plan), last_user=last_user)
        reading.add_visible(lines_of(visible), last_user=last_user - len(messages))
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


def _with_task(lines: Sequence[Line], last_user: int, plan: Sequence[Line]) -> Iterable[Line]:
    """The lines, with the request that is being worked on marked as the current task."""
    has_task = False
    for line in lines:
        if line.kind == "user" and line.position == last_user and not has_task and not line.field:
            has_task = True
            yield line._replace(field="current_task")
        else:
            yield line
    yield from plan
