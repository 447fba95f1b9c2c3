"""A summary as text, in six shapes, and back again.

Rendering is deterministic: the same summary gives the same bytes. Reading back takes every line over as it stands,
so that a summary that only survives as a message is first-class material for the next one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from compact.summary import (
    ArtifactReference,
    Command,
    Decision,
    Entity,
    Entry,
    FileTouched,
    Note,
    OpenItem,
    StructuredSummary,
    ToolOutcome,
)

_HEADINGS: Final[dict[str, str]] = {
    "current_task": "Current task",
    "goals": "Goals",
    "constraints": "Constraints",
    "decisions": "Decisions",
    "open_items": "Open actions",
    "current_plan": "Recorded plan",
    "files": "Files touched",
    "commands": "Commands",
    "tool_outcomes": "Tool outcomes",
    "errors": "Errors",
    "facts": "Facts",
    "artifacts": "Artifacts",
    "entities": "Entities",
    "sources": "Sources",
}
_FIELDS: Final = {heading: name for name, heading in _HEADINGS.items()}
_EXCERPT: Final = "  | "
_HEADER: Final = re.compile(r"\[Summary (v[\d.]+) (\w+)\]")
_LEDGER: Final = re.compile(r"\[([^\]\n]*)\] (.*?) :: (.*?) :: (.*?) :: (.*)")
_NOTHING: Final = "-"


def render_body(summary: StructuredSummary) -> str:
    """The body in the summary's own style, without tag and version line."""
    return "\n".join(_RENDERERS.get(summary.style, _task_state)(summary))


def parse_text(text: str) -> StructuredSummary | None:
    """Read a rendered summary back; None if it is not one."""
    lines = text.split("\n")
    for index, line in enumerate(lines[:3]):
        if match := _HEADER.match(line):
            return _Parser(style=match.group(2)).read(lines[index + 1 :])
    return None


def entry_lines(entry: Entry) -> list[str]:
    """One entry as it stands in a section: its line, then its excerpts. Names are listed together, not here."""
    return list(_ENTRY_RENDERERS[type(entry)](entry))


def _task_state(summary: StructuredSummary) -> Iterator[str]:
    yield from _sections(summary, tuple(_HEADINGS))


def _brief(summary: StructuredSummary) -> Iterator[str]:
    apart = ("current_task", "constraints", "open_items", "entities", "artifacts")
    names = [name for name in _HEADINGS if name not in apart]
    rest = [(entry.order, entry_lines(entry)) for name in names for entry in getattr(summary, name)]
    yield from _sections(summary, ("current_task", "constraints", "open_items"))
    if rest:
        yield "## Brief"
        for _, lines in sorted(rest, key=lambda item: item[0]):
            yield from lines
    yield from _sections(summary, ("artifacts", "entities"))


def _step_ledger(summary: StructuredSummary) -> Iterator[str]:
    steps: list[tuple[int, str, tuple[str, ...]]] = [
        *((entry.order, _flat(entry.decision), ()) for entry in summary.decisions),
        *(
            (entry.order, f"{entry.path}: {_flat(entry.change) or 'changed'}", entry.excerpts)
            for entry in summary.files
        ),
        *((entry.order, _with_outcome(entry.command, entry.outcome), entry.excerpts) for entry in summary.commands),
        *((entry.order, _outcome_line(entry), entry.excerpts) for entry in summary.tool_outcomes),
    ]
    yield from _sections(summary, ("current_task", "goals", "constraints"))
    if steps:
        yield "## Steps"
        for number, (_, text, excerpts) in enumerate(sorted(steps, key=lambda step: step[0]), start=1):
            yield f"{number}. {text}"
            yield from (f"{_EXCERPT}{line}" for line in excerpts)
    yield from _sections(summary, ("open_items", "current_plan", "errors", "facts", "artifacts", "entities", "sources"))


def _requirements_ledger(summary: StructuredSummary) -> Iterator[str]:
    requirements = sorted(
        [(note.order, "goal", note) for note in summary.goals]
        + [(note.order, "constraint", note) for note in summary.constraints],
        key=lambda item: item[0],
    )
    if requirements:
        yield "## Requirements"
        for number, (_, kind, note) in enumerate(requirements, start=1):
            yield f"R{number} ({kind}) {_flat(note.text)}"
    yield from _sections(summary, tuple(name for name in _HEADINGS if name not in ("goals", "constraints")))


