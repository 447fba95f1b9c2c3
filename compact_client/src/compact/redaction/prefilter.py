"""Determine which rules can match a text, and where.

Hyperscan searches for the hints of all rules in one pass. Where it is not available, the literals of the rules are
searched one by one. Both return every place where a rule can match, and maybe some where it does not.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Protocol

from compact.redaction.database_cache import cache_key, read_database, write_database
from compact.redaction.normalization import HIDDEN, HINT
from compact.redaction.rules import Rule
from compact.redaction.rules.rule import MIN_RUN_CHARS, WORDS_HINT

_log = logging.getLogger(__name__)

Hit = tuple[int, int]
"""The index of a rule, and the position where its literal or hint ends."""
_CHARS_BEFORE_COMPILING = 200_000
NORMALIZE = -1
"""In place of a rule: the text contains hidden or full-width characters."""
_HAS_RUN = 1
"""The number of the expression for runs of letters and digits."""
_HAS_WORDS = 2
"""The number of the expression for runs of words in lower case."""
_RUN_HINT = rf"[A-Za-z0-9+/]{{{MIN_RUN_CHARS},}}"
_RUN = b"a" * MIN_RUN_CHARS
_RUN_TABLE = bytes(97 if re.match(rb"[A-Za-z0-9+/]", bytes([byte])) else 32 for byte in range(256))
_DIGIT = re.compile(rb"[0-9]")


class Prefilter(Protocol):
    """Yields the places where a rule can match."""

    def hits(self, text: str) -> list[Hit]:
        """Return the hits in a text, sorted by position for each rule."""
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
        self._characters = -1
        self._lock = threading.Lock()
        self._compiling_in: int | None = None

    def hits(self, text: str) -> list[Hit]:
        """Return the hits in a text."""
        if self._characters < 0:
            self._characters = 0
            self._load()
        if self._characters < _CHARS_BEFORE_COMPILING:
            self._characters += len(text)
        elif self._compiling_in != os.getpid():
            self._start()
        return self._current.hits(text)

    def warm_up(self) -> None:
        """Compile the database now, for a server that starts or for a measurement. Later calls do nothing."""
        if isinstance(self._current, HyperscanPrefilter):
            return
        self._compiling_in = os.getpid()
        self._compile()

    def _start(self) -> None:
        with self._lock:
            # A fork stops the thread, so the child process starts its own.
            if self._compiling_in == os.getpid() or isinstance(self._current, HyperscanPrefilter):
                self._compiling_in = os.getpid()
                return
            self._compiling_in = os.getpid()
        threading.Thread(target=self._compile, name="compact-redaction", daemon=True).start()

    def _load(self) -> None:
        with contextlib.suppress(NotCached):
            self._compile(is_compiled=False)

    def _compile(self, *, is_compiled: bool = True) -> None:
        try:
            self._current = HyperscanPrefilter(self._rules, is_compiled=is_compiled)
        except NotCached:
            raise
        except Exception as error:  # any failure of the native library
            _log.warning("Redaction is slower, because Hyperscan cannot be used: %s", error)


class LiteralPrefilter:
    """Searches for the literals of each rule. A rule without literals is tried everywhere."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules_of: dict[str, list[int]] = {}
        for index, rule in enumerate(rules):
            for literal in {literal.lower() for literal in rule.literals}:
                self._rules_of.setdefault(literal, []).append(index)
        self._everywhere = [index for index, rule in enumerate(rules) if not rule.literals]

    def hits(self, text: str) -> list[Hit]:
        """Return the end of each literal. A rule without literals has a hit at the end of the text."""
        lowered = _lower_same_length(text)
        hits: list[Hit] = [(index, -1) for index in self._everywhere]
        if not text.isascii() and HIDDEN.search(text):
            hits.append((NORMALIZE, 0))
        for literal, rules in self._rules_of.items():
            position = lowered.find(literal)
            while position >= 0:
                end = position + len(literal)
                hits += [(index, end) for index in rules]
                position = lowered.find(literal, position + 1)
        hits.sort()
        return hits


