"""Render a summary as text in one of six styles.

Deterministic: the same summary always renders to the same bytes. Constraints, decisions and open items have their own
sections. Everything that happened is one chronological record, because facts are easier to use in their context.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from compact.summary.entries import (
    RATIONALE_START,
    ArtifactReference,
    Command,
    Decision,
    Entity,
    Entry,
    FileTouched,
    Note,
    OpenItem,
    Record,
    ToolOutcome,
)
from compact.summary.record_tree import record_lines

if TYPE_CHECKING:
    from compact.summary.structured_summary import StructuredSummary

HEADINGS: Final[dict[str, str]] = {
    "current_task": "Current task",
    "goals": "Goals",
    "constraints": "Constraints",
    "decisions": "Decisions",
    "open_items": "Open actions",
    "current_plan": "Recorded plan",
    "checks": "Last check",
    "changed_values": "Values changed by edits",
    "records": "Records from tool results",
    "artifacts": "Artifacts",
    "entities": "Entities",
    "sources": "Sources",
}
RECORD_MARKERS: Final[dict[str, str]] = {
    "commands": "$",
    "tool_outcomes": ">",
    "errors": "!",
    "facts": "-",
}
STEP_MARKERS: Final[dict[str, str]] = {"decisions": "=", **RECORD_MARKERS}
# Half of a summary is tool output. A two-token marker on each of its lines would cost an eighth of the budget.
EXCERPT_PREFIX: Final = " "
# Starts the line with which a summary tells the model that it can recall. It is not part of the summary.
RECALL_PREFIX: Final = "[Recall] "
EMPTY_PART: Final = "-"
# The role of a bare name starts with its origin: mentioned by the user or the assistant, or only shown by a tool.
SAID: Final = "said"
SHOWN: Final = "shown"
ORIGIN_LABELS: Final = {SAID: "mentioned", SHOWN: "in tool output"}
USER_PREFIX: Final = "user: "
PHRASE_END: Final = "; "
_STATE_SECTIONS: Final = ("files", "checks", "changed_values", "records")
_LAST_SECTIONS: Final = ("artifacts", "entities", "sources")
FILE_HEADINGS: Final[dict[str, str]] = {
    "changed": "Files changed or created",
    "deleted": "Files deleted",
    "renamed": "Files renamed",
    "read": "Files only read",
}
STORY_HEADING: Final = "Earlier turns"
# Above lines that are no sentences: pasted by the user, or code of the assistant.
TEXT_LABELS: Final = {"tool": "- output or pasted text:", "code": "- code:"}
RELATIVE_TO: Final = ", relative to "
READ_LABEL: Final = "- Files read: "


def render_body(summary: StructuredSummary) -> str:
    """Render the body in the summary's style, without the tag and the format line."""
    return "\n".join(_RENDERERS.get(summary.style, _task_state)(summary))


def entry_line(entry: Entry) -> str:
    """Render one entry without its excerpts. Entities are not supported, because they share lines."""
    return _ENTRY_RENDERERS[type(entry)](entry)


def _excerpt_lines(entry: Entry) -> list[str]:
    return [f"{EXCERPT_PREFIX}{line}" for line in getattr(entry, "excerpts", ())]


def _task_state(summary: StructuredSummary) -> Iterator[str]:
    yield from _sections(summary, ("current_task", "goals", "constraints", "decisions", "open_items", "current_plan"))
    yield from _sections(summary, _STATE_SECTIONS)
    yield from _record(summary, RECORD_MARKERS)
    yield from _sections(summary, _LAST_SECTIONS)


def _brief(summary: StructuredSummary) -> Iterator[str]:
    yield from _sections(summary, ("current_task", "goals", "constraints", "open_items", "current_plan"))
    yield from _sections(summary, _STATE_SECTIONS)
    yield from _record(summary, STEP_MARKERS)
    yield from _sections(summary, _LAST_SECTIONS)


def _step_ledger(summary: StructuredSummary) -> Iterator[str]:
    yield from _sections(summary, ("current_task", "goals", "constraints"))
    steps = _in_order(summary, ("decisions", "commands", "tool_outcomes"))
    if steps:
        yield "## Steps"
    for number, (name, entry) in enumerate(steps, start=1):
        yield f"{number}. {STEP_MARKERS[name]} {entry_line(entry)}"
        yield from _excerpt_lines(entry)
    yield from _sections(summary, ("open_items", "current_plan", *_STATE_SECTIONS))
    yield from _record(summary, {"errors": "!", "facts": "-"})
    yield from _sections(summary, _LAST_SECTIONS)


