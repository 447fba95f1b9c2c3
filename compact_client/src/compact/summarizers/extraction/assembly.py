"""Build a typed summary from selected lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from compact.messages.span import SpanReference
from compact.summarizers.extraction.coverage import HEADED, Candidate
from compact.summarizers.extraction.decision_context import Grounds
from compact.summarizers.extraction.line_classifier import is_error
from compact.summary.entries import Command, Decision, Entry, FileTouched, Note, OpenItem, ToolOutcome
from compact.summary.structured_summary import StructuredSummary


def assemble(
    kept: Iterable[Candidate],
    *,
    span: SpanReference | None,
    style: str,
    completed: Sequence[Note] = (),
    grounds: Grounds | None = None,
) -> StructuredSummary:
    """Lines as typed entries, in order of time; an excerpt joins its call where that was kept too."""
    fields: dict[str, list[Any]] = {}
    heads: dict[str, tuple[str, int]] = {}
    ordered = sorted(kept, key=lambda candidate: candidate.order)
    for candidate in ordered:
        if candidate.field in HEADED:
            name, entry = _headed(candidate)
            entries = fields.setdefault(name, [])
            if name == "files" and (known := heads.get(f"file:{entry.path}")) is not None:
                # A second change of the same file is one more line under it.
                before = entries[known[1]]
                entries[known[1]] = replace(
                    before,
                    excerpts=(*before.excerpts, entry.change or entry.path),
                    sources=tuple(dict.fromkeys(before.sources + entry.sources)),
                )
                heads[candidate.text] = known
                continue
            heads[candidate.text] = (name, len(entries))
            if name == "files":
                heads[f"file:{entry.path}"] = heads[candidate.text]
            entries.append(entry)
    for candidate in ordered:
        text, block = candidate.text, candidate.block
        if candidate.field in HEADED:
            continue
        head = heads.get(block.head) if block.head else None
        if head is not None and candidate.field in ("outputs", "errors"):
            entries = fields[head[0]]
            before = entries[head[1]]
            entries[head[1]] = replace(
                before,
                excerpts=(*before.excerpts, text),
                sources=tuple(dict.fromkeys(before.sources + block.sources)),
            )
            continue
        name, entry = _entry(candidate, grounds)
        if name == "facts" and block.kind == "output" and is_error(text):
            name = "errors"
        fields.setdefault(name, []).append(entry)
    *earlier, task = fields.pop("current_task", None) or [None]
    # A task that another one followed is still something the user asked for.
    fields["goals"] = [*earlier, *fields.get("goals", ())]
    values: dict[str, Any] = {name: tuple(entries) for name, entries in fields.items()}
    return StructuredSummary(span=span, style=style, current_task=task, completed=tuple(completed), **values)


def _headed(candidate: Candidate) -> tuple[str, Any]:
    text, sources, order = candidate.text, candidate.block.sources, candidate.order
    if candidate.block.entry is not None:
        bare: Any = candidate.block.entry
        return candidate.field, replace(bare, excerpts=(), order=order)
    if candidate.field == "commands":
        return "commands", Command(text, sources=sources, order=order)
    if candidate.field in ("files", "changes"):
        path, _, change = text.partition(": ")
        return "files", FileTouched(path, change, sources=sources, order=order)
    return "tool_outcomes", ToolOutcome(text.partition("(")[0], call=text, sources=sources, order=order)


def _entry(candidate: Candidate, grounds: Grounds | None) -> tuple[str, Entry]:
    text, block, field, order = candidate.text, candidate.block, candidate.field, candidate.order
    if block.entry is not None and field != "outputs":
        return field, replace(block.entry, order=order)
    if field == "decisions":
        decision = Decision.from_sentence(text, sources=block.sources, order=order)
        return field, replace(decision, **grounds.at(block.position)._asdict()) if grounds else decision
    if field == "open_items":
        return field, OpenItem(text, sources=block.sources, order=order)
    role = {"user": "user", "output": "tool", "code": "code"}.get(block.kind, "")
    if field in ("requests", "outputs"):
        field = "facts"
    return field, Note(text, block.sources, order, role)
