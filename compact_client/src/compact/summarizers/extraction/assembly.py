"""Convert selected lines into the typed entries of a summary."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from compact.events.phrases import format_count
from compact.messages.span import SpanReference
from compact.reading.lines.line_classifier import is_error
from compact.summarizers.extraction.span_index import CALL_FIELDS, Candidate
from compact.summarizers.extraction.state.decision_context import DecisionContexts
from compact.summary.entries import Command, Decision, Entry, FileTouched, Note, OpenItem, Record, ToolOutcome
from compact.summary.structured_summary import StructuredSummary

# Fields without a section of their own.
_FACT_FIELDS: Final = ("requests", "statements", "questions", "reports", "outputs", "milestones")
_ROLES: Final = {"user": "user", "pasted": "tool", "output": "tool", "code": "code"}


class Assembler:
    """Builds drafts of one summary. The entry of a line is created once and used by every draft that contains it."""

    def __init__(self, style: str, contexts: DecisionContexts | None) -> None:
        self._style = style
        self._contexts = contexts
        self._entries: dict[int, tuple[str, Any]] = {}  # by the order of the line

    def assemble(
        self, lines: Iterable[Candidate], *, span: SpanReference | None, completed: Sequence[Note] = ()
    ) -> StructuredSummary:
        """Build a summary with its entries in chronological order. Output lines become excerpts of their call."""
        ordered = sorted(lines, key=lambda line: line.order)
        entries = _Entries()
        for line in ordered:
            if line.field in CALL_FIELDS:
                entries.add_call(line, *self._entry(line))
        for line in ordered:
            if line.field not in CALL_FIELDS and not entries.add_excerpt(line):
                entries.add(*self._entry(line))
        values = entries.by_field()
        *earlier_tasks, task = values.pop("current_task", None) or [None]
        # A task that was followed by another one is still a goal of the user.
        values["goals"] = (*earlier_tasks, *values.get("goals", ()))
        return StructuredSummary(span=span, style=self._style, current_task=task, completed=tuple(completed), **values)

    def _entry(self, line: Candidate) -> tuple[str, Any]:
        """Return the summary field of a line and its entry."""
        known = self._entries.get(line.order)
        if known is None:
            known = _call_entry(line) if line.field in CALL_FIELDS else self._line_entry(line)
            if known[0] == "facts" and line.block.kind == "output" and is_error(line.text):
                known = ("errors", known[1])
            self._entries[line.order] = known
        return known

    def _line_entry(self, line: Candidate) -> tuple[str, Entry]:
        text, block, field, order = line.text, line.block, line.field, line.order
        if block.entry is not None and field != "outputs":
            return ("facts" if field in _FACT_FIELDS else field), replace(block.entry, order=order)
        if field == "decisions":
            decision = Decision.from_sentence(text, sources=block.sources, order=order)
            if self._contexts is None:
                return field, decision
            return field, replace(decision, **self._contexts.at(block.position)._asdict())
        if field == "records":
            return field, Record(text, block.sources, order, block.parent)
        if field == "open_items":
            return field, OpenItem(text, sources=block.sources, order=order)
        note = Note(text, block.sources, order, _ROLES.get(block.kind, ""))
        return ("facts" if field in _FACT_FIELDS else field), note


class _Entries:
    """Collects entries by summary field. Add all calls first, so that output lines find the call they belong to."""

    def __init__(self) -> None:
        self._by_field: defaultdict[str, list[Any]] = defaultdict(list)
        # The field and index of the entry for a call line or a file path.
        self._calls: dict[str, tuple[str, int]] = {}
        self._files: dict[str, tuple[str, int]] = {}
        self._ends: dict[Any, int] = {}
        self._excerpts: dict[tuple[str, int], list[tuple[str, tuple[str, ...]]]] = {}

    def add(self, name: str, entry: Entry) -> None:
        self._by_field[name].append(entry)

    def add_call(self, line: Candidate, name: str, entry: Any) -> None:
        if name == "files" and (place := self._files.get(entry.path)) is not None:
            # Further changes of a file are excerpts of its first entry.
            self._excerpts.setdefault(place, []).append((entry.change or entry.path, entry.sources))
            self._calls[line.text] = place
            return
        entries = self._by_field[name]
        place = self._calls[line.text] = (name, len(entries))
        if name == "files":
            self._files[entry.path] = place
        entries.append(entry)

    def add_excerpt(self, line: Candidate) -> bool:
        """Add an output line to its call. Return False if its call is not part of the summary."""
        block = line.block
        if not block.call_line or line.field not in ("outputs", "errors"):
            return False
        if block.call_line not in self._calls:
            # An excerpt is hard to read without its call, even if the call itself was not selected.
            outcome = ToolOutcome(block.call_line.partition("(")[0], call=block.call_line, order=line.order)
            self._calls[block.call_line] = ("tool_outcomes", len(self._by_field["tool_outcomes"]))
            self.add("tool_outcomes", replace(outcome, sources=block.sources))
        place = self._calls[block.call_line]
        excerpts = self._excerpts.setdefault(place, [])
        gap = line.start - self._ends.get((place, block.position, block.kind), 0)
        if gap > 0:
            excerpts.append((f"[… {format_count(gap, 'line')}]", ()))
        excerpts.extend((text, block.sources) for text in line.text.split("\n"))
        self._ends[place, block.position, block.kind] = line.start + line.text.count("\n") + 1
        return True

    def by_field(self) -> dict[str, Any]:
        """Return the entries of each field, with their excerpts."""
        for (name, index), excerpts in self._excerpts.items():
            entry = self._by_field[name][index]
            sources = dict.fromkeys(entry.sources)
            sources.update((source, None) for _, ids in excerpts for source in ids)
            self._by_field[name][index] = replace(
                entry, excerpts=(*entry.excerpts, *(text for text, _ in excerpts)), sources=tuple(sources)
            )
        return {name: tuple(entries) for name, entries in self._by_field.items()}


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
