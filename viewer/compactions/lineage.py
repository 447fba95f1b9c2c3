"""The versions of a session's summary, each compared with the one before it. Pure."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from compact.reading.parts import strip_summary_marks

from viewer.compactions.ledger import longest_increasing
from viewer.kinds import SUMMARY
from viewer.numbers import to_count
from viewer.sessions.checks import Check
from viewer.sessions.spans import SpanRow

# Versions that are shown before and after the current one.
MAX_NEIGHBORS = 10
# A word that is in many lines says little about which line changed.
_MAX_LINES_PER_WORD = 32
_MAX_CANDIDATES = 8
_MIN_SIMILARITY = 0.5
_MAX_SOURCES = 6
UNDISCLOSED = "The provider does not disclose this summary"
_ITEM = re.compile(r"^[-*] ")
_SOURCES = re.compile(r"\[([A-Za-z0-9_.:-]+(?:,\s*[A-Za-z0-9_.:-]+)*)\]\s*$")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a summary compared with the previous version."""

    state: str  # same, added, edited, removed
    text: str
    was: str
    sources: tuple[str, ...]  # ids of messages

    @property
    def is_heading(self) -> bool:
        return self.text.startswith("#")

    @property
    def is_indented(self) -> bool:
        """True for a line that belongs to the one above it, such as a record that another one contains."""
        return self.text.startswith(" ")

    @property
    def words(self) -> str:
        """The text without its heading marks and sources, which the page shows as links."""
        return _strip_marks(self.text)

    @property
    def was_words(self) -> str:
        return _strip_marks(self.was)


@lru_cache(maxsize=32)
def diff_summaries(old: str, new: str) -> tuple[Line, ...]:
    """Return the lines of the new summary and, at their old places, the lines that were removed.

    A line that only moved is the same line. The run time is close to linear, so that summaries of hundreds of lines
    can be compared on a page.
    """
    before, after = _split_lines(old), _split_lines(new)
    origins = _match_lines([_normalize(line) for line in before], [_normalize(line) for line in after])
    moves = [(at, origin) for at, origin in enumerate(origins) if origin is not None]
    remaining = [origin for _, origin in moves]
    in_order = longest_increasing(remaining)
    # Lines that kept their order are anchors. Compare the lines between two anchors. The end counts as an anchor.
    anchors = [move for move in moves if move[1] in in_order]
    removed_indexes = set(range(len(before))).difference(remaining)
    lines: list[Line] = []
    old_at = new_at = 0
    for at, origin in [*anchors, (len(after), len(before))]:
        removed = [before[index] for index in sorted(removed_indexes.intersection(range(old_at, origin)))]
        lines.extend(_diff_block(removed, after[new_at:at], origins[new_at:at]))
        lines.extend(_line("same", line) for line in after[at : at + 1])
        old_at, new_at = origin + 1, at + 1
    return tuple(lines)


def _match_lines(before: Sequence[str], after: Sequence[str]) -> list[int | None]:
    """Return for each line of `after` the index of an equal line of `before`. Each index is used once."""
    indexes: dict[str, deque[int]] = {}
    for at, line in enumerate(before):
        indexes.setdefault(line, deque()).append(at)
    return [equal.popleft() if (equal := indexes.get(line)) else None for line in after]


def _index_words(lines: Sequence[Collection[str]]) -> dict[str, list[int]]:
    """Return the indexes of the lines that have each word."""
    lines_of_word: dict[str, list[int]] = {}
    for index, words in enumerate(lines):
        for word in words:
            lines_of_word.setdefault(word, []).append(index)
    return lines_of_word


def _diff_block(removed: list[str], new: Sequence[str], origins: Sequence[int | None]) -> list[Line]:
    """Match each new line with the most similar removed one. Unmatched new lines were added."""
    words = [_words(line) for line in removed]
    lines_of_word = _index_words(words)
    unmatched = dict.fromkeys(range(len(removed)))
    lines: list[Line] = []
    for line, origin in zip(new, origins, strict=True):
        if origin is not None:
            lines.append(_line("same", line))
            continue
        own = _words(line)
        candidates = Counter(
            index for word in own for index in lines_of_word.get(word, ())[:_MAX_LINES_PER_WORD] if index in unmatched
        )
        similarity = {index: _similarity(words[index], own) for index, _ in candidates.most_common(_MAX_CANDIDATES)}
        best = max(similarity, key=similarity.__getitem__, default=None)
        if best is not None and similarity[best] >= _MIN_SIMILARITY:
            del unmatched[best]
            lines.append(_line("edited", line, was=removed[best]))
        else:
            lines.append(_line("added", line))
    return lines + [_line("removed", removed[index]) for index in unmatched]


