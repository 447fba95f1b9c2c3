"""Hide secrets and personal data on every way out: export, archive, console, exceptions.

Guarantees: the input is never changed (what comes back is a copy where it differs); keys stay and values become
`<REDACTED>`; redacting twice changes nothing more; the time is linear in the length of the text, hostile or not; counts
are by rule and never hold what was found.

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
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, TypeVar

from compact.redaction.rules import DEFAULT_RULES, Rule

__all__ = ["DEFAULT_RULES", "MASK", "Redactor", "Rule", "default_redactor"]

MASK = "<REDACTED>"

T = TypeVar("T")
Span = tuple[int, int, str, str]
Finder = Callable[[str], "dict[str, list[int]]"]

# Dictionary keys, lower case and without separators, whose text is secret whatever it looks like …
_SECRET_KEY = re.compile(
    r"(?:.*(?:password|passwd|passphrase|passcode|secret|apikey|accesskey|accountkey|privatekey|signingkey|encryptionkey"
    r"|secretkey|connectionstring|clientsecret|credential))s?|.*pwd|authorization|proxyauthorization|cookie|setcookie|xapikey"
)
# … or if it is long enough to be one: `token` also names a word of text.
_TOKEN_KEY = re.compile(r".*(?:token|bearer|jwt|auth)s?")
_NOT_A_TOKEN_KEY = re.compile(r".*(?:next|page|continuation|cursor|pad|eos|bos|unk|stop|max|min)s?(?:page)?tokens?")
_WORDS = frozenset({"string", "none", "null", "true", "false", "required", "optional", "integer", "hidden", "auto"})
# What is hidden may change how the rest reads; a text is looked at again until nothing more is found.
_PASSES = 4
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


class Redactor:
    """Applies rules, extra patterns and functions to text and to trees of JSON values.

    `allow` names rules that are switched off ("email"), or texts that may pass ("*@example.com", with `*`).
    `patterns` are regular expressions of your own: their group `secret`, else their value after `key=`, else all of
    the match is hidden. `functions` take a text and return it redacted.
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
        self._allowed_texts = _wildcards(allowed - names)
        self._custom = tuple(
            (f"pattern_{number}", _compile(pattern)) for number, pattern in enumerate(patterns, start=1)
        )
        self._functions = tuple(functions)
        self._anchored: dict[str, list[Rule]] = {}
        searched: dict[re.Pattern[str], list[Rule]] = {}
        for rule in self.rules:
            if rule.anchored:
                for literal in rule.literals:
                    self._anchored.setdefault(literal, []).append(rule)
            else:
                searched.setdefault(rule.pattern, []).append(rule)
        # Rules that share a pattern share its search: cards, phones and national ids are all runs of digits.
        self._searched = tuple((pattern, tuple(group)) for pattern, group in searched.items())
        gates = {literal for rule in self.rules if not rule.anchored for literal in rule.literals}
        self._find = _finder(sorted(gates | self._anchored.keys()))

    def text(self, text: str) -> tuple[str, Counter[str]]:
        """The text with secrets hidden, and how often each rule hid something."""
        counts: Counter[str] = Counter()
        for function in self._functions:
            changed = function(text)
            if changed != text:
                counts[getattr(function, "__name__", "function")] += 1
                text = changed
        for _ in range(_PASSES):
            spans = list(self._spans(text))
            if not spans:
                break
            text = _masked(text, spans, counts)
        return text, counts

    def tree(self, value: T) -> tuple[T, Counter[str]]:
        """The same for a tree of dicts, lists and texts; unchanged parts are shared with the input, never changed.

        A key such as `password` or `authorization` hides its text whatever it looks like.
        """
        counts: Counter[str] = Counter()
        leaves: list[str] = []
        has_secret_key = _collect(value, leaves)
        # Most trees hold nothing to hide, and one look over all their text is far cheaper than one per leaf.
        suspects = frozenset(leaves) if self._functions else self._suspects(leaves)
        return (self._redact(value, suspects, counts) if has_secret_key or suspects else value), counts

    def _suspects(self, leaves: list[str]) -> Collection[str]:
        """The texts in which something may have to be hidden; the others need no second look."""
        found = {leaf for leaf in leaves for _, pattern in self._custom if pattern.search(leaf)}
        matches = list(self._matches("\n".join(leaves)))
        starts = [0, *accumulate(len(leaf) + 1 for leaf in leaves)] if matches else []
        for match, _ in matches:
            # Joined, the end of one text and the beginning of the next may match together: both are looked at alone.
            first = bisect_right(starts, match.start()) - 1
            found.update(leaves[first : bisect_left(starts, match.end(), lo=first)])
        return found

    def _redact(self, value: Any, suspects: Collection[str], counts: Counter[str]) -> Any:
        if isinstance(value, str):
            if value not in suspects:
                return value
            text, found = self.text(value)
            counts.update(found)
            return text
        if isinstance(value, dict):
            copy = {key: self._redact_item(key, item, suspects, counts) for key, item in value.items()}
            return copy if any(copy[key] is not item for key, item in value.items()) else value
        if isinstance(value, (list, tuple)):
            items = [self._redact(item, suspects, counts) for item in value]
            if all(map(operator.is_, items, value)):
                return value
            return items if isinstance(value, list) else tuple(items)
        return value

    def _redact_item(self, key: object, item: Any, suspects: Collection[str], counts: Counter[str]) -> Any:
        if _is_tally(key, item):
            return item
        rule = _rule_of_key(key, item)
        if rule is None:
            return self._redact(item, suspects, counts)
        if item == MASK or self._is_allowed(item):
            return item
        counts[rule] += 1
        return MASK

    def _spans(self, text: str) -> Iterator[Span]:
        for match, rule in self._matches(text):
            yield from self._span(match, rule.name, before=rule.before)
        for name, pattern in self._custom:
            for match in pattern.finditer(text):
                yield from self._span(match, name)

    def _matches(self, text: str) -> Iterator[tuple[re.Match[str], Rule]]:
        """Where the rules find something; a pattern of the caller's is not a rule."""
        found = self._find(_lowered(text))
        for literal, positions in found.items():
            for rule in self._anchored.get(literal, ()):
                resume = 0
                for position in positions:
                    # What is hidden already is not looked into again: that, and bounded patterns, keep the time linear.
                    match = rule.pattern.match(text, position) if position >= resume else None
                    if match is not None and (rule.accepts is None or rule.accepts(match)):
                        resume = match.end()
                        yield match, rule
        for pattern, rules in self._searched:
            wanted = [rule for rule in rules if not rule.literals or any(lit in found for lit in rule.literals)]
            if not wanted:
                continue
            for match in pattern.finditer(text):
                for rule in wanted:
                    if rule.accepts is None or rule.accepts(match):
                        yield match, rule
                        break

    def _span(self, match: re.Match[str], name: str, *, before: str = "") -> Iterator[Span]:
        start, end = _secret(match)
        if before:
            head = match.string[max(0, start - 64) : start]
            start -= len(head) - len(head.rstrip(before))
        hidden = match.string[start:end]
        if start < end and not _is_masked(match.string, start, end) and not self._is_allowed(hidden):
            # `"pin": 1234` inside a text must stay JSON.
            is_bare_json = "keyquote" in match.re.groupindex and match["keyquote"] and match["bare"]
            yield start, end, name, f'"{MASK}"' if is_bare_json else MASK

    def _is_allowed(self, text: Any) -> bool:
        return (
            self._allowed_texts is not None
            and isinstance(text, str)
            and self._allowed_texts.fullmatch(text) is not None
        )


