"""Replace secrets and personal data before anything leaves the process."""

from __future__ import annotations

from compact.redaction.findings import MASK, MASKED, Finding, Replace
from compact.redaction.labels import redact_items
from compact.redaction.outbound import OutboundRedactor, RedactionSettings
from compact.redaction.patterns import check_pattern
from compact.redaction.redactor import Redactor, default_redactor
from compact.redaction.rules import DEFAULT_RULES, Rule

__all__ = [
    "DEFAULT_RULES",
    "MASK",
    "MASKED",
    "Finding",
    "OutboundRedactor",
    "RedactionSettings",
    "Redactor",
    "Replace",
    "Rule",
    "check_pattern",
    "default_redactor",
    "redact_items",
]
