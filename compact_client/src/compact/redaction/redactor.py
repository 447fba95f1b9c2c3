"""Replace secrets and personal data in text and in trees of JSON values.

Guarantees:

- The input is never changed. Where the output differs, it is a copy.
- Keys stay, and values become `<REDACTED>`, or what `replace` returns.
- Redacting twice gives the same result as redacting once.
- The run time is linear in the length of the text, even for hostile input.
- Counts are per rule and never contain a secret.

    >>> redactor = default_redactor()
    >>> redactor.text("api_key=sk-abc123")
    ('api_key=<REDACTED>', Counter({'api_key': 1}))
    >>> redactor.tree({"password": "hunter2", "turn": 3})
    ({'password': '<REDACTED>', 'turn': 3}, Counter({'password': 1}))

Several texts that belong together, such as the parts of a message or adjacent messages, are searched as one text with
boundaries. A private key whose lines are in different parts is then found in all of them:

    >>> findings = redactor.find_in_parts(["card 4111 1111 1111 1111", "mail ada@lovelace.org"])
    >>> [(finding.part, finding.start, finding.end, finding.rule) for finding in findings]
    [(0, 5, 24, 'card'), (1, 5, 21, 'email')]
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, count, groupby
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from compact.redaction.findings import (
    BOUNDARY,
    MASK,
    Finding,
    MaskedText,
    Replace,
    Span,
    is_masked,
    mask,
    merge,
    split_at_boundaries,
)
from compact.redaction.forest import Forest
from compact.redaction.known_keys import KnownKeys
from compact.redaction.patterns import compile_pattern, searchable
from compact.redaction.rules import DEFAULT_RULES, Rule
from compact.redaction.scanner import Scanner

T = TypeVar("T")
_Counts = defaultdict[int, Counter[str]]

# With more values than this, the keys of the first ones are learned before all are searched.
_MANY_VALUES = 16

# Masking a value can change the meaning of the text around it, so a text is checked again until nothing more matches.
_MAX_PASSES = 4
# Only text near a mask can match now that did not match before.
_MASK_DISTANCE = 1_000
_FAR_RULES = frozenset({"private_key", "putty_key"})


class _Secret(NamedTuple):
    """A secret, or the piece of it that is in one part."""

    part: int
    offset: int
    """The position of the part in the joined text, from which the span counts."""
    span: Span
    group: int
    """The number of the secret, which is the same for all of its pieces."""


class Redactor:
    """Applies rules, custom patterns and functions to text and to trees of JSON values.

    `allow` names rules to disable ("email") or texts to leave unchanged ("*@example.com", where `*` matches anything).
    `patterns` are custom regular expressions in the syntax of RE2, as a list or by name. A match is masked in its
    `secret` group, or else in the value after `key=`, or else as a whole. `functions` take a text and return it
    redacted, irreversibly.

    Every method takes `replace`, a function from a finding to the text that replaces it. See `Replace`.
    """

    def __init__(
        self,
        *,
        rules: Sequence[Rule] = DEFAULT_RULES,
        allow: Iterable[str] = (),
        patterns: Iterable[str] | Mapping[str, str] = (),
        functions: Iterable[Callable[[str], str]] = (),
        pii: bool = True,
    ) -> None:
        allowed = frozenset(allow)
        names = {rule.name for rule in rules}
        self.rules = tuple(rule for rule in rules if rule.name not in allowed and (pii or rule.kind != "pii"))
        self._allowed_rules = allowed & names
        self._allowed_texts = _compile_wildcards(allowed - names)
        if not isinstance(patterns, Mapping):
            patterns = {f"pattern_{number}": pattern for number, pattern in enumerate(patterns, start=1)}
        self._patterns = tuple((name, compile_pattern(pattern)) for name, pattern in patterns.items())
        self._functions = tuple(functions)
        # Rules that are disabled are still searched for, because preparing a scanner for each selection takes a second.
        self._scanner = _scanner(tuple(rules))
        self._disabled = frozenset(range(len(rules))) - {
            index for index, rule in enumerate(rules) if rule in self.rules
        }
        self._keys = KnownKeys()

    def warm_up(self) -> None:
        """Prepare for large amounts of text now, for a server that starts. Otherwise, a thread does it later."""
        self._scanner.warm_up()

    def find(self, text: str) -> list[Finding]:
        """Return all secrets in a text, sorted by position. They never overlap."""
        return self.find_in_parts([text])

    def find_in_parts(self, parts: Sequence[str]) -> list[Finding]:
        """Search texts that belong together as one text with boundaries. Return the findings of all parts in order.

        Only secrets that are recognizable across a boundary continue there: a key in PEM format, and a key with a
        vendor's prefix whose rest is at the start of the next part. Their findings, one per part, share a `group`.
        """
        return [_create_finding(parts[secret.part], secret) for secret in self._locate(parts)]

    def text(self, text: str, *, replace: Replace = mask) -> tuple[str, Counter[str]]:
        """Return the text with secrets replaced, and the number of redactions per rule."""
        counts: Counter[str] = Counter()
        if self._functions:
            text = self._apply_functions(text, counts)
        secrets = self._locate([text])
        if secrets:
            _count(secrets, counts)
            text = _replace_all(text, secrets, replace)
        return text, counts

    def parts(self, parts: Sequence[str], *, replace: Replace = mask) -> tuple[list[str], Counter[str]]:
        """Redact texts that belong together, such as the parts of a message. See `find_in_parts`."""
        counts: Counter[str] = Counter()
        texts = [self._apply_functions(part, counts) for part in parts] if self._functions else list(parts)
        secrets = self._locate(texts)
        if not secrets:
            return texts, counts
        _count(secrets, counts)
        for index, pieces in _by_part(secrets):
            texts[index] = _replace_all(texts[index], pieces, replace)
        return texts, counts

    def tree(self, value: T, *, replace: Replace = mask) -> tuple[T, Counter[str]]:
        """Redact a tree of dicts, lists and texts. Unchanged parts are shared with the input.

        The value of a key such as `password` or `authorization` is masked regardless of its text. All texts are
        searched as the parts of one message. Secrets in the names of keys are replaced too.
        """
        return self.trees([value], replace=replace)[0]

    def trees(self, values: Sequence[T], *, replace: Replace = mask) -> list[tuple[T, Counter[str]]]:
        """Redact adjacent messages together, so that a key that is split over two of them is found in both."""
        changed = self.changed_trees(values, replace=replace)
        return [changed[index] if index in changed else (value, Counter()) for index, value in enumerate(values)]

    def changed_trees(self, values: Sequence[T], *, replace: Replace = mask) -> dict[int, tuple[T, Counter[str]]]:
        """Redact like `trees`, and return only the values that had a secret, by their index."""
        if len(values) > _MANY_VALUES:
            # Keys repeat, and a value whose keys are known needs no `Tree`.
            self._learn_keys(values[:_MANY_VALUES])
        forest = Forest(values, self._keys)
        counts: _Counts = defaultdict(Counter)
        self._replace_secret_values(forest, counts, replace)
        self._replace_texts(forest, counts, replace)
        self._replace_keys(forest, counts, replace)
        return {index: (forest.trees[index].result(), counts[index]) for index in sorted(counts)}

    def _learn_keys(self, values: Sequence[Any]) -> None:
        trees = Forest(values, self._keys).trees.values()
        keys = [key for tree in trees for key in tree.keys]
        if not keys or not self._locate(keys):
            for tree in trees:
                self._keys.add((*tree.keys, *tree.short_keys))

    def _replace_secret_values(self, forest: Forest, counts: _Counts, replace: Replace) -> None:
        for owner, tree in forest.trees.items():
            for place, item, rule in tree.secrets:
                if rule in self._allowed_rules or self._is_allowed(item):
                    continue
                counts[owner][rule] += 1
                value = str(item)
                replacement = MASK if replace is mask else replace(Finding(0, len(value), rule, "secret", value))
                tree.replace(place, replacement)

    def _replace_texts(self, forest: Forest, counts: _Counts, replace: Replace) -> None:
        texts = forest.texts
        if not texts:
            return
        if self._functions:
            for index, text in enumerate(texts):
                applied: Counter[str] = Counter()
                texts[index] = self._apply_functions(text, applied)
                if applied:
                    counts[forest.owner(index)] += applied
                    forest.replace(index, texts[index])
        secrets = self._locate(texts)
        for index, pieces in _by_part(secrets):
            forest.replace(index, _replace_all(texts[index], pieces, replace))
        _count_by_owner(secrets, forest.owner, counts)

    def _replace_keys(self, forest: Forest, counts: _Counts, replace: Replace) -> None:
        places = [(owner, place) for owner, tree in forest.trees.items() for place in tree.key_places]
        keys = [key for _, (_, key) in places]
        secrets = self._locate(keys) if keys else []
        if not secrets:
            self._keys.add(keys)
            for tree in forest.trees.values():
                self._keys.add(tree.short_keys)
            return
        for index, pieces in _by_part(secrets):
            owner, place = places[index]
            forest.trees[owner].rename(place, _replace_all(keys[index], pieces, replace))
        _count_by_owner(secrets, lambda part: places[part][0], counts)

    def _locate(self, parts: Sequence[str]) -> list[_Secret]:
        """Search the parts as one text, and return where the secrets of each part are."""
        text = parts[0] if len(parts) == 1 else BOUNDARY.join(parts)
        spans = self._spans(text, parts)
        if len(parts) == 1 or not spans:
            return [_Secret(0, 0, span, group) for span, group in spans]
        starts = [0, *accumulate(len(part) + 1 for part in parts)]
        indexes = (bisect_right(starts, span.start) - 1 for span, _ in spans)
        return [_Secret(index, starts[index], *item) for index, item in zip(indexes, spans, strict=True)]

    def _spans(self, text: str, parts: Sequence[str]) -> list[tuple[Span, int]]:
        """Return the spans to replace, each with the number of its secret. They contain no boundaries."""
        matches = self._matches(text, parts)
        if not matches:
            return []
        spans = self._split(text, matches)
        for _ in range(_MAX_PASSES - 1):
            masked = MaskedText(text, [span for span, _ in spans])
            # A key in PEM format is recognized by lines that may be far away from each other.
            is_local = not self._patterns and all(span.rule not in _FAR_RULES for span, _ in spans)
            ranges = masked.surroundings(_MASK_DISTANCE) if is_local else None
            parts = masked.text.split(BOUNDARY) if self._patterns else ()
            more = self._split(masked.text, self._matches(masked.text, parts, ranges))
            if not more:
                return spans
            spans = self._split(text, [*(span for span, _ in spans), *(masked.original(span) for span, _ in more)])
        return spans

    @staticmethod
    def _split(text: str, spans: Iterable[Span]) -> list[tuple[Span, int]]:
        merged = merge(spans)
        return list(split_at_boundaries(text, merged) if BOUNDARY in text else zip(merged, count(), strict=False))

    def _matches(self, text: str, parts: Sequence[str], ranges: Sequence[tuple[int, int]] | None = None) -> list[Span]:
        spans = self._scanner.spans(text, self._disabled, ranges, parts)
        if self._patterns:
            spans += self._pattern_spans(parts)
        if self._allowed_texts is None:
            return spans
        return [span for span in spans if not self._is_allowed(text[span.start : span.end])]

    def _pattern_spans(self, parts: Sequence[str]) -> Iterator[Span]:
        """Yield the matches of custom patterns, which apply to each part on its own."""
        offset = 0
        for part in parts:
            for name, pattern in self._patterns:
                group = pattern.groupindex.get("secret", 0)
                for match in pattern.finditer(searchable(part)):
                    start, end = match.span(group)
                    if start < end and not is_masked(part, start, end):
                        yield Span(start + offset, end + offset, name, "custom")
            offset += len(part) + 1

    def _apply_functions(self, text: str, counts: Counter[str]) -> str:
        for function in self._functions:
            changed = function(text)
            if changed != text:
                counts[getattr(function, "__name__", "function")] += 1
                text = changed
        return text

    def _is_allowed(self, text: Any) -> bool:
        return (
            self._allowed_texts is not None
            and isinstance(text, str)
            and self._allowed_texts.fullmatch(text) is not None
        )


@lru_cache(maxsize=8)
def _scanner(rules: tuple[Rule, ...]) -> Scanner:
    """Return the scanner for rules, which all redactors with these rules share."""
    return Scanner(rules)


@lru_cache(maxsize=1)
def default_redactor() -> Redactor:
    """Return the shared redactor with all default rules, including personal data."""
    return Redactor()


def _by_part(secrets: Iterable[_Secret]) -> Iterator[tuple[int, list[_Secret]]]:
    for index, group in groupby(secrets, key=itemgetter(0)):
        yield index, list(group)


def _count(secrets: Iterable[_Secret], counts: Counter[str]) -> None:
    """Count secrets. A secret in several parts counts once."""
    counts.update({secret.group: secret.span.rule for secret in secrets}.values())


def _count_by_owner(secrets: Iterable[_Secret], owner: Callable[[int], int], counts: _Counts) -> None:
    """Count secrets for each value. `owner` returns the value of a part. A secret that continues in the next value
    counts in both.
    """
    for index, _, rule in {(owner(secret.part), secret.group, secret.span.rule) for secret in secrets}:
        counts[index][rule] += 1


def _create_finding(part: str, secret: _Secret) -> Finding:
    index, offset, (start, end, rule, kind, quote), group = secret
    start, end = start - offset, end - offset
    return Finding(start, end, rule, kind, part[start:end], index, group, quote)


def _replace_all(text: str, secrets: Iterable[_Secret], replace: Replace) -> str:
    pieces: list[str] = []
    position = 0
    for secret in secrets:
        _, offset, (start, end, _, _, quote), _ = secret
        # Creating a finding costs more than replacing it.
        replacement = MASK if replace is mask else replace(_create_finding(text, secret))
        pieces += (text[position : start - offset], f"{quote}{replacement}{quote}" if quote else replacement)
        position = end - offset
    return "".join([*pieces, text[position:]])


def _compile_wildcards(texts: frozenset[str]) -> re.Pattern[str] | None:
    if not texts:
        return None
    return re.compile("|".join(re.escape(text).replace(r"\*", ".*") for text in sorted(texts)), re.DOTALL)
