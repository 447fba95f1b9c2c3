"""The summariser that needs no model: it keeps the lines most likely to be needed again, word for word.

Offline, deterministic to the byte, linear in the text; nothing is written that was not in the messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from compact.extraction.compose import estimate_tokens, lines_of, select
from compact.extraction.coverage import Reading
from compact.extraction.grounds import Grounds
from compact.extraction.lines import Line
from compact.messages import Message
from compact.span import SpanReference
from compact.summary import StructuredSummary
from compact.summary_entries import Note

DEFAULT_MAX_TOKENS: Final = 2_000
_DONE: Final = re.compile(r"^\s*(?:[-*]\s*)?(?:\[[xX]\]|✓|✅|☑)\s*(.+)")
_TODO: Final = re.compile(
    r'"content":\s*"((?:[^"\\]|\\.){3,200})",\s*"status":\s*"(\w+)"'
    r'|"status":\s*"(\w+)",\s*"content":\s*"((?:[^"\\]|\\.){3,200})"'
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
        plan, completed = _todo_list(messages)
        reading.add(_with_task(lines_of(messages), last_user, plan), last_user=last_user)
        reading.add_visible(lines_of(visible), last_user=last_user - len(messages))
        ids = tuple(message.id for message in messages if message.id)
        return select(
            reading,
            span=SpanReference(ids) if ids else None,
            style=style,
            max_tokens=max_tokens,
            count_tokens=count_tokens or estimate_tokens,
            completed=completed,
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


def _todo_list(messages: Sequence[Message]) -> tuple[list[Line], list[Note]]:
    """The last to-do list that a tool was given: open points as the recorded plan, and what is done."""
    done: dict[str, Note] = {}
    plan: list[Line] = []
    for position, message in enumerate(messages):
        sources = (message.id,) if message.id else ()
        for line in message.text.split("\n") if message.role != "tool" and "x]" in message.text.lower() else ():
            if match := _DONE.match(line):
                done[match.group(1)] = Note(match.group(1), sources, position)
        for call in message.tool_calls:
            items = _TODO.findall(call.arguments) if '"status"' in call.arguments else ()
            if not items:
                continue
            plan = []
            for first, status, status_first, second in items:
                text, state = first or second, status or status_first
                if state in ("completed", "done", "cancelled"):
                    done[text] = Note(text, sources, position)
                else:
                    plan.append(Line(f"[{state}] {text}", "call", sources, position, 0, "", None, "current_plan"))
    return plan, list(done.values())
