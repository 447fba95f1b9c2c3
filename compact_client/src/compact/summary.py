"""What is remembered of a span: typed entries, each with the ids of the messages it came from.

Pure data and deterministic: the same entries merge and render to the same bytes. Two summaries are merged by code,
field by field; no text is ever written anew, so nothing can drift.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal, TypeVar

from compact.span import SpanReference

STRUCTURED_SUMMARY_SCHEMA_VERSION: Final = "v1.0"
SUMMARY_RENDER_VERSION: Final = "v1.0"

# What goes first when the budget is short, least valuable last to be named here: a field further down is cut before
# a field further up. `coverage.fit` turns the places into worth, so that a cheap line full of ids can outlive a long
# and empty one of the next rank, but a constraint never makes way for a fact.
RANK: Final = (
    "current_task",
    "constraints",
    "goals",
    "open_items",
    "current_plan",
    "decisions",
    "artifacts",
    "files",
    "errors",
    "commands",
    "tool_outcomes",
    "entities",
    "sources",
    "facts",
)

WHY: Final = re.compile(r"\b(?:because|since|due to|caused by|so that|as it|in order to)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Note:
    """A verbatim line and where it stood."""

    text: str
    sources: tuple[str, ...] = ()
    order: int = 0
    role: str = ""

    @property
    def key(self) -> str:
        return normalized(self.text)


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided and why; `topic` is what a later decision must share to replace this one."""

    decision: str
    rationale: str = ""
    inputs: str = ""
    outputs: str = ""
    turn_number: int = 0
    topic: str = ""
    sources: tuple[str, ...] = ()
    order: int = 0

    @property
    def key(self) -> str:
        return self.topic or normalized(self.decision)

    @classmethod
    def from_sentence(cls, text: str, *, sources: tuple[str, ...] = (), order: int = 0) -> Decision:
        """A sentence cut where its reason begins; both parts stay word for word."""
        why = WHY.search(text)
        at = why.start() if why else 0
        topic = _TOPIC.search(text)
        return cls(
            text[:at].rstrip() if at else text,
            text[at:] if at else "",
            topic=topic.group(1).strip().lower() if topic else "",
            sources=sources,
            order=order,
        )


@dataclass(frozen=True, slots=True)
class OpenItem:
    """Something unresolved."""

    description: str
    context: str = ""
    priority: Literal["high", "medium", "low"] = "medium"
    sources: tuple[str, ...] = ()
    order: int = 0

    @property
    def key(self) -> str:
        return normalized(_CHECKBOX.sub("", self.description))


