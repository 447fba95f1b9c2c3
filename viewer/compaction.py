"""One compaction taken apart: the fate of each message, the prompt before and after, what the summary became.

Pure: everything comes from the payloads of the compaction's own spans, so the same spans give the same page.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from viewer.reducer import PRUNED, SUMMARY, Check, SpanRow, whole

FATES = ("pinned", "kept", "summarized", "truncated", "cleared", "externalized", "dropped")
STAYS = frozenset({"pinned", "kept", "truncated"})
FLOW_WIDTH, FLOW_HEIGHT, COLUMN = 560.0, 460.0, 150.0
_MAX_ROWS = 5_000
_MAX_HOLDERS = 32
_LIKE = 0.5
_SOURCE = re.compile(r"\[([A-Za-z0-9_.:-]+(?:,\s*[A-Za-z0-9_.:-]+)*)\]\s*$")


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of the prompt and what became of it."""

    position: int
    id: str
    hash: str
    role: str
    tokens: int
    fate: str
    rule: str
    into: str

    @property
    def stays(self) -> bool:
        return self.fate in STAYS


@dataclass(frozen=True, slots=True)
class After:
    """One message of the prompt as it was sent afterwards."""

    position: int
    id: str
    hash: str
    role: str
    tokens: int
    state: str  # unchanged, moved, changed, new
    was: int | None


@dataclass(frozen=True, slots=True)
class Ledger:
    entries: list[Entry]
    after: list[After]
    is_cut: bool = False

    @property
    def counts(self) -> list[tuple[str, int, int]]:
        """Each fate that occurs: its messages and their tokens."""
        rows = [(fate, [e for e in self.entries if e.fate == fate]) for fate in self.fates]
        return [(fate, len(found), sum(e.tokens for e in found)) for fate, found in rows if found]

    @property
    def fates(self) -> list[str]:
        known = [fate for fate in FATES if any(e.fate == fate for e in self.entries)]
        return known + sorted({e.fate for e in self.entries} - set(FATES))

    @property
    def moved(self) -> list[After]:
        return [message for message in self.after if message.state == "moved"]

    @property
    def tokens_before(self) -> int:
        return sum(entry.tokens for entry in self.entries)

    @property
    def tokens_after(self) -> int:
        return sum(message.tokens for message in self.after)


def ledger(payload: Any) -> Ledger:
    """The ledger of a `compact.pruned_messages` payload; what is not one gives an empty ledger."""
    content = payload if isinstance(payload, Mapping) else {}
    rows = [row for row in _list(content.get("ledger")) if isinstance(row, Mapping)]
    entries = [
        Entry(
            position=position,
            id=str(row.get("id", "")),
            hash=str(row.get("hash", "")),
            role=str(row.get("role", "")),
            tokens=whole(row.get("tokens")),
            fate=str(row.get("fate", "")),
            rule=str(row.get("rule", "")),
            into=str(row.get("into") or ""),
        )
        for position, row in enumerate(rows[:_MAX_ROWS])
    ]
    return Ledger(entries, _after(entries, _list(content.get("after"))[:_MAX_ROWS]), len(rows) > _MAX_ROWS)


def _after(entries: Sequence[Entry], rows: Sequence[Any]) -> list[After]:
    by_id = {entry.id: entry for entry in entries if entry.id}
    by_hash = {entry.hash: entry for entry in entries if entry.hash}
    found = [
        (row, by_id.get(str(row.get("id", ""))) or by_hash.get(str(row.get("hash", ""))))
        for row in rows
        if isinstance(row, Mapping)
    ]
    in_order = _rising([entry.position for _, entry in found if entry is not None])
    after = []
    for position, (row, entry) in enumerate(found):
        if entry is None:
            state = "new"
        elif entry.position not in in_order:
            state = "moved"
        else:
            state = "unchanged" if entry.hash == str(row.get("hash", "")) else "changed"
        after.append(
            After(
                position=position,
                id=str(row.get("id", "")),
                hash=str(row.get("hash", "")),
                role=str(row.get("role", "")),
                tokens=whole(row.get("tokens")),
                state=state,
                was=entry.position if entry else None,
            )
        )
    return after