def _code_delta(summary: StructuredSummary) -> Iterator[str]:
    for file in sorted(summary.files, key=lambda entry: entry.order):
        yield f"- {file.path}: {_flat(file.change) or 'changed'}"
        yield from (f"{_EXCERPT}{line}" for line in file.excerpts)
    yield from _sections(summary, tuple(name for name in _HEADINGS if name != "files"))


def _decision_log(summary: StructuredSummary) -> Iterator[str]:
    for decision in sorted(summary.decisions, key=lambda entry: entry.order):
        yield ledger_line(decision)
    yield from _sections(summary, tuple(name for name in _HEADINGS if name != "decisions"))


def ledger_line(decision: Decision) -> str:
    """`[step_id] decision :: rationale :: inputs :: outputs`, a dash where nothing is known."""
    step = decision.sources[0] if decision.sources else str(decision.turn_number)
    parts = (decision.decision, decision.rationale, decision.inputs, decision.outputs)
    shown = " :: ".join(_flat(part).replace(" :: ", " : ") or _NOTHING for part in parts)
    return f"[{step}] {shown}"


_RENDERERS: Final[dict[str, Callable[[StructuredSummary], Iterator[str]]]] = {
    "task_state": _task_state,
    "brief": _brief,
    "extractive_brief": _brief,
    "step_ledger": _step_ledger,
    "requirements_ledger": _requirements_ledger,
    "code_delta": _code_delta,
    "decision_log": _decision_log,
}


