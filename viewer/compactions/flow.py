"""The diagram of a compaction: the prompt before and after as two columns, connected by ribbons.

Pure. Heights are proportional to tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from viewer.compactions.ledger import Entry, Ledger, MessageAfter
from viewer.numbers import format_count

FLOW_WIDTH, FLOW_HEIGHT, COLUMN = 560.0, 460.0, 170.0
OVERHEAD = "overhead"
_MAX_PHONE_CHARS = 20

Extent = tuple[float, float]  # top and bottom


@dataclass(frozen=True, slots=True)
class Block:
    """Adjacent messages with the same fate, drawn as one box."""

    fate: str
    words: str
    tokens: int
    title: str
    y: float
    height: float

    @property
    def label(self) -> str:
        return f"{self.words} · {self.tokens:,}"

    @property
    def is_long(self) -> bool:
        """True if the label is wider than its block on a phone."""
        return len(self.label) > _MAX_PHONE_CHARS


@dataclass(frozen=True, slots=True)
class Ribbon:
    fate: str
    path: str
    title: str


@dataclass(frozen=True, slots=True)
class Totals:
    """The tokens of the prompt, of its messages, and of what is not a message, such as tool schemas."""

    prompt: int
    messages: int

    @property
    def overhead(self) -> int:
        return max(0, self.prompt - self.messages)

    @property
    def is_consistent(self) -> bool:
        """False if the messages alone are larger than the client says the whole prompt was."""
        return self.messages <= self.prompt


@dataclass(frozen=True, slots=True)
class Flow:
    """The diagram: the prompt before on the left, the prompt after on the right.

    The blocks of a side add up to its total.
    """

    before: list[Block]
    after: list[Block]
    ribbons: list[Ribbon]
    total_before: Totals
    total_after: Totals
    width: float = FLOW_WIDTH
    height: float = FLOW_HEIGHT
    column: float = COLUMN

    @property
    def after_x(self) -> float:
        return self.width - self.column

    @property
    def is_consistent(self) -> bool:
        return self.total_before.is_consistent and self.total_after.is_consistent


# More blocks would be thinner than a line, and would make the page slow.
MAX_BLOCKS = 150


def build_flow(ledger: Ledger, tokens_before: int, tokens_after: int | None) -> Flow:
    """Draw remaining messages straight across and summarized ones into the summary.

    `tokens_before` and `tokens_after` are the sizes of the whole prompt. What the messages do not explain is drawn as a
    block of its own.
    """
    before_total = Totals(tokens_before, ledger.tokens_before)
    after_total = Totals(ledger.tokens_after if tokens_after is None else tokens_after, ledger.tokens_after)
    sizes = (total.overhead + total.messages for total in (before_total, after_total))
    scale = (FLOW_HEIGHT - 2) / max(1, *sizes)
    left = _stack([entry.tokens for entry in ledger.entries], scale, before_total.overhead)
    right = _stack([message.tokens for message in ledger.after], scale, after_total.overhead)
    targets = {message.was: right[message.position] for message in ledger.after if message.was is not None}
    summary = next((right[message.position] for message in ledger.after if message.state == "new"), None)
    before, after = _overhead_blocks(before_total, scale), _overhead_blocks(after_total, scale)
    ribbons = _overhead_ribbon(before_total, after_total, scale)
    for bundle in _bundles(list(_runs(ledger.entries, targets)), left):
        source = left[bundle[0][0].position][0], left[bundle[-1][-1].position][1]
        block = _block_before(bundle, source)
        before.append(block)
        if target := _common_target(bundle, targets, summary):
            ribbons.append(Ribbon(block.fate, _path(source, target), block.title))
    for group in _groups(ledger.after):
        extent = right[group[0].position][0], right[group[-1].position][1]
        after.append(_block_after(group, ledger.entries, extent))
    return Flow(before, after, ribbons, before_total, after_total)


def _overhead_blocks(total: Totals, scale: float) -> list[Block]:
    if not total.overhead:
        return []
    title = f"Tool schemas and other overhead, {total.overhead:,} tokens"
    return [_block(OVERHEAD, OVERHEAD, total.overhead, title, (1.0, 1.0 + total.overhead * scale))]


def _overhead_ribbon(before: Totals, after: Totals, scale: float) -> list[Ribbon]:
    if not (before.overhead and after.overhead):
        return []
    source, target = ((1.0, 1.0 + total.overhead * scale) for total in (before, after))
    return [Ribbon(OVERHEAD, _path(source, target), "Tool schemas and other overhead")]


def _bundles(runs: list[list[Entry]], extents: Sequence[Extent]) -> list[list[list[Entry]]]:
    """Combine neighboring runs if each run would be thinner than a line."""
    if len(runs) <= MAX_BLOCKS:
        return [[run] for run in runs]
    bundles: list[list[list[Entry]]] = []
    end = 0.0
    for run in runs:
        if not bundles or extents[run[0].position][0] >= end:
            bundles.append([])
            end = extents[run[0].position][0] + FLOW_HEIGHT / MAX_BLOCKS
        bundles[-1].append(run)
    return bundles


def _block_before(bundle: list[list[Entry]], extent: Extent) -> Block:
    largest = max(bundle, key=lambda run: sum(entry.tokens for entry in run))
    fate, count = largest[0].fate, sum(map(len, bundle))
    tokens = sum(entry.tokens for run in bundle for entry in run)
    if len(bundle) > 1:
        title = f"{count:,} messages, mostly {fate}, {tokens:,} tokens"
        return _block(fate, f"{count:,} mixed", tokens, title, extent)
    title = f"{format_count(count, 'message')} {fate}, {tokens:,} tokens: {largest[0].rule}"
    return _block(fate, f"{count:,} {fate}", tokens, title, extent)


def _block_after(group: list[MessageAfter], entries: Sequence[Entry], extent: Extent) -> Block:
    is_new = group[0].state == "new"
    fate = "summarized" if is_new else entries[group[0].was or 0].fate
    words = "summary" if is_new else f"{len(group):,} {group[0].state}"
    tokens = sum(message.tokens for message in group)
    return _block(fate, words, tokens, f"{words}, {tokens:,} tokens", extent)


def _block(fate: str, words: str, tokens: int, title: str, extent: Extent) -> Block:
    top, bottom = extent
    return Block(fate, words, tokens, title, top, max(1.0, bottom - top))


def _common_target(bundle: list[list[Entry]], targets: Mapping[int, Extent], summary: Extent | None) -> Extent | None:
    """Return the extent of all places that the messages of a bundle went to, or None if they left the prompt."""
    ends = [end for run in bundle if (end := _target(run, targets, summary)) is not None]
    return (min(top for top, _ in ends), max(bottom for _, bottom in ends)) if ends else None


def _target(run: list[Entry], targets: Mapping[int, Extent], summary: Extent | None) -> Extent | None:
    """Return where a run of messages went: its own place, the summary, or nowhere."""
    if run[0].position in targets:
        return targets[run[0].position][0], targets[run[-1].position][1]
    return summary if run[0].fate == "summarized" else None


def _stack(sizes: Sequence[int], scale: float, overhead: int) -> list[Extent]:
    extents, top = [], 1.0 + overhead * scale
    for size in sizes:
        extents.append((top, top + size * scale))
        top += size * scale
    return extents


def _runs(entries: Sequence[Entry], targets: Mapping[int, Extent]) -> Iterable[list[Entry]]:
    """Split entries into runs that share a fate and stay adjacent."""
    run: list[Entry] = []
    for entry in entries:
        if run and not _is_adjacent(run[-1], entry, targets):
            yield run
            run = []
        run.append(entry)
    if run:
        yield run


def _is_adjacent(previous: Entry, entry: Entry, targets: Mapping[int, Extent]) -> bool:
    before, after = targets.get(previous.position), targets.get(entry.position)
    if previous.fate != entry.fate or (before is None) != (after is None):
        return False
    return before is None or after is None or abs(after[0] - before[1]) < 0.01


def _groups(after: Sequence[MessageAfter]) -> Iterable[list[MessageAfter]]:
    """Split the prompt after the compaction into groups with the same state. New messages stand alone."""
    group: list[MessageAfter] = []
    for message in after:
        if group and (group[-1].state != message.state or message.state == "new"):
            yield group
            group = []
        group.append(message)
    if group:
        yield group


def _path(source: Extent, target: Extent) -> str:
    (top, bottom), (to_top, to_bottom) = source, target
    x1, x2 = COLUMN, FLOW_WIDTH - COLUMN
    middle = (x1 + x2) / 2
    return (
        f"M{x1:.1f} {top:.1f}C{middle:.1f} {top:.1f} {middle:.1f} {to_top:.1f} {x2:.1f} {to_top:.1f}"
        f"L{x2:.1f} {to_bottom:.1f}C{middle:.1f} {to_bottom:.1f} {middle:.1f} {bottom:.1f} {x1:.1f} {bottom:.1f}Z"
    )