@lru_cache(maxsize=1)
def default_redactor() -> Redactor:
    """All default rules, personal data included."""
    return Redactor()


def _secret(match: re.Match[str]) -> tuple[int, int]:
    groups = match.re.groupindex
    if "secret" in groups:
        return match.span("secret")
    if "quoted" not in groups:
        return match.span()
    if match["quoted"] is not None:
        return match.span("quoted")
    start, end = match.span("bare")
    # A closing bracket belongs to the code around it.
    while end > start + 1 and match.string[end - 1] in ")]}":
        end -= 1
    return start, end


def _is_masked(text: str, start: int, end: int) -> bool:
    at = text.rfind(MASK[0], max(0, start - len(MASK)), start + 1)
    return at >= 0 and text.startswith(MASK, at) and end <= at + len(MASK)


def _masked(text: str, spans: list[Span], counts: Counter[str]) -> str:
    pieces: list[str] = []
    position = 0
    for start, end, name, mask in _merged(spans):
        pieces += (text[position:start], mask)
        position = end
        counts[name] += 1
    return "".join([*pieces, text[position:]])


def _merged(spans: list[Span]) -> Iterator[Span]:
    spans.sort(key=lambda span: (span[0], -span[1]))
    start, end, name, mask = spans[0]
    for next_start, next_end, next_name, next_mask in spans[1:]:
        if next_start < end:
            end = max(end, next_end)
        else:
            yield start, end, name, mask
            start, end, name, mask = next_start, next_end, next_name, next_mask
    yield start, end, name, mask