def _requirements_ledger(summary: StructuredSummary) -> Iterator[str]:
    yield from _sections(summary, ("current_task",))
    requirements = sorted(
        [(note.order, "goal", note) for note in summary.goals]
        + [(note.order, "constraint", note) for note in summary.constraints],
        key=lambda item: item[0],
    )
    if requirements:
        yield "## Requirements"
        for number, (_, kind, note) in enumerate(requirements, start=1):
            yield f"R{number} ({kind}) {_single_line(note.text)}"
    yield from _sections(summary, ("decisions", "open_items", "current_plan", *_STATE_SECTIONS))
    yield from _record(summary, RECORD_MARKERS)
    yield from _sections(summary, _LAST_SECTIONS)


def _code_delta(summary: StructuredSummary) -> Iterator[str]:
    for file in sorted(summary.files, key=lambda entry: entry.order):
        if file.state != "read":
            yield f"- {file.path}: {_single_line(file.change) or file.state}"
            yield from (f"{EXCERPT_PREFIX}{line}" for line in file.excerpts)
    yield from _file_section("read", [file for file in summary.files if file.state == "read"])
    yield from _sections(summary, ("current_task", "goals", "constraints", "decisions", "open_items", "current_plan"))
    yield from _sections(summary, ("checks", "changed_values", "records"))
    yield from _record(summary, RECORD_MARKERS)
    yield from _sections(summary, _LAST_SECTIONS)


def _decision_log(summary: StructuredSummary) -> Iterator[str]:
    for decision in sorted(summary.decisions, key=lambda entry: entry.order):
        yield ledger_line(decision)
    yield from _sections(summary, ("current_task", "goals", "constraints", "open_items", "current_plan"))
    yield from _sections(summary, _STATE_SECTIONS)
    yield from _record(summary, RECORD_MARKERS)
    yield from _sections(summary, _LAST_SECTIONS)


def ledger_line(decision: Decision) -> str:
    """Return `[step_id] decision :: rationale :: inputs :: outputs`, with a dash for each unknown part."""
    step = decision.sources[0] if decision.sources else str(decision.turn_number)
    parts = (decision.decision, decision.rationale, decision.inputs, decision.outputs)
    ledger = " :: ".join(_single_line(part).replace(" :: ", " : ") or EMPTY_PART for part in parts)
    return f"[{step}] {ledger}"


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
        entries = summary.entries_of(name)
        if not entries:
            continue
        if name == "files":
            yield from _file_sections(summary.files)
            continue
        yield f"## {HEADINGS[name]}"
        if name == "records":
            yield from record_lines(summary.records)
            continue
        if name == "entities":
            yield from _entity_lines(summary.entities)
            continue
        for entry in sorted(entries, key=lambda entry: entry.order):
            yield f"- {entry_line(entry)}"
            yield from _excerpt_lines(entry)


def _file_sections(files: Iterable[FileTouched]) -> Iterator[str]:
    """Render one section per state. A created file is a changed file."""
    by_state: dict[str, list[FileTouched]] = {}
    for file in sorted(files, key=lambda entry: entry.order):
        by_state.setdefault("changed" if file.state == "created" else file.state, []).append(file)
    for state in FILE_HEADINGS:
        yield from _file_section(state, by_state.get(state, []))


def _file_section(state: str, files: list[FileTouched]) -> Iterator[str]:
    if not files:
        return
    root = _common_root([file.path for file in files])
    yield f"## {FILE_HEADINGS[state]}{f'{RELATIVE_TO}{root}' if root else ''}"
    if state == "read":
        yield f"{READ_LABEL}{', '.join(file.path.removeprefix(root) for file in files)}"
        return
    for file in files:
        change = _single_line(file.change) or file.state
        yield f"- {file.path.removeprefix(root)}: {change}"
        yield from (f"{EXCERPT_PREFIX}{line}" for line in file.excerpts)


