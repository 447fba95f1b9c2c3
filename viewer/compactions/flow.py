"""The picture of a compaction: the prompt before and after as two columns, and what went where. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from viewer.compactions.ledger import After, Entry, Ledger

FLOW_WIDTH, FLOW_HEIGHT, COLUMN = 560.0, 460.0, 150.0


@dataclass(frozen=True, slots=True)
class Block:
    """A run of neighbours with one fate, as a box of the picture."""

    fate: str
    label: str
    title: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Ribbon:
    fate: str
    path: str
    title: str


@dataclass(frozen=True, slots=True)
class Flow:
    """The picture of a compaction: the prompt before at the left, after at the right, and what went where."""

    before: list[Block]
    after: list[Block]
    ribbons: list[Ribbon]
    width: float = FLOW_WIDTH
    height: float = FLOW_HEIGHT
    column: float = COLUMN

    @property
    def after_x(self) -> float:
        return self.width - self.column


def flow(found: Ledger) -> Flow:
    """Heights are tokens; a message that stays runs straight across, a summarised one into the summary."""
    scale = (FLOW_HEIGHT - 2) / max(1, found.tokens_before, found.tokens_after)
    left = _stack([entry.tokens for entry in found.entries], scale)
    right = _stack([message.tokens for message in found.after], scale)
    place = {message.was: right[message.position] for message in found.after if message.was is not None}
    summary = next((right[m.position] for m in found.after if m.state == "new"), None)
    before, ribbons = [], []
    for run in _runs(found.entries, place):
        top, bottom = left[run[0].position][0], left[run[-1].position][1]
        fate = run[0].fate
        size = sum(entry.tokens for entry in run)
        noun = "message" if len(run) == 1 else "messages"
        title = f"{len(run)} {noun} {fate}, {size:,} tokens: {run[0].rule}"
        before.append(Block(fate, f"{len(run)} {fate}", title, top, max(1.0, bottom - top)))
        if run[0].position in place:
            ribbons.append(
                Ribbon(fate, _ribbon(top, bottom, place[run[0].position][0], place[run[-1].position][1]), title)
            )
        elif fate == "summarized" and summary:
            ribbons.append(Ribbon(fate, _ribbon(top, bottom, *summary), title))
    after = []
    for group in _grouped(found.after):
        top, bottom = right[group[0].position][0], right[group[-1].position][1]
        is_new = group[0].state == "new"
        fate = "summarized" if is_new else found.entries[group[0].was or 0].fate
        words = "summary" if is_new else f"{len(group)} {group[0].state}"
        title = f"{words}, {sum(message.tokens for message in group):,} tokens"
        after.append(Block(fate, words, title, top, max(1.0, bottom - top)))
    return Flow(before, after, ribbons)


def _stack(sizes: Sequence[int], scale: float) -> list[tuple[float, float]]:
    edges, at = [], 1.0
    for size in sizes:
        edges.append((at, at + size * scale))
        at += size * scale
    return edges


def _runs(entries: Sequence[Entry], place: Mapping[int, tuple[float, float]]) -> Iterable[list[Entry]]:
    """Neighbours that share a fate and stay neighbours."""
    run: list[Entry] = []
    for entry in entries:
        together = (
            bool(run)
            and run[-1].fate == entry.fate
            and (entry.position in place) == (run[-1].position in place)
            and (entry.position not in place or abs(place[entry.position][0] - place[run[-1].position][1]) < 0.01)
        )
        if run and not together:
            yield run
            run = []
        run.append(entry)
    if run:
        yield run


def _grouped(after: Sequence[After]) -> Iterable[list[After]]:
    group: list[After] = []
    for message in after:
        if group and (group[-1].state != message.state or message.state == "new"):
            yield group
            group = []
        group.append(message)
    if group:
        yield group


def _ribbon(top: float, bottom: float, to_top: float, to_bottom: float) -> str:
    x1, x2 = COLUMN, FLOW_WIDTH - COLUMN
    middle = (x1 + x2) / 2
    return (
        f"M{x1:.1f} {top:.1f}C{middle:.1f} {top:.1f} {middle:.1f} {to_top:.1f} {x2:.1f} {to_top:.1f}"
        f"L{x2:.1f} {to_bottom:.1f}C{middle:.1f} {to_bottom:.1f} {middle:.1f} {bottom:.1f} {x1:.1f} {bottom:.1f}Z"
    )
