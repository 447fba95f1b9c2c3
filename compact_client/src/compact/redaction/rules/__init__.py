"""The default rules for secrets and personal data.

Guarantee: every rule runs in linear time. A pattern is only tried near one of its literals or hints, it cannot fail
after a long scan (its repeats are possessive or bounded), and it never starts with an unbounded repeat.
"""

from __future__ import annotations

from compact.redaction.rules.assignments import ASSIGNMENTS
from compact.redaction.rules.commands import COMMANDS
from compact.redaction.rules.encodings import ENCODED
from compact.redaction.rules.headers import HEADERS, URLS
from compact.redaction.rules.pairs import PAIRS
from compact.redaction.rules.pii import PII
from compact.redaction.rules.private_keys import PRIVATE_KEYS
from compact.redaction.rules.prose import PROSE
from compact.redaction.rules.rule import Rule
from compact.redaction.rules.structures import STRUCTURES
from compact.redaction.rules.vendors import VENDORS
from compact.redaction.rules.wallets import WALLETS

__all__ = ["DEFAULT_RULES", "Rule"]

DEFAULT_RULES: tuple[Rule, ...] = (
    *PRIVATE_KEYS,
    *HEADERS,
    *URLS,
    *ASSIGNMENTS,
    *PAIRS,
    *STRUCTURES,
    *COMMANDS,
    *PROSE,
    *VENDORS,
    *WALLETS,
    *ENCODED,
    *PII,
)
