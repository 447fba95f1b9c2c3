"""A summary as text, in six shapes.

Deterministic: the same summary gives the same bytes. Rules, decisions and open points stand under their headings; what
happened stands in one record in order of time, because a fact is easier to use beside what it stood beside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from compact.summary.entries import (
    WHY,
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

if TYPE_CHECKING:
    from compact.summary.structured_summary import StructuredSummary

HEADINGS: Final[dict[str, str]] = {
    "current_task": "Current task",
    "goals": "Goals",
    "constraints": "Constraints",
    "decisions": "Decisions",
    "open_items": "Open actions",
    "current_plan": "Recorded plan",
    "artifacts": "Artifacts",
    "entities": "Entities",
    "sources": "Sources",
}
RECORD_MARKS: Final[dict[str, str]] = {"files": "*", "commands": "$", "tool_outcomes": ">", "errors": "!", "facts": "-"}
STEP_MARKS: Final[dict[str, str]] = {"decisions": "=", **RECORD_MARKS}
# Half of a summary is lines of tool output: a mark of two tokens on each would cost an eighth of the budget.
EXCERPT: Final = " "
NOTHING: Final = "-"
# The role of a bare name begins with who brought it up; what sort of thing it is shows in its form.
SAID: Final = "said"
SHOWN: Final = "shown"
SHOWN_ROLES: Final = ("tool", "code")
USER: Final = "user: "
PHRASE_END: Final = ", "
MARKED: Final = re.compile(r"(?:\d+\. )?[=*$>!?-] |## | ")
_LAST: Final = ("artifacts", "entities", "sources")


def render_body(summary: StructuredSummary) -> str:
    """The body in the summary's own style, without tag and version line."""
    return "\n".join(_RENDERERS.get(summary.style, _task_state)(summary))


def entry_lines(entry: Entry) -> list[str]:
    """One entry as it stands in a section: its line, then its excerpts. Names are listed together, not here."""
    return list(_ENTRY_RENDERERS[type(entry)](entry))


def _task_state(summary: StructuredSummary) -> Iterator[str]:
    yield from _sections(summary, ("current_task", "goals", "constraints", "decisions", "open_items", "current_plan"))
    yield from _record(summary, RECORD_MARKS)
    yield from _sections(summary, _LAST)


def _brief(summary: StructuredSummary) -> Iterator[str]:
    yield from _sections(summary, ("current_task", "constraints", "open_items", "current_plan"))
    yield from _record(summary, {"goals": "?", "decisions": "=", **RECORD_MARKS})
    yield from _sections(summary, _LAST)


def _step_ledger(summary: StructuredSummary) -> Iterator[str]:
    yield from _sections(summary, ("current_task", "goals", "constraints"))
    steps = _in_time(summary, ("decisions", "files", "commands", "tool_outcomes"))
    if steps:
        yield "## Steps"
    for number, (name, entry) in enumerate(steps, start=1):
        first, *rest = entry_lines(entry)
        yield f"{number}. {STEP_MARKS[name]} {first.removeprefix('- ')}"
        yield from rest
    yield from _sections(summary, ("open_items", "current_plan"))
    yield from _record(summary, {"errors": "!", "facts": "-"})
    yield from _sections(summary, _LAST)


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
    yield from _sections(summary, ("current_task", "decisions", "open_items", "current_plan"))
    yield from _record(summary, RECORD_MARKS)
    yield from _sections(summary, _LAST)


def _code_delta(summary: StructuredSummary) -> Iterator[str]:
    for file in sorted(summary.files, key=lambda entry: entry.order):
        yield f"- {file.path}: {_flat(file.change) or 'changed'}"
        yield from (f"{EXCERPT}{line}" for line in file.excerpts)
    yield from _sections(summary, ("current_task", "goals", "constraints", "decisions", "open_items", "current_plan"))
    yield from _record(summary, {name: mark for name, mark in RECORD_MARKS.items() if name != "files"})
    yield from _sections(summary, _LAST)


