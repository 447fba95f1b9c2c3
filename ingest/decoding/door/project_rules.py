"""Custom redaction rules of a project, in addition to `compact`'s own.

The rules arrive with the ingest key of a request and travel with its body to a worker process. A change therefore takes
effect as soon as the key is looked up again, at most `keys.CACHE_TTL_S` seconds later.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec
from compact.redaction import DEFAULT_RULES, Redactor, check_pattern, default_redactor

logger = logging.getLogger("ariadne.ingest")

MAX_RULES = 50
"""For each project. Every pattern is searched in every text."""
RULE_NAMES = frozenset(rule.name for rule in DEFAULT_RULES) | {"phone", "pin", "us_ssn"}
# Document 002 specifies these two, so they cannot be turned off.
_FLOOR = frozenset({"api_key", "password"})
_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")
_MIN_LITERAL_CHARS = 4


class ProjectRules(msgspec.Struct, frozen=True, array_like=True):
    """The rules of one project: patterns with their names, and exceptions, and the key of its pseudonyms."""

    id_key: bytes
    patterns: tuple[tuple[str, str], ...] = ()
    allow: tuple[str, ...] = ()

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence[str]], id_key: bytes) -> ProjectRules:
        """Return the rules of rows with kind, name and value."""
        rows = list(rows)
        return cls(
            id_key,
            patterns=tuple((name, value) for kind, name, value in rows if kind == "pattern"),
            allow=tuple(value for kind, _, value in rows if kind == "allow"),
        )


NO_RULES = ProjectRules(secrets.token_bytes(32))
"""No rules of a project. Its pseudonyms are those of this process only."""


@lru_cache(maxsize=256)
def redactor_for(rules: ProjectRules) -> Redactor:
    """Return the redactor with the default rules and those of a project."""
    if not rules.patterns and not rules.allow:
        return default_redactor()
    patterns: dict[str, str] = {}
    for name, pattern in rules.patterns:
        try:
            check_pattern(pattern)
        except ValueError as error:
            # Pages validate patterns, so this one was written to the database in another way.
            logger.error("redaction_pattern_ignored name=%s reason=%s", name, error)
        else:
            patterns[name] = pattern
    return Redactor(patterns=patterns, allow=[text for text in rules.allow if text not in _FLOOR])


def find_pattern_problem(name: str, pattern: str) -> str | None:
    """Return why a project cannot have this pattern, or None."""
    if not _NAME.fullmatch(name):
        return "A name has lowercase letters, digits and underscores, and starts with a letter."
    if name in RULE_NAMES:
        return f"{name} is the name of a built-in rule. Choose another one."
    try:
        check_pattern(pattern)
    except ValueError as error:
        return f"The pattern is invalid: {error}"
    return None


def find_exception_problem(text: str) -> str | None:
    """Return why a project cannot have this exception, or None."""
    if text in _FLOOR:
        return f"The rule {text} can't be turned off."
    if text not in RULE_NAMES and len(text.replace("*", "")) < _MIN_LITERAL_CHARS:
        return f"An exception needs at least {_MIN_LITERAL_CHARS} characters besides *."
    return None