@dataclass(frozen=True, slots=True)
class Entity:
    """A name that may be needed again, and the part it plays."""

    name: str
    role: str = ""
    sources: tuple[str, ...] = ()
    order: int = 0

    @property
    def key(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class ArtifactReference:
    """Content that was moved out of the prompt and can be read back."""

    artifact_id: str
    description: str = ""
    rehydrate_hint: str = ""
    sources: tuple[str, ...] = ()
    order: int = 0

    @property
    def key(self) -> str:
        return self.artifact_id


@dataclass(frozen=True, slots=True)
class FileTouched:
    """A file that was changed, and lines that show how."""

    path: str
    change: str = ""
    excerpts: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    order: int = 0

    @property
    def key(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True)
class Command:
    """A command and what came of it."""

    command: str
    outcome: str = ""
    excerpts: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    order: int = 0

    @property
    def key(self) -> str:
        return normalized(self.command)


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """A tool call, whether it worked, and the fields of its result that must survive."""

    tool_name: str
    outcome: Literal["success", "failure", "partial"] = "success"
    key_fields: Mapping[str, Any] = field(default_factory=dict)
    error_message: str | None = None
    call: str = ""
    excerpts: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    order: int = 0

    def __hash__(self) -> int:
        return hash((self.tool_name, self.call, self.excerpts))

    @property
    def key(self) -> str:
        return normalized(self.call) or f"{self.tool_name}:{sorted(map(str, self.key_fields.values()))}"


Entry = Note | Decision | OpenItem | Entity | ArtifactReference | FileTouched | Command | ToolOutcome
_E = TypeVar("_E", bound=Entry)

_TOPIC: Final = re.compile(
    r"\b(?:use|using|go with|going with|switch(?:ing)? to|choose|chose|opt for)\b.{1,80}?"
    r"\b(?:for|as) (?:the |our |a )?([\w -]{3,40})",
    re.IGNORECASE,
)
_CHECKBOX: Final = re.compile(r"^\s*(?:[-*]\s*)?\[[ xX]\]\s*")
_SPACE: Final = re.compile(r"\s+")
_WORD: Final = re.compile(r"[a-z0-9_./-]{3,}")
_NOTE_FIELDS: Final = ("goals", "constraints", "facts", "errors", "sources", "current_plan", "completed")
_ENTRY_TYPES: Final[dict[str, type[Any]]] = {
    **dict.fromkeys(_NOTE_FIELDS, Note),
    "decisions": Decision,
    "open_items": OpenItem,
    "entities": Entity,
    "artifacts": ArtifactReference,
    "files": FileTouched,
    "commands": Command,
    "tool_outcomes": ToolOutcome,
}


def normalized(text: str) -> str:
    """The form in which two texts are the same entry."""
    return _SPACE.sub(" ", text).strip(" -*•.").lower()


@dataclass(frozen=True, slots=True)
class StructuredSummary:
    """A summary that resists drift: fields are united and superseded, never rewritten.

    Plain strings are accepted where a line is expected, as are lists where a tuple is.
    """

    span: SpanReference | None = None
    style: str = "task_state"
    current_task: Note | None = None
    goals: tuple[Note, ...] = ()
    constraints: tuple[Note, ...] = ()
    decisions: tuple[Decision, ...] = ()
    open_items: tuple[OpenItem, ...] = ()
    current_plan: tuple[Note, ...] = ()
    files: tuple[FileTouched, ...] = ()
    commands: tuple[Command, ...] = ()
    tool_outcomes: tuple[ToolOutcome, ...] = ()
    errors: tuple[Note, ...] = ()
    facts: tuple[Note, ...] = ()
    artifacts: tuple[ArtifactReference, ...] = ()
    entities: tuple[Entity, ...] = ()
    sources: tuple[Note, ...] = ()
    completed: tuple[Note, ...] = ()
    """What was finished: not rendered, but it takes open items off the list when summaries are merged."""

    def __post_init__(self) -> None:
        if isinstance(self.current_task, str):
            object.__setattr__(self, "current_task", Note(self.current_task))
        for name, entry_type in _ENTRY_TYPES.items():
            value = getattr(self, name) or ()
            if entry_type is Note:
                value = tuple(Note(item) if isinstance(item, str) else item for item in value)
            object.__setattr__(self, name, tuple(value))

    @property
    def message_ids(self) -> tuple[str, ...]:
        """Every message this summary stands for."""
        if self.span is not None:
            return self.span.message_ids
        return tuple(dict.fromkeys(source for entry in self.entries() for source in entry.sources))

    @property
    def is_empty(self) -> bool:
        return self.current_task is None and not any(getattr(self, name) for name in _ENTRY_TYPES)

    def entries(self) -> Iterable[Entry]:
        """Every entry that is rendered, in the order of `RANK`."""
        for name in RANK:
            value = getattr(self, name)
            if name == "current_task":
                if value is not None:
                    yield value
            else:
                yield from value

    def merge(self, newer: StructuredSummary) -> StructuredSummary:
        """This summary and a later one as a single summary, by union and supersession."""
        shift = 1 + max((entry.order for entry in self.entries()), default=-1)
        newer = newer._shifted(shift)
        merged: dict[str, Any] = {
            "span": _united_span(self.span, newer.span),
            "style": newer.style,
            "current_task": newer.current_task or self.current_task,
            "current_plan": newer.current_plan or self.current_plan,
            "decisions": _supersede(self.decisions, newer.decisions),
            "completed": (),
        }
        for name in _ENTRY_TYPES:
            if name not in merged:
                merged[name] = _union(getattr(self, name), getattr(newer, name))
        if self.current_task and newer.current_task and self.current_task.key != newer.current_task.key:
            # A task that another one followed is still something the user asked for.
            merged["goals"] = _union((*self.goals, self.current_task), newer.goals)
        done = tuple(note.text for note in newer.completed)
        still_open = {item.key for item in newer.open_items}
        merged["open_items"] = tuple(
            item for item in merged["open_items"] if item.key in still_open or not _is_done(item, done)
        )
        return StructuredSummary(**merged)

    def _shifted(self, by: int) -> StructuredSummary:
        changed: dict[str, Any] = {
            name: tuple(replace(entry, order=entry.order + by) for entry in getattr(self, name))
            for name in _ENTRY_TYPES
        }
        task = self.current_task
        return replace(self, current_task=replace(task, order=task.order + by) if task else None, **changed)

    def render(self, version: int = 1) -> str:
        """The text of the one summary message: its tag and number, the version line, the body."""
        return f"<COMPACT-SUMMARY v{version}>\n{self.render_as_message()}"

    def render_as_message(self) -> str:
        """The summary as text, with the version of the format in its first line."""
        from compact.summary_text import render_body

        return f"[Summary {SUMMARY_RENDER_VERSION} {self.style}]\n{render_body(self)}"

    @classmethod
    def parse(cls, text: str) -> StructuredSummary | None:
        """Read a rendered summary back; None if the text is not one of ours."""
        from compact.summary_parse import parse_text

        return parse_text(text)

    @classmethod
    def from_text(cls, text: str, message_ids: Sequence[str] = ()) -> StructuredSummary:
        """A summary written by somebody else: its lines become facts, word for word."""
        ids = tuple(message_ids)
        lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        notes = tuple(Note(line.strip(), ids, order) for order, line in enumerate(lines))
        return cls(span=SpanReference(ids) if ids else None, style="brief", facts=notes)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; empty fields are left out."""
        data: dict[str, Any] = {"schema": STRUCTURED_SUMMARY_SCHEMA_VERSION, "style": self.style}
        if self.span is not None:
            data["span"] = self.span.to_dict()
        if self.current_task is not None:
            data["current_task"] = _entry_dict(self.current_task)
        for name in _ENTRY_TYPES:
            if entries := getattr(self, name):
                data[name] = [_entry_dict(entry) for entry in entries]
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StructuredSummary:
        values: dict[str, Any] = {"style": data.get("style", "task_state")}
        if data.get("span"):
            values["span"] = SpanReference.from_dict(data["span"])
        if data.get("current_task"):
            values["current_task"] = _entry_from(Note, data["current_task"])
        for name, entry_type in _ENTRY_TYPES.items():
            values[name] = tuple(_entry_from(entry_type, item) for item in data.get(name) or ())
        return cls(**values)


def _entry_dict(entry: Entry) -> dict[str, Any]:
    data = {}
    for item in fields(entry):
        value = getattr(entry, item.name)
        if value or item.name == "order":
            data[item.name] = list(value) if isinstance(value, tuple) else value
    return data


def _entry_from(entry_type: type[Any], data: Mapping[str, Any] | str) -> Any:
    if isinstance(data, str):
        return entry_type(data)
    known = {item.name for item in fields(entry_type)}
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items() if name in known}
    return entry_type(**values)


def _united_span(older: SpanReference | None, newer: SpanReference | None) -> SpanReference | None:
    if older is None or newer is None:
        return older or newer
    ids = tuple(dict.fromkeys(older.message_ids + newer.message_ids))
    return SpanReference(ids, min(older.first_turn, newer.first_turn), max(older.last_turn, newer.last_turn))


def _union(older: Sequence[_E], newer: Sequence[_E]) -> tuple[_E, ...]:
    """One entry per key: the later wording stands, in the earlier one's place, with the sources of both."""
    merged: dict[str, _E] = {}
    for entry in (*older, *newer):
        before = merged.get(entry.key)
        merged[entry.key] = entry if before is None else _joined(before, entry)
    return tuple(merged.values())


def _joined(before: Any, after: Any) -> Any:
    changes: dict[str, Any] = {"sources": tuple(dict.fromkeys(before.sources + after.sources))}
    if hasattr(after, "excerpts"):
        changes["excerpts"] = tuple(dict.fromkeys(before.excerpts + after.excerpts))
    if isinstance(after, ToolOutcome) and isinstance(before, ToolOutcome):
        changes["key_fields"] = {**before.key_fields, **after.key_fields}
    if isinstance(after, Entity) and not after.role:
        changes["role"] = before.role
    if isinstance(after, Note | OpenItem | Entity):
        # A repeated line keeps its first place: what was said first is read first.
        changes["order"] = before.order
    return replace(after, **changes)


def _supersede(older: Sequence[Decision], newer: Sequence[Decision]) -> tuple[Decision, ...]:
    """Later decisions replace earlier ones on the same topic; the rest stands in order of time."""
    replaced = {decision.topic for decision in newer if decision.topic}
    return _union([decision for decision in older if decision.topic not in replaced or not decision.topic], newer)


def _is_done(item: OpenItem, done: Sequence[str]) -> bool:
    words = set(_WORD.findall(item.key))
    if not words:
        return False
    return any(len(words.intersection(_WORD.findall(text.lower()))) >= 0.7 * len(words) for text in done)
