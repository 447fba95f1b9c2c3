"""The to-do list that an agent keeps by a tool: the last one it wrote, whole, because the next one repeats it.

Agents name the fields differently (`content`, `step`, `title`); what makes a list one is that each item has a status.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from compact.messages import Message, ToolCall
from compact.summarizers.extraction.blocks import Block, flat
from compact.summary.entries import Note

_TEXT_KEYS: Final = ("content", "step", "title", "task", "subject", "description", "text", "name")
_DONE_STATES: Final = frozenset({"completed", "complete", "done", "finished", "cancelled", "canceled", "skipped"})
_CHECKED: Final = re.compile(r"^\s*(?:[-*]\s*)?(?:\[[xX]\]|✓|✅|☑)\s*(.+)")


class TodoList(NamedTuple):
    """The lines of the last list, each with its state, and everything that was ever done."""

    plan: Block | None
    done: list[Note]


class _Item(NamedTuple):
    text: str
    state: str
    active: str  # how the agent calls it while it works on it


def read_todo_list(messages: Sequence[Message]) -> TodoList:
    done: dict[str, Note] = {}
    plan: Block | None = None
    for position, message in enumerate(messages):
        sources = (message.id,) if message.id else ()
        for line in message.text.split("\n") if message.role != "tool" and "x]" in message.text.lower() else ():
            if match := _CHECKED.match(line):
                done[match.group(1)] = Note(match.group(1), sources, position)
        for call in message.tool_calls:
            items = _items(call)
            if not items:
                continue
            plan = Block([_shown(item) for item in items], "call", sources, position, field="current_plan")
            done.update((item.text, Note(item.text, sources, position)) for item in items if item.state in _DONE_STATES)
    return TodoList(plan, list(done.values()))


def _shown(item: _Item) -> str:
    return f"[{item.state}] {item.text} ({item.active})" if item.active else f"[{item.state}] {item.text}"


def _items(call: ToolCall) -> list[_Item]:
    if '"status"' not in call.arguments:
        return []
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return []
    values = arguments.values() if isinstance(arguments, dict) else ()
    return next((items for value in values if (items := _listed(value))), [])


def _listed(value: Any) -> list[_Item]:
    """The items of a list of which each has a text and a status; of anything else none."""
    items: list[_Item] = []
    for entry in value if isinstance(value, list) else ():
        state = entry.get("status") if isinstance(entry, dict) else None
        text = next((entry[key] for key in _TEXT_KEYS if isinstance(entry.get(key), str)), "") if state else ""
        if not text or not isinstance(state, str):
            return []
        active = entry.get("activeForm")
        items.append(_Item(flat(text), state, flat(active) if isinstance(active, str) else ""))
    return items
