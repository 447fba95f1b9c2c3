"""A secret with characters inside it that are not shown is still a secret."""

from __future__ import annotations

import pytest
from compact.redaction import default_redactor

KEYS = {"acme": "ghp_1AbcdEfGhIjKlMnOpQrStUvWxYz0123456789", "other": "ghp_9ZyxwVuTsRqPoNmLkJiHgFeDcBa9876543210"}


@pytest.mark.req("S-RED-1")
@pytest.mark.parametrize("tenant", KEYS)
@pytest.mark.parametrize("character", ["\x00", "\ufffd", "\u200b", "\u00ad", "\x00\x00"])
@pytest.mark.parametrize("other", ["", "ü "], ids=["ASCII", "other text"])
def test_a_character_inside_a_secret_does_not_hide_it(tenant: str, character: str, other: str) -> None:
    """All of the secret is masked, with the text before and after it unchanged."""
    key = KEYS[tenant]
    text, _ = default_redactor().text(f"{other}key {key[:9]}{character}{key[9:]} end")
    assert text == f"{other}key <REDACTED> end"


@pytest.mark.req("S-RED-1")
def test_a_secret_in_utf_16_that_was_read_as_ascii_is_hidden() -> None:
    """Programs on Windows write such output: a NUL follows each letter."""
    text = f"key {KEYS['acme']} end".encode("utf-16-le").decode("ascii")
    redacted, counts = default_redactor().text(text)
    assert sum(counts.values()) == 1
    assert "1\0A\0b" not in redacted
