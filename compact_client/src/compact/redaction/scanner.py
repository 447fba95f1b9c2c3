"""Apply all rules to a text, in linear time.

The prefilter says where a rule can match. Places that are close together are searched as one range, so that the cost of
a text with many such places is the cost of one search through it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from compact.redaction.findings import Span, is_masked
from compact.redaction.normalization import normalize
from compact.redaction.prefilter import NORMALIZE, AdaptivePrefilter, Hit, Prefilter, create_prefilter
from compact.redaction.rules import Rule

_MAX_ANCHOR_CHARS = 16


class Scanner:
    """Finds the matches of rules in a text."""

    def __init__(self, rules: Sequence[Rule], prefilter: Prefilter | None = None) -> None:
        self._rules = tuple(rules)
        self._prefilter = prefilter or create_prefilter(self._rules)

    def warm_up(self) -> None:
        """Compile the fast prefilter now, if there is one."""
        if isinstance(self._prefilter, AdaptivePrefilter):
            self._prefilter.warm_up()

    def spans(
        self,
        text: str,
        disabled: Collection[int] = (),
        ranges: Sequence[tuple[int, int]] | None = None,
        parts: Sequence[str] = (),
    ) -> list[Span]:
        """Return the secret of each match that is not masked yet. Spans may overlap. Disabled rules find nothing.

        With `ranges`, only these parts of the text are searched. A match may extend beyond them. `parts` is the text
        without its boundaries.
        """
        hits = self._prefilter.hits(text, parts) if ranges is None else self._hits_in(text, ranges)
        if not hits:
            return []
        spans = list(self._spans(text, hits, disabled))
        if hits[0][0] == NORMALIZE and (normalized := normalize(text)) is not None:
            hidden = self._spans(normalized.text, self._prefilter.hits(normalized.text), disabled)
            spans += map(normalized.original, hidden)
        return spans

    def _hits_in(self, text: str, ranges: Sequence[tuple[int, int]]) -> list[Hit]:
        hits = [
            (index, position + start if position >= 0 else position)
            for start, end in ranges
            for index, position in self._prefilter.hits(text[start:end])
        ]
        hits.sort()
        return hits

    def _spans(
        self, text: str, hits: list[Hit], disabled: Collection[int] = (), *, is_decoded: bool = False
    ) -> Iterator[Span]:
        for index, places in groupby(hits, key=itemgetter(0)):
            if index == NORMALIZE or index in disabled:
                continue
            rule = self._rules[index]
            if rule.decode is None or not is_decoded:
                yield from self._rule_spans(text, rule, places)

    def _rule_spans(self, text: str, rule: Rule, hits: Iterator[Hit]) -> Iterator[Span]:
        resume = 0
        for start, end in _ranges(hits, rule.reach, len(text)):
            position = max(start, resume)
            while position < end and (match := _next_match(text, rule, position, end)) is not None:
                spans = self._check_match(match, rule)
                yield from spans
                if spans or rule.is_whole:
                    position = resume = max(match.end(), spans[-1].end if spans else 0)
                else:
                    position = match.start() + 1

    def _check_match(self, match: re.Match[str], rule: Rule) -> list[Span]:
        """Return the spans of a match, or nothing if it is no secret."""
        if rule.accepts is not None and not rule.accepts(match):
            return []
        if rule.decode is not None and not self._has_secret(rule.decode(match)):
            return []
        if rule.spans is not None:
            places = rule.spans(match)
        else:
            places = [match.span("secret" if "secret" in match.re.groupindex else 0)]
        text, groups = match.string, match.re.groupindex
        # `"pin": 1234` in a text must stay valid JSON, also if its quotes are escaped.
        quote = (match["keyquote"] or "").rstrip("]") if "keyquote" in groups and match["bare"] is not None else ""
        return [
            Span(start, end, rule.name, rule.kind, quote)
            for start, end in places
            if start < end and not is_masked(text, start, end)
        ]

    def _has_secret(self, text: str | None) -> bool:
        if text is None:
            return False
        spans = self._spans(text, self._prefilter.hits(text), is_decoded=True)
        return any(span.kind == "secret" for span in spans)


def _next_match(text: str, rule: Rule, start: int, end: int) -> re.Match[str] | None:
    """Return the first match that starts in a range."""
    pattern = rule.pattern
    if rule.anchor is not None:
        for anchor in rule.anchor.finditer(text, start, min(len(text), end + _MAX_ANCHOR_CHARS)):
            if anchor.start() >= end:
                return None
            if (match := pattern.match(text, anchor.start())) is not None:
                return match
        return None
    limit = min(len(text), end + rule.lookahead)
    match = pattern.search(text, start, limit)
    if match is None or match.start() >= end:
        return None
    if match.end() > limit - 8 and limit < len(text):
        # The match may have been cut off at the limit.
        return pattern.match(text, match.start()) or match
    return match


def _ranges(hits: Iterator[Hit], reach: int, length: int) -> Iterator[tuple[int, int]]:
    """Join hits whose ranges overlap. A hit at -1 means the whole text."""
    start = end = -1
    for _, position in hits:
        if position < 0:
            yield 0, length
            return
        if position - reach > end:
            if end >= 0:
                yield start, end
            start = max(0, position - reach)
        end = position
    if end >= 0:
        yield start, end
