"""The line of summaries v1 to vN: what each version added, changed and lost. Pure."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from viewer.compactions.ledger import rising
from viewer.kinds import SUMMARY
from viewer.numbers import to_count
from viewer.sessions.checks import Check

# How many summaries are shown before and after the one in question: each is compared with the one before it.
NEAR = 10
_MAX_HOLDERS = 32
_LIKE = 0.5
_SOURCE = re.compile(r"\[([A-Za-z0-9_.:-]+(?:,\s*[A-Za-z0-9_.:-]+)*)\]\s*$")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a summary against the version before it."""

    state: str  # same, added, changed, lost
    text: str
    was: str
    sources: tuple[str, ...]

    @property
    def is_heading(self) -> bool:
        return self.text.startswith("#")

    @property
    def is_tag(self) -> bool:
        """What marks the message as a summary; the model reads it, a person need not."""
        return self.text.startswith(("<COMPACT-SUMMARY", "[Summary v"))

    @property
    def words(self) -> str:
        """The line as it reads beside links to its sources."""
        return _SOURCE.sub("", self.text).lstrip("# ").rstrip()


def changes(old: str, new: str) -> list[Line]:
    """What the newer summary added, changed and lost, in its own order; lost lines stand where they stood.

    A line that only moved is the same line. Close to linear in the lines: summaries of hundreds are compared on a page.
    """
    before, after = _lines(old), _lines(new)
    was = _same_lines([_bare(line) for line in before], [_bare(line) for line in after])
    still_here = {at for at in was if at is not None}
    in_order = rising([at for at in was if at is not None])
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
    is_compared: bool

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


def near(compactions: Sequence[Check], number: int) -> list[tuple[int, Check]]:
    """Those around a compaction that made a summary, with their numbers, and one more to compare the first with."""
    made = [(n, check) for n, check in enumerate(compactions, 1) if check.span(SUMMARY)]
    at = sum(n < number for n, _ in made)
    return made[max(0, at - NEAR - 1) : at + NEAR + 1]


def versions(summarized: Sequence[tuple[int, Check]], payloads: Mapping[str, Any]) -> list[Version]:
    """The summaries of compactions with these numbers, each with what it added, changed and lost."""
    found: list[Version] = []
    for number, check in summarized:
        span = check.span(SUMMARY)
        payload = payloads.get(span.key) if span else None
        if span is None or not isinstance(payload, Mapping):
            continue
        text = str(payload.get("summary") or "")
        sources = _sources(payload.get("structured"))
        lines = changes(found[-1].text, text) if found else [_line("same", line) for line in _lines(text)]
        found.append(
            Version(
                number=number,
                version=to_count(span.data.get("version")) or number,
                tokens=to_count(span.data.get("summary_tokens")),
                input_tokens=to_count(span.data.get("input_tokens")),
                text=text,
                is_compared=bool(found),
                lines=[replace(line, sources=line.sources or sources.get(_bare(line.text), ())) for line in lines],
            )
        )
    return found


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