class HyperscanPrefilter:
    """Searches for the hints of all rules in one pass, in linear time."""

    def __init__(self, rules: Sequence[Rule], *, is_compiled: bool = True) -> None:
        """Load the databases from the cache, or compile them if `is_compiled` is set. Raise `NotCached` otherwise."""
        self._local = threading.local()
        self._rules_of: list[list[int]] = [[NORMALIZE], [], []]
        expressions: dict[str, int] = {HINT: 0, _RUN_HINT: _HAS_RUN, WORDS_HINT: _HAS_WORDS}
        for index, rule in enumerate(rules):
            for hint in rule.hints or [re.escape(literal) for literal in rule.literals]:
                number = expressions.setdefault(hint, len(expressions))
                if number == len(self._rules_of):
                    self._rules_of.append([])
                self._rules_of[number].append(index)
        alone = {expressions[hint] for rule in rules if rule.is_prose for hint in rule.hints}
        self._runs: list[tuple[range, int]] = []
        for index, rule in enumerate(rules):
            if rule.run_chars is not None:
                self._runs.append((rule.run_chars, len(self._rules_of)))
                self._rules_of.append([index])
        self._databases = _load_databases(expressions, alone, is_compiled=is_compiled)

    def hits(self, text: str) -> list[Hit]:
        """Return the end of each hint."""
        data = text.encode("utf-8", "surrogatepass")
        ends: list[Hit] = []
        scratches = self._scratches()
        self._databases[0].scan(data, match_event_handler=_add_hit, context=ends, scratch=scratches[0])
        if not ends:
            return ends
        if any(number == _HAS_WORDS for number, _ in ends):
            for database, scratch in zip(self._databases[1:], scratches[1:], strict=True):
                database.scan(data, match_event_handler=_add_hit, context=ends, scratch=scratch)
        if any(number == _HAS_RUN for number, _ in ends):
            for start, end in _long_runs(data):
                length = end - start
                ends += [(number, start + MIN_RUN_CHARS) for lengths, number in self._runs if length in lengths]
        if len(data) != len(text):
            ends = list(_in_characters(ends, data))
        hits = [(rule, end) for number, end in ends for rule in self._rules_of[number]]
        hits.sort()
        return hits

    def _scratches(self) -> list[Any]:
        """Return the working memory of this thread. A scan releases the interpreter lock, so none is shared."""
        scratches: list[Any] | None = getattr(self._local, "scratches", None)
        if scratches is None:
            import hyperscan

            scratches = self._local.scratches = [hyperscan.Scratch(database) for database in self._databases]
        return scratches


class NotCached(Exception):
    """The database has to be compiled."""


def _load_databases(expressions: Mapping[str, int], alone: Collection[int], *, is_compiled: bool) -> list[Any]:
    """Return one database for most expressions, and one for each of those that must be alone."""
    import hyperscan

    flags = hyperscan.HS_FLAG_CASELESS | hyperscan.HS_FLAG_DOTALL
    once = flags | hyperscan.HS_FLAG_SINGLEMATCH
    numbered = [
        # Runs are found faster without Hyperscan, which only says if there is one.
        (number, expression.encode(), once if number in {_HAS_RUN, _HAS_WORDS} else flags)
        for expression, number in expressions.items()
    ]
    together = [item for item in numbered if item[0] not in alone]
    groups = [together, *([item] for item in numbered if item[0] in alone)]
    return [_load_database(group, is_compiled=is_compiled) for group in groups]


def _load_database(numbered: list[tuple[int, bytes, int]], *, is_compiled: bool) -> Any:
    """Return the compiled database of expressions, each with its number and flags."""
    import hyperscan

    numbers, expressions, flags = (list(column) for column in zip(*numbered, strict=True))
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


def _add_hit(number: int, _start: int, end: int, _flags: int, hits: Any) -> None:
    hits.append((number, end))


def _long_runs(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each long run of letters and digits that has a digit early on."""
    runs = data.translate(_RUN_TABLE)
    start = runs.find(_RUN)
    while start >= 0:
        end = runs.find(b" ", start + MIN_RUN_CHARS)
        if end < 0:
            end = len(runs)
        # Most paths and long words have no digits.
        if _DIGIT.search(data, start, start + MIN_RUN_CHARS):
            yield start, end
        start = runs.find(_RUN, end)


def _in_characters(hits: list[Hit], data: bytes) -> Iterator[Hit]:
    """Convert positions in UTF-8 to positions in the text."""
    hits.sort(key=lambda hit: hit[1])
    position = characters = 0
    for index, end in hits:
        if end > position:
            piece = data[position:end]
            # A hint may end inside a character, which then counts with the next piece.
            characters += len(piece) if piece.isascii() else len(piece.decode("utf-8", "ignore"))
            position = end
        yield index, characters


_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def _lower_same_length(text: str) -> str:
    lowered = text.lower()
    # A few letters such as İ become two in lower case, which would shift all positions after them.
    return lowered if len(lowered) == len(text) else text.translate(_ASCII_LOWER)
