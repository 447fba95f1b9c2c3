"""Convert selected lines into the typed entries of a summary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from compact.messages.span import SpanReference
from compact.summarizers.extraction.line_classifier import is_error
from compact.summarizers.extraction.span_index import CALL_FIELDS, Candidate
from compact.summarizers.extraction.state.decision_context import DecisionContexts
from compact.summary.entries import Command, Decision, Entry, FileTouched, Note, OpenItem, Record, ToolOutcome
from compact.summary.structured_summary import StructuredSummary

_ROLES: Final = {"user": "user", "output": "tool", "code": "code"}


def assemble(
    lines: Iterable[Candidate],
    *,
    span: SpanReference | None,
    style: str,
    completed: Sequence[Note] = (),
    contexts: DecisionContexts | None = None,
) -> StructuredSummary:
    """Build a summary with its entries in chronological order. Output lines become excerpts of their call."""
    ordered = sorted(lines, key=lambda line: line.order)
    entries = _Entries(contexts)
    for line in ordered:
        if line.field in CALL_FIELDS:
            entries.add_call(line)
    for line in ordered:
        if line.field not in CALL_FIELDS:
            entries.add_line(line)
    *earlier_tasks, task = entries.by_field.pop("current_task", None) or [None]
    # A task that was followed by another one is still a goal of the user.
    entries.by_field["goals"] = [*earlier_tasks, *entries.by_field.get("goals", ())]
    values: dict[str, Any] = {name: tuple(items) for name, items in entries.by_field.items()}
    return StructuredSummary(span=span, style=style, current_task=task, completed=tuple(completed), **values)


class _Entries:
    """Collects entries by summary field. Add all calls first, so that output lines find the call they belong to."""

    def __init__(self, contexts: DecisionContexts | None) -> None:
        self.by_field: dict[str, list[Any]] = {}
        self._contexts = contexts
        # The field and index of the entry for a call line or a file path.
        self._calls: dict[str, tuple[str, int]] = {}
        self._files: dict[str, tuple[str, int]] = {}

    def add_call(self, line: Candidate) -> None:
        name, entry = _call_entry(line)
        if name == "files" and (place := self._files.get(entry.path)) is not None:
            # Further changes of a file are excerpts of its first entry.
            self._add_excerpt(place, entry.change or entry.path, entry.sources)
            self._calls[line.text] = place
            return
        entries = self.by_field.setdefault(name, [])
        place = self._calls[line.text] = (name, len(entries))
        if name == "files":
            self._files[entry.path] = place
        entries.append(entry)

    def add_line(self, line: Candidate) -> None:
        block = line.block
        place = self._calls.get(block.call_line) if block.call_line else None
        if place is not None and line.field in ("outputs", "errors"):
            self._add_excerpt(place, line.text, block.sources)
            return
        name, entry = self._line_entry(line)
        if name == "facts" and block.kind == "output" and is_error(line.text):
            name = "errors"
        self.by_field.setdefault(name, []).append(entry)

    def _add_excerpt(self, place: tuple[str, int], text: str, sources: tuple[str, ...]) -> None:
        name, index = place
        entry = self.by_field[name][index]
        self.by_field[name][index] = replace(
            entry,
            excerpts=(*entry.excerpts, text),
            sources=tuple(dict.fromkeys(entry.sources + sources)),
        )

    def _line_entry(self, line: Candidate) -> tuple[str, Entry]:
        text, block, field, order = line.text, line.block, line.field, line.order
        if block.entry is not None and field != "outputs":
            return field, replace(block.entry, order=order)
        if field == "decisions":
            decision = Decision.from_sentence(text, sources=block.sources, order=order)
            if self._contexts is None:
                return field, decision
            return field, replace(decision, **self._contexts.at(block.position)._asdict())
        if field == "records":
            return field, Record(text, block.sources, order)
        if field == "open_items":
            return field, OpenItem(text, sources=block.sources, order=order)
        note = Note(text, block.sources, order, _ROLES.get(block.kind, ""))
        return ("facts" if field in ("requests", "outputs") else field), note


def _call_entry(line: Candidate) -> tuple[str, Any]:
    text, sources, order = line.text, line.block.sources, line.order
    if line.block.entry is not None:
        entry: Any = line.block.entry
        name = "files" if line.field == "files_read" else line.field
        return name, replace(entry, excerpts=(), order=order)
    if line.field == "commands":
        return "commands", Command(text, sources=sources, order=order)
    if line.field == "changes":
        path, _, change = text.partition(": ")
        return "files", FileTouched(path, change, sources=sources, order=order)
    return "tool_outcomes", ToolOutcome(text.partition("(")[0], call=text, sources=sources, order=order)
