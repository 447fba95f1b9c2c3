"""Read a rendered summary back.

Every line is taken over as it stands, so that a summary which only survives as a message is first-class material for
the next one.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from compact.summary.entries import (
    ArtifactReference,
    Command,
    Decision,
    Entity,
    Entry,
    FileTouched,
    Note,
    OpenItem,
    ToolOutcome,
)
from compact.summary.renderer import EXCERPT, HEADINGS, NOTHING, STEP_MARKS, USER, listed_names
from compact.summary.structured_summary import StructuredSummary

_FIELDS: Final = {heading: name for name, heading in HEADINGS.items()} | {"Requirements": "constraints"}
_BY_MARK: Final = {mark: name for name, mark in STEP_MARKS.items()} | {"?": "goals"}
_HEADER: Final = re.compile(r"\[Summary (v[\d.]+) (\w+)\]")
_LEDGER: Final = re.compile(r"\[([^\]\n]*)\] (.*?) :: (.*?) :: (.*?) :: (.*)")
_REQUIREMENT: Final = re.compile(r"R\d+ \((goal|constraint)\) ")
_STEP_NUMBER: Final = re.compile(r"\d+\. (?=[=*$>!-] )")
_PRIORITY: Final = re.compile(r"\((high|low)\) ")


def parse_text(text: str) -> StructuredSummary | None:
    """A rendered summary as a summary; None if the text is not one."""
    lines = text.split("\n")
    for index, line in enumerate(lines[:3]):
        if match := _HEADER.match(line):
            return _Parser(style=match.group(2)).read(lines[index + 1 :])
    return None


class _Parser:
    """Collects lines under the fields that their headings and marks name."""

    def __init__(self, *, style: str) -> None:
        self.style = style
        self.fields: dict[str, list[Any]] = {}
        self.order = 0
        self.last = ""

    def read(self, lines: list[str]) -> StructuredSummary:
        heading = {"decision_log": "decisions", "code_delta": "files"}.get(self.style, "")
        for line in lines:
            if line.startswith("## "):
                heading = _FIELDS.get(line[3:].strip(), "")
            elif line.startswith(EXCERPT):
                self._excerpt(line[len(EXCERPT) :])
            elif line.strip():
                self._entry(heading, line)
        task = self.fields.pop("current_task", [None])[-1]
        values: dict[str, Any] = {name: tuple(entries) for name, entries in self.fields.items()}
        return StructuredSummary(style=self.style, current_task=task, **values)

    def _entry(self, heading: str, line: str) -> None:
        name, text = heading, line.removeprefix("- ")
        if not heading:
            marked = line[match.end() :] if (match := _STEP_NUMBER.match(line)) else line
            if marked[1:2] != " " or marked[0] not in _BY_MARK:
                self._shown(line)
                return
            name, text = _BY_MARK[marked[0]], marked[2:]
        if name == "constraints" and (match := _REQUIREMENT.match(text)):
            name, text = f"{match.group(1)}s", text[match.end() :]
        self.order += 1
        if name == "entities":
            role, _, names = text.partition(": ")
            for item in listed_names(names):
                self._add(name, Entity(item, "" if role == "name" else role, (), self.order))
        else:
            self._add(name, self._build(name, text, self.order))

    def _build(self, name: str, text: str, order: int) -> Entry:
        match name:
            case "decisions":
                return _decision(text, order)
            case "open_items":
                found = _PRIORITY.match(text)
                priority: Any = found.group(1) if found else "medium"
                return OpenItem(text[found.end() :] if found else text, priority=priority, order=order)
            case "files":
                path, _, change = text.partition(": ")
                return FileTouched(path, change, order=order)
            case "commands":
                command, _, outcome = text.partition(" → ")
                return Command(command, outcome, order=order)
            case "tool_outcomes":
                call, _, error = text.partition(" → ")
                tool = call.partition("(")[0].split(" ")[0]
                return ToolOutcome(tool, "failure" if error else "success", {}, error or None, call, order=order)
            case "artifacts":
                artifact_id, _, rest = text.partition(" — ")
                return ArtifactReference(artifact_id, rest, order=order)
            case "facts" if text.startswith(USER):
                return Note(text.removeprefix(USER), order=order, role="user")
            case _:
                return Note(text, order=order)

    def _add(self, name: str, entry: Entry) -> None:
        self.fields.setdefault(name, []).append(entry)
        self.last = name

    def _excerpt(self, text: str) -> None:
        entries = self.fields.get(self.last)
        if entries and hasattr(entries[-1], "excerpts"):
            entries[-1] = replace(entries[-1], excerpts=(*entries[-1].excerpts, text))
        else:
            self._shown(text)

    def _shown(self, text: str) -> None:
        self.order += 1
        self._add("facts", Note(text, order=self.order, role="tool"))


def _decision(text: str, order: int) -> Decision:
    if match := _LEDGER.fullmatch(text):
        step, decision, why, inputs, outputs = ("" if part == NOTHING else part for part in match.groups())
        return Decision(decision, why, inputs, outputs, sources=(step,) if step else (), order=order)
    decision, separator, why = text.partition(" — because: ")
    return Decision(decision, why, order=order) if separator else Decision.from_sentence(text, order=order)