def _rising(positions: Sequence[int]) -> set[int]:
    """The longest rising run of positions: what is in it kept its order, the rest was moved."""
    tails: list[int] = []
    before: dict[int, int | None] = {}
    for position in positions:
        low, high = 0, len(tails)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if tails[middle] < position else (low, middle)
        before[position] = tails[low - 1] if low else None
        tails[low : low + 1] = [position]
    kept: set[int] = set()
    at = tails[-1] if tails else None
    while at is not None:
        kept.add(at)
        at = before[at]
    return kept


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


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a summary against the version before it."""

    state: str  # same, added, changed, lost
    text: str
    was: str
    sources: tuple[str, ...]


def changes(old: str, new: str) -> list[Line]:
    """What the newer summary added, changed and lost, in its own order; lost lines stand where they stood.

    A line that only moved is the same line. Close to linear in the lines: summaries of hundreds are compared on a page.
    """
    before, after = _lines(old), _lines(new)
    was = _same_lines([_bare(line) for line in before], [_bare(line) for line in after])
    still_here = {at for at in was if at is not None}
    in_order = _rising([at for at in was if at is not None])
    out: list[Line] = []
    i = j = 0
    # What stands between two lines that kept their order is compared; the end counts as such a line.
    for stop, at in [*((k, at) for k, at in enumerate(was) if at in in_order), (len(after), len(before))]:
        assert at is not None
        gone = [line for k, line in enumerate(before[i:at], i) if k not in still_here]
        out.extend(_compared(gone, after[j:stop], was[j:stop]))
        out.extend(_line("same", line) for line in after[stop : stop + 1])
        i, j = at + 1, stop + 1
    return out


def _same_lines(before: Sequence[str], after: Sequence[str]) -> list[int | None]:
    """For each line of `after` the place of its equal in `before`; each place is used once."""
    places: dict[str, deque[int]] = {}
    for at, line in enumerate(before):
        places.setdefault(line, deque()).append(at)
    return [found.popleft() if (found := places.get(line)) else None for line in after]


def _compared(gone: list[str], came: Sequence[str], was: Sequence[int | None]) -> list[Line]:
    """Each new line is a changed old one if enough of its words are, else added; old ones left over are lost."""
    words = [_words(line) for line in gone]
    holders: dict[str, list[int]] = {}
    for k, found in enumerate(words):
        for word in found:
            holders.setdefault(word, []).append(k)
    left = dict.fromkeys(range(len(gone)))
    out: list[Line] = []
    for line, place in zip(came, was, strict=True):
        if place is not None:
            out.append(_line("same", line))
            continue
        mine = _words(line)
        # Of a word that stands in many lines the first few are enough: it says little about which line this was.
        near = Counter(k for word in mine for k in holders.get(word, ())[:_MAX_HOLDERS] if k in left)
        best = max((k for k, _ in near.most_common(8)), key=lambda k: _likeness(words[k], mine), default=None)
        if best is not None and _likeness(words[best], mine) >= _LIKE:
            del left[best]
            out.append(_line("changed", line, was=gone[best]))
        else:
            out.append(_line("added", line))
    return out + [_line("lost", gone[k]) for k in left]


@dataclass(frozen=True, slots=True)
class Version:
    """One summary in the line of summaries, against the one before it."""

    number: int  # of its compaction
    version: int
    tokens: int
    input_tokens: int
    text: str
    lines: list[Line]

    def count(self, state: str) -> int:
        return sum(line.state == state for line in self.lines)

    @property
    def added(self) -> int:
        return self.count("added")

    @property
    def changed(self) -> int:
        return self.count("changed")

    @property
    def lost(self) -> int:
        return self.count("lost")

    @property
    def drift(self) -> float:
        """The share of lines that are not as they were."""
        return 1 - self.count("same") / len(self.lines) if self.lines else 0.0


def versions(compactions: Sequence[Check], payloads: Mapping[str, Any]) -> list[Version]:
    """v1 to vN, each with what it added, changed and lost."""
    found: list[Version] = []
    for number, check in enumerate(compactions, 1):
        span = check.of(SUMMARY)
        payload = payloads.get(span.key) if span else None
        if span is None or not isinstance(payload, Mapping):
            continue
        text = str(payload.get("summary") or "")
        sources = _sources(payload.get("structured"))
        lines = changes(found[-1].text, text) if found else [_line("same", line) for line in _lines(text)]
        found.append(
            Version(
                number=number,
                version=whole(span.data.get("version")) or len(found) + 1,
                tokens=whole(span.data.get("summary_tokens")),
                input_tokens=whole(span.data.get("input_tokens")),
                text=text,
                lines=[replace(line, sources=line.sources or sources.get(_bare(line.text), ())) for line in lines],
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class CacheEffect:
    """What a compaction cost and what it saved since."""

    freed: int
    invalidated: int
    break_even: int | None
    calls: int
    latency_ms: float | None
    sentence: str


def cache_effect(check: Check, calls: int) -> CacheEffect:
    freed = max(0, check.before - (check.after if check.after is not None else check.before))
    cache = check.value("cache", PRUNED)
    invalidated = whole(cache.get("invalidated_tokens")) if isinstance(cache, Mapping) else 0
    break_even = cache.get("break_even_calls") if isinstance(cache, Mapping) else None
    latency = check.value("latency_ms", SUMMARY)
    told = f"Each later prompt is {freed:,} tokens smaller."
    if invalidated:
        told += f" {invalidated:,} tokens fell out of the provider's prompt cache and were sent anew."
    if isinstance(break_even, int | float):
        needed = int(break_even)
        done = f"{calls} so far: it has." if calls >= needed else f"{calls} so far: not yet."
        told += f" It pays for itself after {needed} {'call' if needed == 1 else 'calls'}; {done}"
    return CacheEffect(
        freed=freed,
        invalidated=invalidated,
        break_even=int(break_even) if isinstance(break_even, int | float) else None,
        calls=calls,
        latency_ms=float(latency) if isinstance(latency, int | float) else None,
        sentence=told,
    )


def rehydrations(spans: Iterable[SpanRow], check: Check) -> list[SpanRow]:
    """What was brought back, or asked for in vain, after this compaction."""
    kinds = {"compact.rehydrated", "compact.rehydration_blocked", "compact.quality"}
    since = check.ended_at or check.started_at
    return [span for span in spans if span.kind in kinds and since and span.started_at and span.started_at >= since][
        :50
    ]


def _sources(structured: Any) -> dict[str, tuple[str, ...]]:
    """Which messages each entry of a structured summary came from, by the entry's own words."""
    found: dict[str, tuple[str, ...]] = {}
    for entries in structured.values() if isinstance(structured, Mapping) else ():
        for entry in entries if isinstance(entries, list) else [entries]:
            ids = entry.get("sources") if isinstance(entry, Mapping) else None
            if not isinstance(ids, list) or not ids:
                continue
            named = tuple(str(source) for source in ids[:6])
            for value in entry.values():
                if isinstance(value, str) and len(value) > 3:
                    found.setdefault(_bare(value), named)
    return found


def _line(state: str, text: str, *, was: str = "") -> Line:
    found = _SOURCE.search(text)
    sources = tuple(part.strip() for part in found.group(1).split(",")) if found else ()
    return Line(state, text, was, sources)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def _bare(line: str) -> str:
    """Without its sources and its version, which change though nothing was said."""
    return re.sub(r"\bv\d+\b", "v", _SOURCE.sub("", line)).strip().lstrip("-*>| ").lower()


def _words(line: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", _bare(line)))


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """The share of words that two lines have in common."""
    return 2 * len(one & other) / (len(one) + len(other)) if one or other else 0.0


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
