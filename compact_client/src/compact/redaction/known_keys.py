"""Remember the keys of dictionaries that are known to be harmless, because keys repeat."""

from __future__ import annotations

from collections.abc import Iterable

from compact.redaction.secret_keys import NAME_KEYS, TEXT_RULES, key_rule

REDACTION_COUNTS = "redactions"
"""The key of the counts per rule in an event, whose own keys are not secret keys."""
# The whole memory is dropped when it is full, so that many different keys cost no more than a few.
_MAX_KEYS = 50_000
_MAX_KEY_CHARS = 80


class KnownKeys:
    """Keys whose names contain no secret, for one set of rules.

    `clean` has all of them, `plain` those that say nothing about their values, and `numeric` those of which only texts
    can be secret.
    """

    __slots__ = ("clean", "numeric", "plain")

    def __init__(self) -> None:
        self.clean: set[str] = set()
        self.plain: set[str] = set()
        self.numeric: set[str] = set()

    def add(self, keys: Iterable[str]) -> None:
        """Remember keys in which no secret was found."""
        for key in keys:
            if len(key) <= _MAX_KEY_CHARS:
                self._add(key)

    def _add(self, key: str) -> None:
        if len(self.clean) >= _MAX_KEYS:
            for known in (self.plain, self.numeric, self.clean):
                known.clear()
        rule = key_rule(key)
        if rule in TEXT_RULES:
            self.numeric.add(key)
        elif rule is None and key not in NAME_KEYS and key != REDACTION_COUNTS:
            self.plain.add(key)
        self.clean.add(key)