def _common_root(paths: list[str]) -> str:
    """Return the directory that all paths share, with a final slash, or an empty text if it saves nothing."""
    if len(paths) < 2:
        return ""
    first, last = min(paths), max(paths)
    shared = next((index for index, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    root = first[: first.rfind("/", 0, shared) + 1]
    if any("/" not in path.removeprefix(root) for path in paths):
        # A file keeps the name of its directory, because a session may contain many files called `index.ts`.
        root = root[: root.rfind("/", 0, -1) + 1]
    return root if root.count("/") > 1 else ""


def _record(summary: StructuredSummary, markers: Mapping[str, str]) -> Iterator[str]:
    """Render what happened, in chronological order. The marker gives the type of a line."""
    record = _in_order(summary, markers)
    if record:
        yield f"## {STORY_HEADING}"
    label = ""
    for name, entry in record:
        if isinstance(entry, Note) and name == "facts" and entry.role in TEXT_LABELS:
            if label != TEXT_LABELS[entry.role]:
                label = TEXT_LABELS[entry.role]
                yield label
            yield from (f"{EXCERPT_PREFIX}{line}" for line in entry.text.split("\n"))
            continue
        label = ""
        is_user = name == "facts" and isinstance(entry, Note) and entry.role == "user"
        yield f"{markers[name]} {USER_PREFIX if is_user else ''}{entry_line(entry)}"
        yield from _excerpt_lines(entry)


def _in_order(summary: StructuredSummary, names: Iterable[str]) -> list[tuple[str, Entry]]:
    entries: list[tuple[str, Entry]] = [(name, entry) for name in names for entry in getattr(summary, name)]
    return sorted(entries, key=lambda item: item[1].order)


def _entity_lines(entities: Iterable[Entity]) -> Iterator[str]:
    """Render the names of each label on one line, in chronological order. Phrases are separated by semicolons."""
    words: dict[str, list[str]] = {}
    phrases: dict[str, list[str]] = {}
    for entity in sorted(entities, key=lambda entity: entity.order):
        name, label = _single_line(entity.name), _entity_label(entity.role)
        (phrases if " " in name or name.endswith(";") else words).setdefault(label, []).append(name)
    for label, names in words.items():
        yield f"- {label}: {' '.join(names)}"
    for label, names in phrases.items():
        yield f"- {label}: {PHRASE_END.join([*names, ''])}".rstrip(" ")


def _entity_label(role: str) -> str:
    origin, _, kind = role.partition(" ")
    if origin not in ORIGIN_LABELS:
        return role or "name"
    return f"{kind or 'names'} {ORIGIN_LABELS[origin]}"


def entity_role(label: str) -> str:
    """Return the role of the names under a label that `_entity_lines` rendered."""
    for origin, suffix in ORIGIN_LABELS.items():
        if label.endswith(f" {suffix}"):
            return f"{origin} {label.removesuffix(f' {suffix}')}"
    return "" if label == "name" else label


def split_names(text: str) -> list[str]:
    """Split a line of names that `_entity_lines` rendered, without its role."""
    if text.endswith(PHRASE_END.rstrip()):
        return [name for name in f"{text} ".split(PHRASE_END) if name]
    return text.split()


def _text_line(entry: Note | Record) -> str:
    return _single_line(entry.text)


def _decision_line(decision: Decision) -> str:
    text, rationale = _single_line(decision.decision), _single_line(decision.rationale)
    if not rationale:
        return text
    return f"{text} {rationale}" if RATIONALE_START.match(rationale) else f"{text} — because: {rationale}"


def _open_item_line(item: OpenItem) -> str:
    text = _single_line(item.description)
    if item.priority != "medium":
        text = f"({item.priority}) {text}"
    return f"{text} — {_single_line(item.context)}" if item.context else text


def _artifact_line(artifact: ArtifactReference) -> str:
    details = (_single_line(part) for part in (artifact.description, artifact.rehydrate_hint) if part)
    return " — ".join([artifact.artifact_id, *details])


def _file_line(file: FileTouched) -> str:
    return f"{file.path}: {_single_line(file.change)}" if file.change else file.path


def _command_line(command: Command) -> str:
    return _with_outcome(command.command, command.outcome)


def _outcome_line(outcome: ToolOutcome) -> str:
    text = _single_line(outcome.call or outcome.tool_name)
    if outcome.key_fields:
        fields = json.dumps(dict(outcome.key_fields), ensure_ascii=False, sort_keys=True, default=str)
        text = f"{text} {fields}"
    result: str = "" if outcome.outcome == "success" else outcome.outcome
    if outcome.error_message:
        result = f"{result}: {_single_line(outcome.error_message)}" if result else _single_line(outcome.error_message)
    return _with_outcome(text, result)


def _with_outcome(text: str, outcome: str) -> str:
    return f"{_single_line(text)} → {_single_line(outcome)}" if outcome else _single_line(text)


def _single_line(text: str) -> str:
    return text if "\n" not in text and "\r" not in text else " ".join(text.split())


_ENTRY_RENDERERS: Final[dict[type, Callable[[Any], str]]] = {
    Note: _text_line,
    Decision: _decision_line,
    OpenItem: _open_item_line,
    ArtifactReference: _artifact_line,
    FileTouched: _file_line,
    Record: _text_line,
    Command: _command_line,
    ToolOutcome: _outcome_line,
}