def _decision_log(summary: StructuredSummary) -> Iterator[str]:
    for decision in sorted(summary.decisions, key=lambda entry: entry.order):
        yield ledger_line(decision)
    yield from _sections(summary, ("current_task", "goals", "constraints", "open_items", "current_plan"))
    yield from _record(summary, RECORD_MARKS)
    yield from _sections(summary, _LAST)


def ledger_line(decision: Decision) -> str:
    """`[step_id] decision :: rationale :: inputs :: outputs`, a dash where nothing is known."""
    step = decision.sources[0] if decision.sources else str(decision.turn_number)
    parts = (decision.decision, decision.rationale, decision.inputs, decision.outputs)
    shown = " :: ".join(_flat(part).replace(" :: ", " : ") or NOTHING for part in parts)
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
        yield f"## {HEADINGS[name]}"
        if name == "entities":
            yield from _entity_lines(entries)
            continue
        for entry in sorted(entries, key=lambda entry: entry.order):
            yield from entry_lines(entry)


def _record(summary: StructuredSummary, marks: Mapping[str, str]) -> Iterator[str]:
    """What happened, in order of time; the mark says what sort of line it is, and what a tool showed has none."""
    entries = _in_time(summary, marks)
    if entries:
        yield "## Record"
    for name, entry in entries:
        first, *rest = entry_lines(entry)
        text = first.removeprefix("- ")
        role = entry.role if isinstance(entry, Note) and name == "facts" else ""
        if role in SHOWN_ROLES and not MARKED.match(text):
            yield text
        else:
            yield f"{marks[name]} {USER if role == 'user' else ''}{text}"
        yield from rest


def _in_time(summary: StructuredSummary, names: Iterable[str]) -> list[tuple[str, Entry]]:
    found: list[tuple[str, Entry]] = [(name, entry) for name in names for entry in getattr(summary, name)]
    return sorted(found, key=lambda item: item[1].order)


def _entity_lines(entities: Iterable[Entity]) -> Iterator[str]:
    """The names of each role, in order of time so that neighbours stay together; phrases are parted by commas."""
    words: dict[str, list[str]] = {}
    phrases: dict[str, list[str]] = {}
    for entity in sorted(entities, key=lambda entity: entity.order):
        name, who = _flat(entity.name), entity.role.partition(" ")[0]
        role = who if who in (SAID, SHOWN) else entity.role or "name"
        (phrases if " " in name or name.endswith(",") else words).setdefault(role, []).append(name)
    for role, names in words.items():
        yield f"- {role}: {' '.join(names)}"
    for role, names in phrases.items():
        yield f"- {role}: {PHRASE_END.join([*names, ''])}".rstrip(" ")


def listed_names(text: str) -> list[str]:
    """The names that `_entity_lines` wrote into one line, after its role."""
    if text.endswith(PHRASE_END.rstrip()):
        return [name for name in f"{text} ".split(PHRASE_END) if name]
    return text.split()


def _note_lines(note: Note) -> Iterator[str]:
    yield f"- {_flat(note.text)}"


def _decision_lines(decision: Decision) -> Iterator[str]:
    text, why = _flat(decision.decision), _flat(decision.rationale)
    if not why:
        yield f"- {text}"
    elif WHY.match(why):
        yield f"- {text} {why}"
    else:
        yield f"- {text} — because: {why}"


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
    yield from (f"{EXCERPT}{line}" for line in file.excerpts)


def _command_lines(command: Command) -> Iterator[str]:
    yield f"- {_with_outcome(command.command, command.outcome)}"
    yield from (f"{EXCERPT}{line}" for line in command.excerpts)


def _tool_outcome_lines(outcome: ToolOutcome) -> Iterator[str]:
    yield f"- {_outcome_line(outcome)}"
    yield from (f"{EXCERPT}{line}" for line in outcome.excerpts)


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
