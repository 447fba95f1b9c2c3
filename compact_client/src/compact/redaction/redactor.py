"""Replace secrets and personal data in text and in trees of JSON values.

Guarantees:

- The input is never changed. Where the output differs, it is a copy.
- Keys stay, and values become `<REDACTED>`.
- Redacting twice gives the same result as redacting once.
- The run time is linear in the length of the text, even for hostile input.
- Counts are per rule and never contain a secret.

    >>> redactor = default_redactor()
    >>> redactor.text("api_key=sk-abc123")
    ('api_key=<REDACTED>', Counter({'api_key': 1}))
    >>> redactor.tree({"password": "hunter2", "turn": 3})
    ({'password': '<REDACTED>', 'turn': 3}, Counter({'password': 1}))
"""

from __future__ import annotations

import operator
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

from compact.redaction.literal_search import literal_search
from compact.redaction.rules import DEFAULT_RULES, Rule
from compact.redaction.secret_keys import rule_for_key

MASK = "<REDACTED>"

T = TypeVar("T")

# Masking a value can change the meaning of the text around it, so a text is checked again until nothing more matches.
_MAX_PASSES = 4
_MAX_PREFIX_CHARS = 64
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


class _Redaction(NamedTuple):
    start: int
    end: int
    rule: str
    mask: str


class Redactor:
    """Applies rules, custom patterns and functions to text and to trees of JSON values.

    `allow` names rules to disable ("email") or texts to leave unchanged ("*@example.com", where `*` matches anything).
    `patterns` are custom regular expressions. A match is masked in its `secret` group, or else in the value after
    `key=`, or else as a whole. `functions` take a text and return it redacted.
    """

    def __init__(
        self,
        *,
        rules: Sequence[Rule] = DEFAULT_RULES,
        allow: Iterable[str] = (),
        patterns: Iterable[str] = (),
        functions: Iterable[Callable[[str], str]] = (),
        pii: bool = True,
    ) -> None:
        allowed = frozenset(allow)
        names = {rule.name for rule in rules}
        self.rules = tuple(rule for rule in rules if rule.name not in allowed and (pii or rule.kind != "pii"))
        self._allowed_texts = _compile_wildcards(allowed - names)
        self._custom_patterns = tuple(
            (f"pattern_{number}", _compile_pattern(pattern)) for number, pattern in enumerate(patterns, start=1)
        )
        self._functions = tuple(functions)
        self._anchored: dict[str, list[Rule]] = {}
        unanchored: dict[re.Pattern[str], list[Rule]] = {}
        for rule in self.rules:
            if rule.anchored:
                for literal in rule.literals:
                    self._anchored.setdefault(literal, []).append(rule)
            else:
                unanchored.setdefault(rule.pattern, []).append(rule)
        # Rules with the same pattern share one search: cards, phones and national ids are all runs of digits.
        self._unanchored = tuple((pattern, tuple(group)) for pattern, group in unanchored.items())
        required = {literal for rule in self.rules if not rule.anchored for literal in rule.literals}
        self._find_literals = literal_search(sorted(required | self._anchored.keys()))

    def text(self, text: str) -> tuple[str, Counter[str]]:
        """Return the text with secrets masked, and the number of redactions per rule."""
        counts: Counter[str] = Counter()
        for function in self._functions:
            changed = function(text)
            if changed != text:
                counts[getattr(function, "__name__", "function")] += 1
                text = changed
        for _ in range(_MAX_PASSES):
            redactions = list(self._redactions(text))
            if not redactions:
                break
            text = _mask(text, redactions, counts)
        return text, counts

    def tree(self, value: T) -> tuple[T, Counter[str]]:
        """Redact a tree of dicts, lists and texts. Unchanged parts are shared with the input.

        The value of a key such as `password` or `authorization` is masked regardless of its text.
        """
        counts: Counter[str] = Counter()
        texts: list[str] = []
        has_secret_key = _collect_texts(value, texts)
        # Most trees contain no secret, and checking all of their text at once is far cheaper than text by text.
        suspicious = frozenset(texts) if self._functions else self._find_suspicious(texts)
        return (self._redact(value, suspicious, counts) if has_secret_key or suspicious else value), counts

    def _find_suspicious(self, texts: list[str]) -> Collection[str]:
        """Return the texts that may contain a secret."""
        suspicious = {text for text in texts for _, pattern in self._custom_patterns if pattern.search(text)}
        matches = list(self._matches("\n".join(texts)))
        starts = [0, *accumulate(len(text) + 1 for text in texts)] if matches else []
        for match, _ in matches:
            # A match can span the end of one text and the start of the next. Both are then checked separately.
            first = bisect_right(starts, match.start()) - 1
            suspicious.update(texts[first : bisect_left(starts, match.end(), lo=first)])
        return suspicious

    def _redact(self, value: Any, suspicious: Collection[str], counts: Counter[str]) -> Any:
        if isinstance(value, str):
            if value not in suspicious:
                return value
            text, redactions = self.text(value)
            counts.update(redactions)
            return text
        if isinstance(value, dict):
            copy = {key: self._redact_item(key, item, suspicious, counts) for key, item in value.items()}
            return copy if any(copy[key] is not item for key, item in value.items()) else value
        if isinstance(value, (list, tuple)):
            items = [self._redact(item, suspicious, counts) for item in value]
            if all(map(operator.is_, items, value)):
                return value
            return items if isinstance(value, list) else tuple(items)
        return value

    def _redact_item(self, key: object, item: Any, suspicious: Collection[str], counts: Counter[str]) -> Any:
        if _is_redaction_counts(key, item):
            return item
        rule = rule_for_key(key, item)
        if rule is None:
            return self._redact(item, suspicious, counts)
        if item == MASK or self._is_allowed(item):
            return item
        counts[rule] += 1
        return MASK

    def _redactions(self, text: str) -> Iterator[_Redaction]:
        for match, rule in self._matches(text):
            yield from self._redaction(match, rule.name, prefix_chars=rule.before)
        for name, pattern in self._custom_patterns:
            for match in pattern.finditer(text):
                yield from self._redaction(match, name)

    def _matches(self, text: str) -> Iterator[tuple[re.Match[str], Rule]]:
        """Yield the matches of all rules, without custom patterns."""
        literals = self._find_literals(_lower_same_length(text))
        yield from self._anchored_matches(text, literals)
        yield from self._unanchored_matches(text, literals)

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

    def _redaction(self, match: re.Match[str], rule: str, *, prefix_chars: str = "") -> Iterator[_Redaction]:
        """Yield the redaction of a match, unless its secret is allowed or already masked."""
        start, end = _secret_span(match)
        if prefix_chars:
            prefix = match.string[max(0, start - _MAX_PREFIX_CHARS) : start]
            start -= len(prefix) - len(prefix.rstrip(prefix_chars))
        secret = match.string[start:end]
        if start < end and not _is_masked(match.string, start, end) and not self._is_allowed(secret):
            # `"pin": 1234` in a text must stay valid JSON.
            is_bare_json = "keyquote" in match.re.groupindex and match["keyquote"] and match["bare"]
            yield _Redaction(start, end, rule, f'"{MASK}"' if is_bare_json else MASK)

    def _is_allowed(self, text: Any) -> bool:
        return (
            self._allowed_texts is not None
            and isinstance(text, str)
            and self._allowed_texts.fullmatch(text) is not None
        )


