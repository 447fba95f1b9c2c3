"""Apply all rules to a text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from compact.redaction.findings import Span, is_masked
from compact.redaction.literal_search import literal_search
from compact.redaction.rules import Rule

_MAX_PREFIX_CHARS = 64
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


class Scanner:
    """Finds the matches of rules in a text."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._anchored: dict[str, list[Rule]] = {}
        unanchored: dict[re.Pattern[str], list[Rule]] = {}
        for rule in rules:
            if rule.anchored:
                for literal in rule.literals:
                    self._anchored.setdefault(literal, []).append(rule)
            else:
                unanchored.setdefault(rule.pattern, []).append(rule)
        # Rules with the same pattern share one search: cards, phones and national ids are all runs of digits.
        self._unanchored = tuple((pattern, tuple(group)) for pattern, group in unanchored.items())
        required = {literal for rule in rules if not rule.anchored for literal in rule.literals}
        self._find_literals = literal_search(sorted(required | self._anchored.keys()))

    def spans(self, text: str) -> Iterator[Span]:
        """Yield the secret of each match that is not masked yet."""
        literals = self._find_literals(_lower_same_length(text))
        for match, rule in self._anchored_matches(text, literals):
            yield from _span(match, rule)
        for match, rule in self._unanchored_matches(text, literals):
            yield from _span(match, rule)

    def _anchored_matches(
        self, text: str, literals: Mapping[str, Sequence[int]]
    ) -> Iterator[tuple[re.Match[str], Rule]]:
        for literal, positions in literals.items():
            for rule in self._anchored.get(literal, ()):
                resume_at = 0
                for position in positions:
                    # Skipping text that already matched, together with bounded patterns, keeps the run time linear.
                    match = rule.pattern.match(text, position) if position >= resume_at else None
                    if match is not None and (rule.accepts is None or rule.accepts(match)):
                        resume_at = match.end()
                        yield match, rule

    def _unanchored_matches(
        self, text: str, literals: Mapping[str, Sequence[int]]
    ) -> Iterator[tuple[re.Match[str], Rule]]:
        for pattern, rules in self._unanchored:
            applicable = [rule for rule in rules if not rule.literals or not literals.keys().isdisjoint(rule.literals)]
            if not applicable:
                continue
            for match in pattern.finditer(text):
                for rule in applicable:
                    if rule.accepts is None or rule.accepts(match):
                        yield match, rule
                        break


def _span(match: re.Match[str], rule: Rule) -> Iterator[Span]:
    start, end = _secret_span(match)
    if rule.before:
        prefix = match.string[max(0, start - _MAX_PREFIX_CHARS) : start]
        start -= len(prefix) - len(prefix.rstrip(rule.before))
    if start < end and not is_masked(match.string, start, end):
        # `"pin": 1234` in a text must stay valid JSON.
        is_bare_json = "keyquote" in match.re.groupindex and match["keyquote"] and match["bare"]
        yield Span(start, end, rule.name, rule.kind, bool(is_bare_json))


def _secret_span(match: re.Match[str]) -> tuple[int, int]:
    groups = match.re.groupindex
    if "secret" in groups:
        return match.span("secret")
    if "quoted" not in groups:
        return match.span()
    if match["quoted"] is not None:
        return match.span("quoted")
    start, end = match.span("bare")
    # A closing bracket belongs to the surrounding code.
    while end > start + 1 and match.string[end - 1] in ")]}":
        end -= 1
    return start, end


def _lower_same_length(text: str) -> str:
    lowered = text.lower()
    # A few letters such as İ become two in lower case, which would shift all positions after them.
    return lowered if len(lowered) == len(text) else text.translate(_ASCII_LOWER)
