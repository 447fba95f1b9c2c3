"""Outbound redaction of JSON values: settings select the rules."""

from __future__ import annotations

from compact.redaction import MASK
from compact.redaction.outbound import OutboundRedactor, RedactionSettings


def test_redaction_can_be_disabled_and_customized() -> None:
    """Settings can disable redaction, add patterns and allow rules."""
    assert OutboundRedactor(RedactionSettings(enabled=False)).redact_value("password=x1") == "password=x1"
    custom = OutboundRedactor(RedactionSettings(patterns=(r"EMP-\d+",), allow=("email",)))
    assert custom.redact_value("EMP-7 ada@lovelace.org") == f"{MASK} ada@lovelace.org"
