"""Find the matches of one rule near the places that the prefilter returns, in linear time.

Places that are close together are searched as one range, so that the cost of a text with many such places is the cost
of one search through it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from compact.redaction.findings import Span, is_masked
from compact.redaction.literals import find_all, lower
from compact.redaction.prefilter import EVERYWHERE
from compact.redaction.rules import Rule

_MAX_WORD_CHARS = 32


class RuleSearch:
    """Searches for one rule. `has_secret` returns True if the plain text of an encoded match has a secret."""

    def __init__(self, rule: Rule, has_secret: Callable[[str | None], bool]) -> None:
        self._rule = rule
        self._has_secret = has_secret
        groups = rule.pattern.groupindex
        self._secret_group = groups.get("secret", 0)
        self._has_key_quote = "keyquote" in groups

    def spans(self, text: str, positions: Sequence[int]) -> list[Span]:
        """Return the secret of each match that is not masked yet. `positions` are those of `Hits`."""
        spans: list[Span] = []
        if self._rule.starts_with_literal:
            self._search_at(text, positions, spans)
        elif self._rule.first_words:
            self._search_words(text, positions, spans)
        else:
            self._search_ranges(text, positions, spans)
        return spans

    def _search_at(self, text: str, positions: Sequence[int], spans: list[Span]) -> None:
        match_at = self._rule.pattern.match
        resume = 0
        for position in positions:
            if position >= resume and (match := match_at(text, position)) is not None:
                resume = self._add_spans(match, spans)

    def _search_words(self, text: str, positions: Sequence[int], spans: list[Span]) -> None:
        match_at, words = self._rule.pattern.match, self._rule.first_words
        resume = 0
        for start, end in _ranges(positions, self._rule.reach, len(text)):
            lowered = lower(text[start : end + _MAX_WORD_CHARS])
            places = sorted({start + place for word in words for place in find_all(lowered, word)})
            for place in places:
                if resume <= place < end and (match := match_at(text, place)) is not None:
                    resume = self._add_spans(match, spans)

    def _search_ranges(self, text: str, positions: Sequence[int], spans: list[Span]) -> None:
        pattern, length = self._rule.pattern, len(text)
        resume = 0
        for start, end in _ranges(positions, self._rule.reach, length):
            resume = max(start, resume)
            limit = min(length, end + self._rule.lookahead)
            while resume < end and (match := pattern.search(text, resume, limit)) is not None and match.start() < end:
                if match.end() > limit - 8 and limit < length:
                    # The match may have been cut off at the limit.
                    match = pattern.match(text, match.start()) or match
                resume = self._add_spans(match, spans)

    def _add_spans(self, match: re.Match[str], spans: list[Span]) -> int:
        """Add the spans of a match if it is a secret. Return where the search continues."""
        rule, text = self._rule, match.string
        start, end = match.span()
        resume = end if rule.is_whole else start + 1
        if rule.accepts is not None and not rule.accepts(match):
            return resume
        if rule.decode is not None and not self._has_secret(rule.decode(match)):
            return resume
        quote = self._quote(match) if self._has_key_quote else ""
        for first, last in self._places(match):
            if first < last and not is_masked(text, first, last):
                spans.append(Span(first, last, rule.name, rule.kind, quote))
                resume = max(end, last)
        return resume

    def _places(self, match: re.Match[str]) -> Sequence[tuple[int, int]]:
        rule = self._rule
        if rule.spans is not None:
            return rule.spans(match)
        start, end = match.span(self._secret_group)
        if rule.rest is not None and (rest := rule.rest.match(match.string, end)) is not None:
            end = rest.end()
        return ((start, end),)

    @staticmethod
    def _quote(match: re.Match[str]) -> str:
        """Return the quote for the mask. `"pin": 1234` in a text must stay valid JSON, also with escaped quotes."""
        quote, bare = match.group("keyquote", "bare")
        return quote.rstrip("]") if quote and bare is not None else ""


def _ranges(positions: Sequence[int], reach: int, length: int) -> Iterator[tuple[int, int]]:
    """Join places whose ranges overlap."""
    if positions[0] == EVERYWHERE:
        yield 0, length
        return
    first = end = positions[0]
    for position in positions:
        if position - end > reach:
            yield max(0, first - reach), end
            first = position
        end = position
    yield max(0, first - reach), end
