"""Parse a rendered summary.

Every line is kept unchanged, so that a summary that only survives as a message can be merged and fitted like any
other.
"""

from __future__ import annotations

import re
from collections.abc import Callable
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
from compact.summary.record_tree import RecordReader
from compact.summary.renderer import (
    EMPTY_PART,
    EXCERPT_PREFIX,
    FILE_HEADINGS,
    HEADINGS,
    READ_LABEL,
    RECALL_PREFIX,
    RELATIVE_TO,
    STEP_MARKERS,
    TEXT_LABELS,
    USER_PREFIX,
    entity_role,
    split_names,
)
from compact.summary.structured_summary import StructuredSummary

_FIELD_BY_HEADING: Final = {heading: name for name, heading in HEADINGS.items()} | {"Requirements": "constraints"}
_STATE_BY_HEADING: Final = {heading: state for state, heading in FILE_HEADINGS.items()}
_FIELD_BY_MARKER: Final = {marker: name for name, marker in STEP_MARKERS.items()} | {"*": "files"}
_FIRST_FIELD_BY_STYLE: Final = {"decision_log": "decisions", "code_delta": "files"}
_HEADER: Final = re.compile(r"\[Summary (v[\d.]+) (\w+)\]")
_LEDGER: Final = re.compile(r"\[([^\]\n]*)\] (.*?) :: (.*?) :: (.*?) :: (.*)")
_REQUIREMENT: Final = re.compile(r"R\d+ \((goal|constraint)\) ")
_STEP_NUMBER: Final = re.compile(r"\d+\. (?=[=*$>!-] )")
_PRIORITY: Final = re.compile(r"\((high|low)\) ")


def parse_text(text: str) -> StructuredSummary | None:
    """Return the summary that a text was rendered from, or None if it is not a rendered summary."""
    lines = text.split("\n")
    for index, line in enumerate(lines[:3]):
        if match := _HEADER.match(line):
            return _Parser(style=match.group(2)).parse(lines[index + 1 :])
    return None


class _Parser:
    """Collects entries in the fields that headings and markers name."""

    def __init__(self, *, style: str) -> None:
        self._style = style
        self._fields: dict[str, list[Any]] = {}
        self._order = 0
        self._last_field = ""
        self._file_state = ""
        self._file_root = ""
        self._records = RecordReader()

    def parse(self, lines: list[str]) -> StructuredSummary:
        heading = _FIRST_FIELD_BY_STYLE.get(self._style, "")
        for line in lines:
            if line.startswith("## "):
                heading = self._read_heading(line[3:].strip())
            elif not line.strip() or line.startswith(RECALL_PREFIX):
                continue
            elif line in TEXT_LABELS.values():
                self._last_field = ""
            elif heading == "records":
                self._add_record(line)
            elif line.startswith(EXCERPT_PREFIX):
                self._add_excerpt(line[len(EXCERPT_PREFIX) :])
            else:
                self._add_line(heading, line)
        task = self._fields.pop("current_task", [None])[-1]
        values: dict[str, Any] = {name: tuple(entries) for name, entries in self._fields.items()}
        return StructuredSummary(style=self._style, current_task=task, **values)

    def _read_heading(self, text: str) -> str:
        """Return the field of a heading. A heading of files also gives their state and common directory."""
        title, _, root = text.partition(RELATIVE_TO)
        if title not in _STATE_BY_HEADING:
            return _FIELD_BY_HEADING.get(text, "")
        self._file_state, self._file_root = _STATE_BY_HEADING[title], root
        return "files"

    def _add_files(self, text: str) -> None:
        if f"- {text}".startswith(READ_LABEL):
            for path in f"- {text}".removeprefix(READ_LABEL).split(", "):
                self._order += 1
                self._add("files", FileTouched(self._file_root + path, "read", "read", order=self._order))
            return
        path, _, change = text.partition(": ")
        state: Any = "created" if change.startswith("created") else self._file_state or _state_of(change)
        self._add("files", FileTouched(self._file_root + path, change, state, order=self._order))

    def _add_line(self, heading: str, line: str) -> None:
        name, text = heading, line.removeprefix("- ")
        if not heading:
            marked = line[match.end() :] if (match := _STEP_NUMBER.match(line)) else line
            if marked[1:2] != " " or marked[0] not in _FIELD_BY_MARKER:
                self._add_tool_text(line)
                return
            name, text = _FIELD_BY_MARKER[marked[0]], marked[2:]
        if name == "constraints" and (match := _REQUIREMENT.match(text)):
            name, text = f"{match.group(1)}s", text[match.end() :]
        self._order += 1
        if name == "files":
            self._add_files(text)
        elif name == "entities":
            label, _, names = text.partition(": ")
            for entity_name in split_names(names):
                self._add(name, Entity(entity_name, entity_role(label), (), self._order))
        else:
            self._add(name, _ENTRY_PARSERS.get(name, _parse_note)(text, self._order))

    def _add_record(self, line: str) -> None:
        record = self._records.read(line, self._order + 1)
        if record is not None:
            self._order += 1
            self._add("records", record)

    def _add(self, name: str, entry: Entry) -> None:
        self._fields.setdefault(name, []).append(entry)
        self._last_field = name

    def _add_excerpt(self, text: str) -> None:
        entries = self._fields.get(self._last_field)
        if entries and hasattr(entries[-1], "excerpts"):
            entries[-1] = replace(entries[-1], excerpts=(*entries[-1].excerpts, text))
        else:
            self._add_tool_text(text)

    def _add_tool_text(self, text: str) -> None:
        self._order += 1
        self._add("facts", Note(text, order=self._order, role="tool"))


def _parse_note(text: str, order: int) -> Note:
    return Note(text, order=order)


def _parse_fact(text: str, order: int) -> Note:
    if text.startswith(USER_PREFIX):
        return Note(text.removeprefix(USER_PREFIX), order=order, role="user")
    return Note(text, order=order)


def _parse_decision(text: str, order: int) -> Decision:
    if match := _LEDGER.fullmatch(text):
        step, decision, rationale, inputs, outputs = ("" if part == EMPTY_PART else part for part in match.groups())
        return Decision(decision, rationale, inputs, outputs, sources=(step,) if step else (), order=order)
    decision, separator, rationale = text.partition(" — because: ")
    return Decision(decision, rationale, order=order) if separator else Decision.from_sentence(text, order=order)


def _parse_open_item(text: str, order: int) -> OpenItem:
    match = _PRIORITY.match(text)
    priority: Any = match.group(1) if match else "medium"
    return OpenItem(text[match.end() :] if match else text, priority=priority, order=order)


def _state_of(change: str) -> str:
    return next((state for state in ("created", "deleted", "renamed") if change.startswith(state)), "changed")


def _parse_command(text: str, order: int) -> Command:
    command, _, outcome = text.partition(" → ")
    return Command(command, outcome, order=order)


def _parse_tool_outcome(text: str, order: int) -> ToolOutcome:
    call, _, error = text.partition(" → ")
    tool = call.partition("(")[0].split(" ")[0]
    return ToolOutcome(tool, "failure" if error else "success", {}, error or None, call, order=order)


def _parse_artifact(text: str, order: int) -> ArtifactReference:
    artifact_id, _, description = text.partition(" — ")
    return ArtifactReference(artifact_id, description, order=order)


_ENTRY_PARSERS: Final[dict[str, Callable[[str, int], Entry]]] = {
    "decisions": _parse_decision,
    "open_items": _parse_open_item,
    "commands": _parse_command,
    "tool_outcomes": _parse_tool_outcome,
    "artifacts": _parse_artifact,
    "facts": _parse_fact,
}