def _sections(summary: StructuredSummary, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        value = getattr(summary, name)
        entries = ([value] if value is not None else []) if name == "current_task" else list(value)
        if not entries:
            continue
        yield f"## {_HEADINGS[name]}"
        if name == "entities":
            yield from _entity_lines(entries)
            continue
        for entry in sorted(entries, key=lambda entry: entry.order):
            yield from entry_lines(entry)


def _entity_lines(entities: list[Entity]) -> Iterator[str]:
    by_role: dict[str, list[str]] = {}
    for entity in entities:
        by_role.setdefault(entity.role or "name", []).append(_flat(entity.name))
    for role, names in by_role.items():
        yield f"- {role}: {', '.join(names)}"


def _note_lines(note: Note) -> Iterator[str]:
    yield f"- {_flat(note.text)}"


def _decision_lines(decision: Decision) -> Iterator[str]:
    text = _flat(decision.decision)
    why = _flat(decision.rationale)
    yield f"- {text}" if not why or why in text else f"- {text} — because: {why}"


def _open_item_lines(item: OpenItem) -> Iterator[str]:
    text = _flat(item.description)
    if item.priority != "medium":
        text = f"({item.priority}) {text}"
    yield f"- {text} — {_flat(item.context)}" if item.context else f"- {text}"


def _artifact_lines(artifact: ArtifactReference) -> Iterator[str]:
    parts = [artifact.artifact_id, *(_flat(part) for part in (artifact.description, artifact.rehydrate_hint) if part)]
    yield f"- {' — '.join(parts)}"


def _file_lines(file: FileTouched) -> Iterator[str]:
    yield f"- {file.path}: {_flat(file.change)}" if file.change else f"- {file.path}"
    yield from (f"{_EXCERPT}{line}" for line in file.excerpts)


def _command_lines(command: Command) -> Iterator[str]:
    yield f"- {_with_outcome(command.command, command.outcome)}"
    yield from (f"{_EXCERPT}{line}" for line in command.excerpts)


def _tool_outcome_lines(outcome: ToolOutcome) -> Iterator[str]:
    yield f"- {_outcome_line(outcome)}"
    yield from (f"{_EXCERPT}{line}" for line in outcome.excerpts)


def _outcome_line(outcome: ToolOutcome) -> str:
    text = _flat(outcome.call or outcome.tool_name)
    if outcome.key_fields:
        shown = json.dumps(dict(outcome.key_fields), ensure_ascii=False, sort_keys=True, default=str)
        text = f"{text} {shown}"
    result: str = "" if outcome.outcome == "success" else outcome.outcome
    if outcome.error_message:
        result = f"{result}: {_flat(outcome.error_message)}" if result else _flat(outcome.error_message)
    return _with_outcome(text, result)


def _with_outcome(text: str, outcome: str) -> str:
    return f"{_flat(text)} → {_flat(outcome)}" if outcome else _flat(text)


def _flat(text: str) -> str:
    return text if "\n" not in text and "\r" not in text else " ".join(text.split())


_ENTRY_RENDERERS: Final[dict[type, Callable[[Any], Iterator[str]]]] = {
    Note: _note_lines,
    Decision: _decision_lines,
    OpenItem: _open_item_lines,
    ArtifactReference: _artifact_lines,
    FileTouched: _file_lines,
    Command: _command_lines,
    ToolOutcome: _tool_outcome_lines,
}


class _Parser:
    """Collects the lines of a rendered summary under the fields their headings name."""

    def __init__(self, *, style: str) -> None:
        self.style = style
        self.fields: dict[str, list[Any]] = {}
        self.order = 0

    def read(self, lines: list[str]) -> StructuredSummary:
        name = {"decision_log": "decisions", "code_delta": "files"}.get(self.style, "facts")
        for line in lines:
            if line.startswith("## "):
                heading = line[3:].strip()
                name = _FIELDS.get(heading, {"Steps": "commands", "Requirements": "constraints"}.get(heading, "facts"))
            elif line.startswith(_EXCERPT):
                self._excerpt(name, line[len(_EXCERPT) :])
            elif line.strip():
                self._entry(name, line)
        task = self.fields.pop("current_task", [None])[-1]
        values: dict[str, Any] = {name: tuple(entries) for name, entries in self.fields.items()}
        return StructuredSummary(style=self.style, current_task=task, **values)

    def _entry(self, name: str, line: str) -> None:
        text = line[2:] if line.startswith("- ") else line
        order = self.order = self.order + 1
        if name == "entities":
            role, _, names = text.partition(": ")
            for item in names.split(", "):
                self._add(name, Entity(item, "" if role == "name" else role, (), order))
            return
        if name == "constraints" and (match := re.match(r"R\d+ \((goal|constraint)\) ", text)):
            name = "goals" if match.group(1) == "goal" else "constraints"
            text = text[match.end() :]
        self._add(name, self._build(name, text, order))

    def _build(self, name: str, text: str, order: int) -> Entry:
        if name == "decisions":
            if match := _LEDGER.fullmatch(text):
                step, *parts = ("" if part == _NOTHING else part for part in match.groups())
                return Decision(parts[0], parts[1], parts[2], parts[3], sources=(step,) if step else (), order=order)
            decision, _, why = text.partition(" — because: ")
            return Decision(decision, why, order=order)
        if name == "open_items":
            return OpenItem(text, order=order)
        if name == "files":
            path, _, change = text.partition(": ")
            return FileTouched(path, change, order=order)
        if name == "commands":
            command, _, outcome = re.sub(r"^\d+\. ", "", text).partition(" → ")
            return Command(command, outcome, order=order)
        if name == "tool_outcomes":
            call, _, outcome = text.partition(" → ")
            tool = call.partition("(")[0].split(" ")[0]
            return ToolOutcome(tool, "failure" if outcome else "success", {}, outcome or None, call, order=order)
        if name == "artifacts":
            artifact_id, _, rest = text.partition(" — ")
            return ArtifactReference(artifact_id, rest, order=order)
        return Note(text, order=order)

    def _add(self, name: str, entry: Entry) -> None:
        self.fields.setdefault(name, []).append(entry)

    def _excerpt(self, name: str, text: str) -> None:
        entries = self.fields.get(name)
        if entries and hasattr(entries[-1], "excerpts"):
            entries[-1] = replace(entries[-1], excerpts=(*entries[-1].excerpts, text))
        else:
            self.order += 1
            self._add("facts", Note(text, order=self.order))
