"""The structured summary of a span: typed entries, each with the ids of its source messages.

Pure data and deterministic: the same entries always merge and render to the same bytes. Summaries are merged field by
field without rewriting any text, so repeated merging does not distort them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, TypeVar

from compact.messages.span import SpanReference
from compact.summary.entries import (
    ArtifactReference,
    Command,
    Decision,
    Entity,
    Entry,
    FileTouched,
    Mentions,
    Note,
    OpenItem,
    Record,
    ToolOutcome,
)
from compact.summary.renderer import render_body

STRUCTURED_SUMMARY_SCHEMA_VERSION: Final = "v1.0"
SUMMARY_RENDER_VERSION: Final = "v1.0"

# The order in which consumers iterate over entries. It does not decide which entries are dropped first when the budget
# is short: `summarizers/extraction/span_index.py` defines the value of a line.
READING_ORDER: Final = (
    "current_task",
    "constraints",
    "goals",
    "open_items",
    "current_plan",
    "decisions",
    "artifacts",
    "files",
    "checks",
    "changed_values",
    "records",
    "errors",
    "commands",
    "tool_outcomes",
    "entities",
    "sources",
    "facts",
)

_E = TypeVar("_E", bound=Entry)
_NOTE_FIELDS: Final = (
    "goals",
    "constraints",
    "facts",
    "errors",
    "sources",
    "current_plan",
    "checks",
    "changed_values",
    "completed",
)
_ENTRY_TYPES: Final[dict[str, type[Any]]] = {
    **dict.fromkeys(_NOTE_FIELDS, Note),
    "decisions": Decision,
    "open_items": OpenItem,
    "entities": Entity,
    "artifacts": ArtifactReference,
    "files": FileTouched,
    "records": Record,
    "commands": Command,
    "tool_outcomes": ToolOutcome,
}
_CONTENT_FIELDS: Final = {
    entry_type: tuple(item.name for item in fields(entry_type) if item.name not in ("sources", "order"))
    for entry_type in set(_ENTRY_TYPES.values())
}


@dataclass(frozen=True, slots=True)
class StructuredSummary:
    """A summary that is merged by union and supersession, never rewritten.

    The constructor also accepts plain strings for notes, and lists for tuples.
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
    checks: tuple[Note, ...] = ()
    """The last test, lint or build command and its verdict."""
    changed_values: tuple[Note, ...] = ()
    """Names that edits set to another value."""
    records: tuple[Record, ...] = ()
    commands: tuple[Command, ...] = ()
    tool_outcomes: tuple[ToolOutcome, ...] = ()
    errors: tuple[Note, ...] = ()
    facts: tuple[Note, ...] = ()
    artifacts: tuple[ArtifactReference, ...] = ()
    entities: tuple[Entity, ...] = ()
    sources: tuple[Note, ...] = ()
    completed: tuple[Note, ...] = ()
    """Finished work. Not rendered, but removes matching open items when summaries are merged."""
    mentions: tuple[Mentions, ...] = ()
    """The mentions of facts whose lines do not show how often they were mentioned, and of facts that the summary leaves
    out because messages after the span mention them, too. Not rendered."""
    reserve: StructuredSummary | None = None
    """Entries that there was no room for. Not rendered, but the next summary may contain them."""
    _text: str = field(default="", init=False, repr=False, compare=False)
    """The rendered text, cached because several callers need it."""

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
        """The ids of all messages that this summary replaces."""
        if self.span is not None:
            return self.span.message_ids
        return tuple(dict.fromkeys(source for entry in self.entries() for source in entry.sources))

    @property
    def is_empty(self) -> bool:
        return self.current_task is None and not any(getattr(self, name) for name in _ENTRY_TYPES)

    def entries(self) -> Iterable[Entry]:
        """Iterate over all rendered entries, in reading order."""
        for name in READING_ORDER:
            yield from self.entries_of(name)

    def entries_of(self, name: str) -> tuple[Entry, ...]:
        """Return the entries of one field. `current_task` has at most one."""
        value: Any = getattr(self, name)
        if name == "current_task":
            return () if value is None else (value,)
        return tuple(value)

    @property
    def next_order(self) -> int:
        """The order of an entry that comes after all others."""
        return 1 + max((entry.order for entry in self.entries()), default=-1)

    def merge(self, newer: StructuredSummary) -> StructuredSummary:
        """Combine this summary with a later one, by union and supersession."""
        newer = newer._with_order_offset(self.next_order)
        merged: dict[str, Any] = {
            "span": merge_spans(self.span, newer.span),
            "style": newer.style,
            "current_task": newer.current_task or self.current_task,
            "current_plan": newer.current_plan or self.current_plan,
            "checks": newer.checks or self.checks,
            "decisions": _supersede(self.decisions, newer.decisions),
            "completed": (),
            "mentions": _add_mentions(self.mentions, newer.mentions),
            "reserve": next(filter(None, (newer.reserve, self.reserve)), None),
        }
        for name in _ENTRY_TYPES:
            if name not in merged:
                merged[name] = _union(getattr(self, name), getattr(newer, name))
        if self.current_task and newer.current_task and self.current_task.key != newer.current_task.key:
            # A task that was followed by another one is still a goal of the user.
            merged["goals"] = _union((*self.goals, self.current_task), newer.goals)
        merged["open_items"] = tuple(item for item in merged["open_items"] if not newer._completes(item))
        return StructuredSummary(**merged)

    def _completes(self, item: OpenItem) -> bool:
        """True if the item was completed, and is not listed as open again."""
        is_open = any(item.key == other.key for other in self.open_items)
        return not is_open and item.is_done([note.text for note in self.completed])

    def part_of(self, span: SpanReference) -> StructuredSummary:
        """Return the entries that come from the messages of a span."""
        ids = set(span.message_ids)
        values: dict[str, Any] = {
            name: tuple(entry for entry in getattr(self, name) if ids.intersection(entry.sources))
            for name in _ENTRY_TYPES
        }
        task = self.current_task if self.current_task and ids.intersection(self.current_task.sources) else None
        return replace(self, span=span, current_task=task, reserve=None, **values)

    def _with_order_offset(self, offset: int) -> StructuredSummary:
        entries: dict[str, Any] = {
            name: tuple(replace(entry, order=entry.order + offset) for entry in getattr(self, name))
            for name in _ENTRY_TYPES
        }
        task = self.current_task
        return replace(self, current_task=replace(task, order=task.order + offset) if task else None, **entries)

    def render(self, version: int = 1) -> str:
        """Return the text of the summary message: its tag with the version number, the format line and the body."""
        return f"<COMPACT-SUMMARY v{version}>\n{self.render_as_message()}"

    def render_as_message(self) -> str:
        """Return the summary as text. Its first line names the format version."""
        if not self._text:
            text = f"[Summary {SUMMARY_RENDER_VERSION} {self.style}]\n{render_body(self)}"
            object.__setattr__(self, "_text", text)
        return self._text

    @classmethod
    def parse(cls, text: str) -> StructuredSummary | None:
        """Parse a rendered summary. Return None if the text is not one."""
        from compact.summary.parser import parse_text

        return parse_text(text)

    @classmethod
    def from_text(cls, text: str, message_ids: Sequence[str] = ()) -> StructuredSummary:
        """Create a summary from the text of a custom summarizer. Its lines become facts, verbatim."""
        ids = tuple(message_ids)
        lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        notes = tuple(Note(line.strip(), ids, order) for order, line in enumerate(lines))
        return cls(span=SpanReference(ids) if ids else None, style="brief", facts=notes)

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as JSON values without empty fields."""
        data: dict[str, Any] = {"schema": STRUCTURED_SUMMARY_SCHEMA_VERSION, "style": self.style}
        if self.span is not None:
            data["span"] = self.span.to_dict()
        if self.current_task is not None:
            data["current_task"] = _entry_dict(self.current_task)
        for name in _ENTRY_TYPES:
            if entries := getattr(self, name):
                data[name] = [_entry_dict(entry) for entry in entries]
        if self.mentions:
            data["mentions"] = [list(mentions) for mentions in self.mentions]
        if self.reserve is not None:
            data["reserve"] = self.reserve.to_dict()
        return data

    def contents(self) -> list[Any]:
        """Return everything that `to_dict` quotes from the conversation, without the many ids of messages."""
        entries = [self.current_task] if self.current_task is not None else []
        contents: list[Any] = [mentions.key for mentions in self.mentions]
        for entry in (*entries, *(entry for name in _ENTRY_TYPES for entry in getattr(self, name))):
            for name in _CONTENT_FIELDS[type(entry)]:
                value = getattr(entry, name)
                if isinstance(value, tuple):
                    contents += value
                elif value:
                    contents.append(value)
        return contents if self.reserve is None else [*contents, *self.reserve.contents()]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StructuredSummary:
        values: dict[str, Any] = {"style": data.get("style", "task_state")}
        if data.get("span"):
            values["span"] = SpanReference.from_dict(data["span"])
        if data.get("current_task"):
            values["current_task"] = _entry_from(Note, data["current_task"])
        for name, entry_type in _ENTRY_TYPES.items():
            values[name] = tuple(_entry_from(entry_type, item) for item in data.get(name) or ())
        reserve = cls.from_dict(data["reserve"]) if data.get("reserve") else None
        mentions = tuple(Mentions(*item) for item in data.get("mentions") or ())
        return cls(**values, mentions=mentions, reserve=reserve)


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


def merge_spans(older: SpanReference | None, newer: SpanReference | None) -> SpanReference | None:
    """Return a span of the messages of both."""
    if older is None or newer is None:
        return older or newer
    ids = tuple(dict.fromkeys(older.message_ids + newer.message_ids))
    return SpanReference(ids, min(older.first_turn, newer.first_turn), max(older.last_turn, newer.last_turn))


def _add_mentions(older: Iterable[Mentions], newer: Iterable[Mentions]) -> tuple[Mentions, ...]:
    """Return the mentions of each fact in the messages of both summaries."""
    known = {mentions.key: mentions for mentions in older}
    for new in newer:
        old = known.get(new.key, Mentions(new.key))
        by_user = old.by_user or new.by_user
        known[new.key] = Mentions(
            new.key, old.said + new.said, old.shown + new.shown, old.messages + new.messages, by_user
        )
    return tuple(known.values())


def _union(older: Sequence[_E], newer: Sequence[_E]) -> tuple[_E, ...]:
    """Keep one entry per key: the later text in the earlier position, with the sources of both."""
    merged: dict[str, _E] = {}
    for entry in (*older, *newer):
        before = merged.get(entry.key)
        merged[entry.key] = entry if before is None else _merge_entries(before, entry)
    return tuple(merged.values())


def _merge_entries(before: Any, after: Any) -> Any:
    changes: dict[str, Any] = {"sources": tuple(dict.fromkeys(before.sources + after.sources))}
    if hasattr(after, "excerpts"):
        changes["excerpts"] = tuple(dict.fromkeys(before.excerpts + after.excerpts))
    if isinstance(after, ToolOutcome) and isinstance(before, ToolOutcome):
        changes["key_fields"] = {**before.key_fields, **after.key_fields}
    if isinstance(after, Entity) and not after.role:
        changes["role"] = before.role
    if isinstance(after, Note | OpenItem | Entity):
        # A repeated line keeps its original position.
        changes["order"] = before.order
    return replace(after, **changes)


def _supersede(older: Sequence[Decision], newer: Sequence[Decision]) -> tuple[Decision, ...]:
    """Replace earlier decisions with later ones on the same topic."""
    replaced_topics = {decision.topic for decision in newer if decision.topic}
    return _union([decision for decision in older if decision.topic not in replaced_topics], newer)
