"""Read the to-do list that an agent maintains with a tool.

Only the latest list is kept, because each version repeats the previous one. Agents name the fields differently
(`content`, `step`, `title`), so a to-do list is any list in which every item has a text and a status.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from compact.messages import Message, ToolCall
from compact.reading.blocks import Block, collapse_whitespace
from compact.reading.call_arguments import parse_arguments
from compact.summary.entries import Note

PLAN_FIELD: Final = "current_plan"  # of a summary
_TEXT_KEYS: Final = ("content", "step", "title", "task", "subject", "description", "text", "name")
_DONE_STATES: Final = frozenset(
    {"completed", "complete", "done", "finished", "cancelled", "canceled", "skipped"}  # codespell:ignore cancelled
)
_TASK_NUMBER: Final = re.compile(r"#(\d+)")
_NUMBERED_LINE: Final = re.compile(r"\[(\w+)\] #(\d+) (.+)")
_CHECKED_ITEM: Final = re.compile(r"^\s*(?:[-*]\s*)?(?:\[[xX]\]|✓|✅|☑)\s*(.+)")


class TodoList(NamedTuple):
    """The lines of the latest list with the state of each item, every item that was ever completed, and the calls."""

    plan: Block | None
    first_position: int  # of the messages that the latest list was read from
    done: list[Note]
    call_ids: frozenset[str]
    replaced: list[Note]  # the completed items of earlier lists that the latest one does not repeat


class _Item(NamedTuple):
    text: str
    state: str
    active_form: str = ""  # the agent's description of the item while it works on it
    number: str = ""  # by which the agent updates the item

    def __str__(self) -> str:
        text = f"[{self.state}] #{self.number} {self.text}" if self.number else f"[{self.state}] {self.text}"
        return f"{text} ({self.active_form})" if self.active_form else text


def read_todo_list(messages: Sequence[Message], earlier_plan: Iterable[str] = ()) -> TodoList:
    """Return the latest to-do list and all completed items, including checked boxes in prose.

    `earlier_plan` has the lines of the list in an earlier summary. Its numbered items can still be updated.
    """
    done: dict[str, Note] = {}
    plan: Block | None = None
    first_position = 0
    tasks = _NumberedTasks(earlier_plan)
    call_ids: set[str] = set()
    listed: dict[str, Note] = {}
    latest: set[str] = set()
    for position, message in enumerate(messages):
        sources = (message.id,) if message.id else ()
        done.update((text, Note(text, sources, position)) for text in _checked_items(message))
        tasks.read_result(message)
        for call in message.tool_calls:
            whole = _call_items(call)
            items = whole or tasks.read_call(call, position)
            if items is not None:
                call_ids.add(call.id)
            if items:
                first_position = position if whole else tasks.first_position
                plan = Block(list(map(str, items)), "call", sources, position, field=PLAN_FIELD)
                completed = _completed_notes(items, sources, position)
                done |= completed
                listed |= completed
                latest = {item.text for item in items}
    replaced = [note for text, note in listed.items() if text not in latest]
    return TodoList(plan, first_position, list(done.values()), frozenset(call_ids), replaced)


def _completed_notes(items: Iterable[_Item], sources: tuple[str, ...], position: int) -> dict[str, Note]:
    return {item.text: Note(item.text, sources, position) for item in items if item.state in _DONE_STATES}


def _checked_items(message: Message) -> Iterator[str]:
    for line in message.text.split("\n") if message.role != "tool" and "x]" in message.text.lower() else ():
        if match := _CHECKED_ITEM.match(line):
            yield match.group(1)


class _NumberedTasks:
    """Tasks that an agent creates one by one and updates by number."""

    def __init__(self, earlier_plan: Iterable[str]) -> None:
        self._subjects: dict[str, str] = {}  # by call id, until the result gives the number
        self._tasks: dict[str, _Item] = {}
        self.first_position: int = -1  # of the first creation, or -1 if an earlier summary has it
        for match in filter(None, map(_NUMBERED_LINE.fullmatch, earlier_plan)):
            state, number, text = match.groups()
            self._tasks[number] = _Item(text, state, number=number)

    def read_call(self, call: ToolCall, position: int) -> list[_Item] | None:
        """Return all tasks after an update, an empty list after a creation, or None for any other call."""
        if '"subject"' in call.arguments and call.name.lower().endswith("create"):
            if not self._tasks and not self._subjects:
                self.first_position = position
            self._subjects[call.id] = collapse_whitespace(str(parse_arguments(call.arguments).get("subject", "")))
            return []
        if '"taskId"' not in call.arguments or '"status"' not in call.arguments:
            return None
        arguments = parse_arguments(call.arguments)
        number, status = str(arguments.get("taskId")), arguments.get("status")
        if number in self._tasks and isinstance(status, str):
            self._tasks[number] = self._tasks[number]._replace(state=status)
        # Without its tasks, an update is a call like any other.
        return list(self._tasks.values()) or None

    def read_result(self, message: Message) -> None:
        for call_id in message.answers:
            subject = self._subjects.pop(call_id, "")
            if subject and (match := _TASK_NUMBER.search(message.text)):
                self._tasks[match.group(1)] = _Item(subject, "pending", number=match.group(1))


def _call_items(call: ToolCall) -> list[_Item]:
    if '"status"' not in call.arguments:
        return []
    return next((items for value in parse_arguments(call.arguments).values() if (items := _parse_items(value))), [])


def _parse_items(value: Any) -> list[_Item]:
    """Return the items of a to-do list, or an empty list for any other value."""
    items: list[_Item] = []
    for entry in value if isinstance(value, list) else ():
        state = entry.get("status") if isinstance(entry, dict) else None
        text = next((entry[key] for key in _TEXT_KEYS if isinstance(entry.get(key), str)), "") if state else ""
        if not text or not isinstance(state, str):
            return []
        active_form = entry.get("activeForm")
        items.append(
            _Item(
                collapse_whitespace(text),
                state,
                collapse_whitespace(active_form) if isinstance(active_form, str) else "",
            )
        )
    return items
