"""The default rules for secrets and personal data.

Guarantee: every pattern runs in linear time. A pattern is only tried where one of its literals occurs, it cannot fail
after a long scan (its repeats are possessive or bounded), and it never starts with an unbounded repeat.

The vendor prefixes follow the maintained rule set of gitleaks (MIT) with looser tails. A log may contain a truncated
secret, and a missed secret is worse than a false positive.
"""

from __future__ import annotations

from compact.redaction.rules.assignments import ASSIGNMENTS
from compact.redaction.rules.credentials import HEADERS, KEYS, URLS
from compact.redaction.rules.pii import PII
from compact.redaction.rules.rule import Rule
from compact.redaction.rules.vendors import TELEGRAM, VENDORS

__all__ = ["DEFAULT_RULES", "Rule"]

DEFAULT_RULES: tuple[Rule, ...] = (*KEYS, *HEADERS, *URLS, *ASSIGNMENTS, *VENDORS, TELEGRAM, *PII)