def _compile(pattern: str) -> re.Pattern[str]:
    compiled = re.compile(pattern)
    if "secret" in compiled.groupindex or "quoted" in compiled.groupindex:
        return compiled
    # Document 000 writes its patterns as `password\s*[:=]\s*\S+`: the key must stay, so the value gets the group.
    head, separator, tail = pattern.rpartition(r"[:=]\s*")
    return re.compile(rf"{head}{separator}(?P<secret>{tail})") if separator and tail else compiled


def _wildcards(texts: frozenset[str]) -> re.Pattern[str] | None:
    if not texts:
        return None
    return re.compile("|".join(re.escape(text).replace(r"\*", ".*") for text in sorted(texts)), re.DOTALL)


def _lowered(text: str) -> str:
    lowered = text.lower()
    # A few letters (İ) become two in lower case; positions must still be those of the text.
    return lowered if len(lowered) == len(text) else text.translate(_ASCII_LOWER)


def _finder(literals: list[str]) -> Finder:
    """All positions of all literals: by Aho-Corasick where the package is installed, by `str.find` otherwise."""
    try:
        from ahocorasick_rs import AhoCorasick, Implementation
    except ImportError:
        return lambda text: _find_each(literals, text)
    # The quickest of its forms, which it does not choose by itself for as many literals as ours.
    automaton = AhoCorasick(literals, implementation=Implementation.DFA)

    def find(text: str) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        try:
            matches = automaton.find_matches_as_indexes(text, overlapping=True)
        except UnicodeEncodeError:
            # Half a surrogate pair, which only Python takes for text.
            return _find_each(literals, text)
        for index, start, _ in matches:
            found.setdefault(literals[index], []).append(start)
        return found

    return find


def _find_each(literals: list[str], text: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for literal in literals:
        position = text.find(literal)
        while position >= 0:
            found.setdefault(literal, []).append(position)
            position = text.find(literal, position + 1)
    return found


def _collect(value: Any, leaves: list[str]) -> bool:
    """Gather all text of a tree; true if a key alone decides that something must be hidden."""
    if isinstance(value, str):
        leaves.append(value)
        return False
    if isinstance(value, dict):
        has_secret_key = False
        for key, item in value.items():
            if isinstance(item, (dict, list, tuple)):
                has_secret_key |= not _is_tally(key, item) and _collect(item, leaves)
            elif _rule_of_key(key, item) is not None:
                has_secret_key |= item != MASK
            elif isinstance(item, str):
                leaves.append(item)
        return has_secret_key
    if isinstance(value, (list, tuple)):
        return sum(_collect(item, leaves) for item in value) > 0
    return False


def _is_tally(key: object, item: object) -> bool:
    """Our own counts by rule, `{"redactions": {"password": 2}}`: numbers under names that would hide anything else."""
    return key == "redactions" and isinstance(item, dict) and all(type(count) is int for count in item.values())


def _rule_of_key(key: object, item: object) -> str | None:
    # A name as long as a page hides nothing, and would be remembered.
    rule = _key_class(key) if isinstance(key, str) and len(key) <= 80 else None
    if rule is None or item is None or isinstance(item, (bool, dict, list, tuple)):
        return None
    if rule == "token":
        return rule if isinstance(item, str) and len(item) >= 8 and " " not in item else None
    if isinstance(item, str) and (not item.strip() or item.lower() in _WORDS):
        return None
    return rule


@lru_cache(maxsize=4096)
def _key_class(key: str) -> str | None:
    name = re.sub(r"[\s_.-]", "", key.lower())
    if _SECRET_KEY.fullmatch(name):
        return "password" if "pass" in name or "pwd" in name else "secret"
    if _TOKEN_KEY.fullmatch(name) and not _NOT_A_TOKEN_KEY.fullmatch(name):
        return "token"
    return None