@lru_cache(maxsize=1)
def default_redactor() -> Redactor:
    """Return the shared redactor with all default rules, including personal data."""
    return Redactor()


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


def _is_masked(text: str, start: int, end: int) -> bool:
    at = text.rfind(MASK[0], max(0, start - len(MASK)), start + 1)
    return at >= 0 and text.startswith(MASK, at) and end <= at + len(MASK)


def _mask(text: str, redactions: list[_Redaction], counts: Counter[str]) -> str:
    pieces: list[str] = []
    position = 0
    for redaction in _merge_overlapping(redactions):
        pieces += (text[position : redaction.start], redaction.mask)
        position = redaction.end
        counts[redaction.rule] += 1
    return "".join([*pieces, text[position:]])


def _merge_overlapping(redactions: list[_Redaction]) -> Iterator[_Redaction]:
    redactions.sort(key=lambda redaction: (redaction.start, -redaction.end))
    current = redactions[0]
    for redaction in redactions[1:]:
        if redaction.start < current.end:
            current = current._replace(end=max(current.end, redaction.end))
        else:
            yield current
            current = redaction
    yield current


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    compiled = re.compile(pattern)
    if "secret" in compiled.groupindex or "quoted" in compiled.groupindex:
        return compiled
    # Patterns in the style of document 000, `password\s*[:=]\s*\S+`, must keep the key, so only the value is captured.
    head, separator, tail = pattern.rpartition(r"[:=]\s*")
    return re.compile(rf"{head}{separator}(?P<secret>{tail})") if separator and tail else compiled


def _compile_wildcards(texts: frozenset[str]) -> re.Pattern[str] | None:
    if not texts:
        return None
    return re.compile("|".join(re.escape(text).replace(r"\*", ".*") for text in sorted(texts)), re.DOTALL)


def _lower_same_length(text: str) -> str:
    lowered = text.lower()
    # A few letters such as İ become two in lower case, which would shift all positions after them.
    return lowered if len(lowered) == len(text) else text.translate(_ASCII_LOWER)


def _collect_texts(value: Any, texts: list[str]) -> bool:
    """Append all texts of a tree to `texts`. Return True if the value of a secret key must be masked."""
    if isinstance(value, str):
        texts.append(value)
        return False
    if isinstance(value, dict):
        has_secret_key = False
        for key, item in value.items():
            if isinstance(item, (dict, list, tuple)):
                has_secret_key |= not _is_redaction_counts(key, item) and _collect_texts(item, texts)
            elif rule_for_key(key, item) is not None:
                has_secret_key |= item != MASK
            elif isinstance(item, str):
                texts.append(item)
        return has_secret_key
    if isinstance(value, (list, tuple)):
        return sum(_collect_texts(item, texts) for item in value) > 0
    return False


def _is_redaction_counts(key: object, item: object) -> bool:
    """True for the counts per rule in an event: `{"redactions": {"password": 2}}`. Their keys are not secret keys."""
    return key == "redactions" and isinstance(item, dict) and all(type(count) is int for count in item.values())
