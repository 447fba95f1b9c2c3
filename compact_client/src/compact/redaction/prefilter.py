"""Determine which rules can match a text, and where.

Hyperscan searches for the hints of all rules, one group after the other. Where it is not available, the literals of
the rules are searched one by one. Both return every place where a rule can match, and maybe some where it does not.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Protocol

from compact.redaction.database_cache import cache_key, read_database, write_database
from compact.redaction.encoded_text import EncodedText
from compact.redaction.literals import find_all, lower
from compact.redaction.normalization import HIDDEN, HINT, may_hide
from compact.redaction.rules import Rule
from compact.redaction.rules.rule import MIN_RUN_CHARS

_log = logging.getLogger(__name__)

Hits = dict[int, list[int]]
"""The places where a rule can match, in ascending order, by the index of the rule.

A place is where a literal or hint ends, or where the literal starts if matches of the rule start with it.
"""
Ends = defaultdict[int, list[int]]
"""The positions where each expression of Hyperscan ends."""
_CHARS_BEFORE_COMPILING = 200_000
EVERYWHERE = -1
"""In place of a position: the rule can match anywhere."""
NORMALIZE = -1
"""In place of a rule: where characters are hidden, or full-width."""
_HIDDEN_GROUP = "hidden characters"
"""Searched for in text that is not all ASCII or has a NUL. The other groups are those of the rules."""
_HIDDEN, _RUN = 0, 1
"""The numbers of two expressions that belong to no rule."""
_RUN_HINT = rf"(?:^|[^A-Za-z0-9+/])[A-Za-z0-9+/]{{{MIN_RUN_CHARS}}}"
_RUN_REST = re.compile(rb"[A-Za-z0-9+/]{0,32}")
_DIGIT = re.compile(rb"[0-9]")


class Prefilter(Protocol):
    """Yields the places where a rule can match."""

    def hits(self, text: str, parts: Sequence[str] = ()) -> Hits:
        """Return the hits in a text. `parts` is the text without its boundaries."""
        ...


def create_prefilter(rules: Sequence[Rule]) -> Prefilter:
    """Return a prefilter that uses Hyperscan as soon as that pays off, if it is installed."""
    if find_spec("hyperscan") is None:
        return LiteralPrefilter(rules)
    return AdaptivePrefilter(rules)


class AdaptivePrefilter:
    """Searches for literals first, and with Hyperscan once its database is compiled.

    Compiling takes about a second, so it happens on a thread, and only in a process that redacts enough text. A
    database that an earlier process cached is used at once.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._current: Prefilter = LiteralPrefilter(rules)
        self._is_compiled = False
        self._characters = -1
        self._lock = threading.Lock()
        self._compiling_in: int | None = None

    def hits(self, text: str, parts: Sequence[str] = ()) -> Hits:
        """Return the hits in a text."""
        if not self._is_compiled:
            self._prepare(len(text))
        return self._current.hits(text, parts)

    def warm_up(self) -> None:
        """Compile the database now, for a server that starts or for a measurement. Later calls do nothing."""
        if not self._is_compiled:
            self._compiling_in = os.getpid()
            self._compile()

    def _prepare(self, characters: int) -> None:
        """Load the database before the first text, or start to compile it after enough text."""
        if self._characters < 0:
            self._characters = 0
            self._load()
        if self._characters < _CHARS_BEFORE_COMPILING:
            self._characters += characters
        elif self._compiling_in != os.getpid():
            self._start()

    def _start(self) -> None:
        with self._lock:
            # A fork stops the thread, so the child process starts its own.
            if self._compiling_in == os.getpid():
                return
            self._compiling_in = os.getpid()
        threading.Thread(target=self._compile, name="compact-redaction", daemon=True).start()

    def _load(self) -> None:
        with contextlib.suppress(NotCached):
            self._compile(is_compiled=False)

    def _compile(self, *, is_compiled: bool = True) -> None:
        try:
            self._current = HyperscanPrefilter(self._rules, is_compiled=is_compiled)
            self._is_compiled = True
        except NotCached:
            raise
        except Exception as error:  # any failure of the native library
            _log.warning("Redaction is slower, because Hyperscan cannot be used: %s", error)