@dataclass(frozen=True, slots=True)
class Version:
    """One version of the summary compared with the previous one."""

    number: int  # of its compaction
    version: int
    tokens: int
    input_tokens: int
    text: str
    lines: Sequence[Line]
    is_compared: bool
    is_disclosed: bool = True
    omitted: str = ""
    """The reason why the text is missing, if the client or the server left it out."""
    original_bytes: int = 0
    """Size of the event before its longest texts were truncated, 0 if the text is complete."""

    def count(self, state: str) -> int:
        return sum(line.state == state for line in self.lines)

    @property
    def added(self) -> int:
        return self.count("added")

    @property
    def edited(self) -> int:
        return self.count("edited")

    @property
    def removed(self) -> int:
        return self.count("removed")


@dataclass(frozen=True, slots=True)
class VersionLink:
    """A version of the summary that the page links to."""

    number: int  # of its compaction
    version: int
    tokens: int


def version_links(compactions: Sequence[Check], number: int) -> list[VersionLink]:
    """Return the versions of the summary around compaction `number`. Their texts are not needed."""
    summarized = [(n, span) for n, check in enumerate(compactions, 1) if (span := check.span(SUMMARY))]
    at = sum(n < number for n, _ in summarized)
    return [
        VersionLink(n, to_count(span.data.get("version")) or n, to_count(span.data.get("summary_tokens")))
        for n, span in summarized[max(0, at - MAX_NEIGHBORS) : at + MAX_NEIGHBORS + 1]
    ]


def previous_summary(compactions: Sequence[Check], number: int) -> Check | None:
    """Return the last compaction before `number` that wrote a summary."""
    return next((check for check in reversed(compactions[: number - 1]) if check.span(SUMMARY)), None)


def summary_version(number: int, span: SpanRow, payload: Any, previous: Any) -> Version | None:
    """Return the summary in `payload`, compared with the one in `previous`. Both are payloads of spans."""
    if not isinstance(payload, Mapping):
        return None
    text = summary_text(payload)
    is_disclosed = text.strip().rstrip(".") != UNDISCLOSED
    sources = _parse_sources(payload.get("structured"))
    is_compared = is_disclosed and isinstance(previous, Mapping)
    lines = (
        diff_summaries(summary_text(previous), text) if is_compared else [_line("same", t) for t in _split_lines(text)]
    )
    return Version(
        number=number,
        version=to_count(span.data.get("version")) or number,
        tokens=to_count(span.data.get("summary_tokens")),
        input_tokens=to_count(span.data.get("input_tokens")),
        text=text,
        is_disclosed=is_disclosed,
        is_compared=is_compared,
        omitted="" if text else str(payload.get("omitted") or ""),
        original_bytes=_original_bytes(payload),
        lines=[replace(line, sources=line.sources or sources.get(_normalize(line.text), ())) for line in lines],
    )


def summary_text(payload: Any) -> str:
    return str(payload.get("summary") or "") if isinstance(payload, Mapping) else ""


def _original_bytes(payload: Mapping[str, Any]) -> int:
    truncated = payload.get("truncated")
    return to_count(truncated.get("original_bytes")) if isinstance(truncated, Mapping) else 0


def _parse_sources(structured: Any) -> dict[str, tuple[str, ...]]:
    """Return the source messages of each entry in a structured summary, by the normalized text of the entry."""
    sources: dict[str, tuple[str, ...]] = {}
    for entries in structured.values() if isinstance(structured, Mapping) else ():
        for entry in entries if isinstance(entries, list) else [entries]:
            ids = entry.get("sources") if isinstance(entry, Mapping) else None
            if not isinstance(ids, list) or not ids:
                continue
            names = tuple(str(source) for source in ids[:_MAX_SOURCES])
            for value in entry.values():
                if isinstance(value, str) and len(value) > 3:
                    # A record stands below its parent, so its line does not name it again.
                    text = value.replace(f" ({entry.get('parent')})", "", 1)
                    sources.setdefault(_normalize(text), names)
    return sources


def _line(state: str, text: str, *, was: str = "") -> Line:
    match = _SOURCES.search(text)
    sources = tuple(part.strip() for part in match.group(1).split(",")) if match else ()
    return Line(state, text, was, sources)


def _split_lines(text: str) -> list[str]:
    return [line.rstrip() for line in strip_summary_marks(text).splitlines() if line.strip()]


def _strip_marks(text: str) -> str:
    # A list item begins with a bullet. A hyphen would look like the sign of a removed line.
    return _ITEM.sub("• ", _SOURCES.sub("", text).lstrip("# ").rstrip())


def _normalize(line: str) -> str:
    """Remove sources and version numbers, which change even if the text does not."""
    return re.sub(r"\bv\d+\b", "v", _SOURCES.sub("", line)).strip().lstrip("-*>| ").lower()


def _words(line: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", _normalize(line)))


def _similarity(a: frozenset[str], b: frozenset[str]) -> float:
    """Return the fraction of words that two lines have in common."""
    return 2 * len(a & b) / (len(a) + len(b)) if a or b else 0.0
