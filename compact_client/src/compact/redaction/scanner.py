"""Apply all rules to a text, in linear time. The prefilter says where a rule can match."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from compact.redaction.findings import Span
from compact.redaction.normalization import normalized_ranges
from compact.redaction.prefilter import EVERYWHERE, NORMALIZE, AdaptivePrefilter, Hits, Prefilter, create_prefilter
from compact.redaction.rule_search import RuleSearch
from compact.redaction.rules import Rule


class Scanner:
    """Finds the matches of rules in a text."""

    def __init__(self, rules: Sequence[Rule], prefilter: Prefilter | None = None) -> None:
        self._searches = [RuleSearch(rule, self._has_secret) for rule in rules]
        self._prefilter = prefilter or create_prefilter(rules)
        # What is decoded is not decoded again, and only secrets count in it.
        self._not_decoded = {
            index for index, rule in enumerate(rules) if rule.decode is not None or rule.kind != "secret"
        }

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
        hidden = hits.pop(NORMALIZE, ())
        spans = self._spans(text, hits, disabled)
        for start, normalized in normalized_ranges(text, hidden) if hidden else ():
            hits = self._prefilter.hits(normalized.text)
            hits.pop(NORMALIZE, None)
            for span in map(normalized.original, self._spans(normalized.text, hits, disabled)):
                spans.append(span._replace(start=span.start + start, end=span.end + start))
        return spans

    def _hits_in(self, text: str, ranges: Sequence[tuple[int, int]]) -> Hits:
        hits: Hits = {}
        for start, end in ranges:
            for index, positions in self._prefilter.hits(text[start:end]).items():
                moved = [position if position == EVERYWHERE else position + start for position in positions]
                hits.setdefault(index, []).extend(moved)
        return hits

    def _spans(self, text: str, hits: Hits, disabled: Collection[int]) -> list[Span]:
        spans: list[Span] = []
        for index in sorted(hits):
            if index not in disabled:
                spans += self._searches[index].spans(text, hits[index])
        return spans

    def _has_secret(self, text: str | None) -> bool:
        if text is None:
            return False
        hits = self._prefilter.hits(text)
        hits.pop(NORMALIZE, None)
        return any(
            self._searches[index].spans(text, positions)
            for index, positions in hits.items()
            if index not in self._not_decoded
        )