class LiteralPrefilter:
    """Searches for the literals of each rule. A rule without literals is tried everywhere."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules_of: dict[str, list[tuple[int, int]]] = {}
        for index, rule in enumerate(rules):
            for literal in {literal.lower() for literal in rule.literals}:
                offset = 0 if rule.starts_with_literal else len(literal)
                self._rules_of.setdefault(literal, []).append((index, offset))
        self._everywhere = [index for index, rule in enumerate(rules) if not rule.literals]

    def hits(self, text: str, parts: Sequence[str] = ()) -> Hits:
        """Return the hits in a text."""
        lowered = lower(text)
        hits: Hits = {index: [EVERYWHERE] for index in self._everywhere}
        if may_hide(text) and (hidden := [match.end() for match in HIDDEN.finditer(text)]):
            hits[NORMALIZE] = hidden
        for literal, rules in self._rules_of.items():
            if starts := find_all(lowered, literal):
                for index, offset in rules:
                    hits.setdefault(index, []).extend([start + offset for start in starts] if offset else starts)
        for positions in hits.values():
            positions.sort()
        return hits


class HyperscanPrefilter:
    """Searches for the hints of all rules in linear time."""

    def __init__(self, rules: Sequence[Rule], *, is_compiled: bool = True) -> None:
        """Load the databases from the cache, or compile them if `is_compiled` is set. Raise `NotCached` otherwise."""
        self._local = threading.local()
        self._rules_of: list[list[tuple[int, int]]] = [[(NORMALIZE, 0)], []]
        self._runs: list[tuple[range, int]] = []
        groups: dict[str, dict[str, int]] = {_HIDDEN_GROUP: {HINT: _HIDDEN}, "runs": {_RUN_HINT: _RUN}}
        for index, rule in enumerate(rules):
            if rule.run_chars is not None:
                self._runs.append((rule.run_chars, len(self._rules_of)))
                self._rules_of.append([(index, 0)])
            for hint, offset in _hints(rule):
                number = groups.setdefault(rule.group, {}).setdefault(hint, len(self._rules_of))
                if number == len(self._rules_of):
                    self._rules_of.append([])
                self._rules_of[number].append((index, offset))
        self._databases = [_load_database(group, is_compiled=is_compiled) for group in groups.values()]

    def hits(self, text: str, parts: Sequence[str] = ()) -> Hits:
        """Return the hits in a text."""
        if not text:
            return {}
        encoded = EncodedText(parts or (text,))
        data = encoded.data
        ends: Ends = defaultdict(list)
        scans = getattr(self._local, "scans", None) or self._prepare_thread()
        # Arguments by position, because names double the cost of a short text.
        for scan, scratch in scans[1:] if encoded.is_ascii and b"\0" not in data and b"\x1b" not in data else scans:
            scan(data, _add_end, 0, ends, scratch)
        if not ends:
            return {}
        for end in ends.pop(_RUN, ()):
            # Most paths and long words have no digits.
            if _DIGIT.search(data, end - MIN_RUN_CHARS, end) is not None:
                self._add_run(ends, data, end)
        return self._hits(encoded.in_characters(ends))

    def _add_run(self, ends: Ends, data: bytes, end: int) -> None:
        """Add the run of which the first `MIN_RUN_CHARS` characters end here to the rules for runs of its length."""
        rest = _RUN_REST.match(data, end)
        length = MIN_RUN_CHARS + (len(rest[0]) if rest else 0)
        for lengths, number in self._runs:
            if length in lengths:
                ends[number].append(end)

    def _hits(self, ends: Mapping[int, list[int]]) -> Hits:
        hits: Hits = {}
        for number, positions in ends.items():
            for index, offset in self._rules_of[number]:
                places = [position - offset for position in positions] if offset else positions
                hits[index] = hits[index] + places if index in hits else places
        for positions in hits.values():
            positions.sort()
        return hits

    def _prepare_thread(self) -> list[tuple[Any, Any]]:
        """Return the search in each database, with working memory.

        A search releases the interpreter lock, so threads do not share the working memory.
        """
        import hyperscan

        scans = [(database.scan, hyperscan.Scratch(database)) for database in self._databases]
        self._local.scans = scans
        return scans


class NotCached(Exception):
    """The database has to be compiled."""


def _load_database(numbers_of: Mapping[str, int], *, is_compiled: bool) -> Any:
    """Return the compiled database of expressions, each with its number."""
    import hyperscan

    expressions = [expression.encode() for expression in numbers_of]
    numbers = list(numbers_of.values())
    flags = [hyperscan.HS_FLAG_CASELESS | hyperscan.HS_FLAG_DOTALL] * len(numbers)
    key = cache_key(numbers, expressions, flags, [version("hyperscan")])
    cached = read_database(key)
    if cached is not None:
        # Fails if another processor or version wrote the file, although the key should rule that out.
        with contextlib.suppress(hyperscan.HyperscanError):
            return hyperscan.loadb(cached, mode=hyperscan.HS_MODE_BLOCK)
    if not is_compiled:
        raise NotCached
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(expressions=expressions, ids=numbers, elements=len(expressions), flags=flags)
    write_database(key, hyperscan.dumpb(database))
    return database


def _hints(rule: Rule) -> Iterator[tuple[str, int]]:
    """Yield the expressions of a rule, and how far the place to return is before the end of each."""
    hints = rule.hints or [re.escape(literal) for literal in rule.literals]
    if not rule.starts_with_literal:
        yield from ((hint, 0) for hint in hints)
        return
    for hint, literal in zip(hints, rule.literals, strict=True):
        yield hint, len(literal) + rule.hint_tail


def _add_end(number: int, _start: int, end: int, _flags: int, ends: Ends) -> None:
    ends[number].append(end)
