"""From lines to a typed summary within a budget, and from a summary back to lines that compete again.

The one guarantee: the rendered text of what comes out has at most `max_tokens` tokens by the given count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from compact.messages import Message
from compact.messages.span import SpanReference
from compact.summarizers.extraction.coverage import HEADED, Candidate, Reading, choose, missing_heads
from compact.summarizers.extraction.grounds import Grounds
from compact.summarizers.extraction.kinds import is_error
from compact.summarizers.extraction.lines import Block, Kind, read_blocks
from compact.summarizers.extraction.names import NAMES_SHARE, Names
from compact.summary.entries import Command, Decision, Entity, Entry, FileTouched, Note, OpenItem, ToolOutcome
from compact.summary.formats import SHOWN, entry_lines
from compact.summary.structured import READING_ORDER, StructuredSummary

CountTokens = Callable[[str], int]

_HEADS_SHARE: Final = 0.02  # room for the calls that chosen lines of output answer
_NAME_TOKENS: Final = 2  # of a short one: leaving out as many as that says reaches the budget in a step or two
_MARK_TOKENS: Final = 1.5  # newline and, for some, a mark
_HEADROOM: Final = 1.15  # lines are chosen by estimate; a few too many are chosen and the last ones dropped by count
_LINE_KINDS: Final[dict[str, Kind]] = {
    "current_task": "user",
    "goals": "user",
    "constraints": "user",
    "requests": "user",
    "files": "edit",
    "commands": "command",
    "tool_outcomes": "call",
}
_ROLE_KINDS: Final[dict[str, Kind]] = {"user": "user", "tool": "output", "code": "code"}


def estimate_tokens(text: str) -> int:
    """A count that needs no vocabulary: a little high on prose, about right on code and ids."""
    return round(len(text.encode("utf-8", "replace")) / 3.3) + 1


def fit(
    summary: StructuredSummary,
    *,
    max_tokens: int,
    visible: Sequence[Message] = (),
    count_tokens: CountTokens | None = None,
    keep_keys: Sequence[str] = (),
) -> StructuredSummary:
    """The summary cut to a budget: the lines worth most stay, word for word."""
    count = count_tokens or estimate_tokens
    if count(summary.render(version=999)) <= max_tokens:
        return summary
    reading = Reading(keep_keys, said=summary.said)
    reading.add(summary_blocks(summary))
    reading.add_visible(read_blocks(visible))
    return select(reading, span=summary.span, style=summary.style, max_tokens=max_tokens, count_tokens=count)


def select(
    reading: Reading,
    *,
    span: SpanReference | None,
    style: str,
    max_tokens: int,
    count_tokens: CountTokens,
    completed: Sequence[Note] = (),
    grounds: Grounds | None = None,
) -> StructuredSummary:
    """The best typed summary of what was read whose text fits."""
    choice = choose(reading, max_tokens * _HEADROOM)
    full = max_tokens - count_tokens(StructuredSummary(style=style).render(version=999)) - 1
    text = "\n".join(candidate.text for candidate in choice.chosen)
    tokens_per_char = count_tokens(text) / max(1, len(text))
    names = Names(reading, choice.chances)
    room = full * (1.0 - _HEADS_SHARE)
    room -= names.room(_prefix(choice.chosen, room - full * NAMES_SHARE, tokens_per_char), full)
    while True:
        kept = _prefix(choice.chosen, room, tokens_per_char)
        kept += _prefix(missing_heads(reading, kept), max_tokens * _HEADS_SHARE, tokens_per_char)
        summary = assemble(kept, span=span, style=style, completed=completed, grounds=grounds)
        used = count_tokens(summary.render(version=999))
        if used <= max_tokens or not kept:
            break
        # Headings and joins cost a little more than their lines: ask for less by as much as it was over, and a token.
        room -= used - max_tokens + 1
    summary = replace(summary, said=names.said_elsewhere(kept))
    listed = names.listed(kept, max_tokens - used, count_tokens)
    while listed:
        named = replace(summary, entities=(*summary.entities, *listed))
        over = count_tokens(named.render(version=999)) - max_tokens
        if over <= 0:
            return named
        listed = listed[: -max(1, over // _NAME_TOKENS)]
    return summary


def _prefix(chosen: Sequence[Candidate], room: float, tokens_per_char: float) -> list[Candidate]:
    kept: list[Candidate] = []
    for candidate in chosen:
        tokens = len(candidate.text) * tokens_per_char + (_MARK_TOKENS if candidate.field != "entities" else 0.0)
        if tokens <= room:
            room -= tokens
            kept.append(candidate)
    return kept


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


class Passage(Sequence[Message]):
    """Messages that are read once, however many ask for their lines."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = tuple(messages)

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, place: Any) -> Any:
        return self._messages[place]

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        return tuple(_message_blocks(self._messages))


def blocks_of(messages: Sequence[Message]) -> Sequence[Block]:
    """The lines of messages, read now unless they were read before."""
    return messages.blocks if isinstance(messages, Passage) else tuple(_message_blocks(messages))


def _message_blocks(messages: Sequence[Message]) -> Iterator[Block]:
    """Lines of messages; an earlier summary among them gives its own entries, not a reading of its text."""
    for index, message in enumerate(messages):
        earlier = StructuredSummary.parse(message.text) if message.is_summary else None
        if earlier is None:
            continue
        # Rare: at most one earlier summary stands in a history, so the slices are taken once or twice.
        yield from read_blocks(messages[:index])
        for block in summary_blocks(earlier):
            yield block._replace(position=index, sources=block.sources or ((message.id,) if message.id else ()))
        for block in _message_blocks(messages[index + 1 :]):
            yield block._replace(position=block.position + index + 1)
        return
    yield from read_blocks(messages)


def summary_blocks(summary: StructuredSummary) -> Iterator[Block]:
    """The lines of a summary, each with its entry, so that they can compete with new ones as they stand."""
    found: list[tuple[int, str, Entry]] = []
    for name in READING_ORDER:
        value = getattr(summary, name)
        entries = ([value] if value is not None else []) if name == "current_task" else value
        found += [(entry.order, name, entry) for entry in entries]
    found.sort(key=lambda item: item[0])
    for order, name, entry in found:
        yield from _entry_blocks(order, name, entry)


def _entry_blocks(order: int, name: str, entry: Entry) -> Iterator[Block]:
    head = _head_text(entry)
    kind = _LINE_KINDS.get(name, "prose")
    if isinstance(entry, Note) and name == "facts" and entry.role:
        kind = _ROLE_KINDS.get(entry.role, "prose")
    elif isinstance(entry, Entity) and entry.role.startswith(SHOWN):
        kind = "output"
    yield Block((head,), kind, entry.sources, order, entry=entry, field=name)
    if excerpts := getattr(entry, "excerpts", ()):
        excerpt_kind: Kind = "code" if name == "files" else "output"
        yield Block(excerpts, excerpt_kind, entry.sources, order, head, field="outputs")


def _head_text(entry: Entry) -> str:
    if isinstance(entry, Entity):
        return entry.name
    line = entry_lines(entry)[0]
    return line.removeprefix("- ")
