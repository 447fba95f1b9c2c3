"""Positions in UTF-8 are converted to positions in characters, also where only some parts are ASCII."""

from __future__ import annotations

import pytest
from compact.redaction.encoded_text import EncodedText
from compact.redaction.findings import BOUNDARY
from compact.redaction.prefilter import HyperscanPrefilter
from compact.redaction.rules import DEFAULT_RULES
from hypothesis import given
from hypothesis import strategies as st
from redaction_secrets import secrets

PARTS = st.lists(st.text(st.sampled_from("a1 ü€😀\ud800"), max_size=6), min_size=1, max_size=6)


@given(PARTS, st.data())
def test_positions_in_bytes_become_positions_in_characters(parts: list[str], data: st.DataObject) -> None:
    """A position inside a character becomes the one after it."""
    text = BOUNDARY.join(parts)
    sizes = [len(char.encode("utf-8", "surrogatepass")) for char in text]
    encoded = EncodedText(parts)
    assert encoded.data == text.encode("utf-8", "surrogatepass")
    ends = data.draw(st.lists(st.integers(0, len(encoded.data)), max_size=8))
    expected = [next(count for count in range(len(text) + 1) if sum(sizes[:count]) >= end) for end in ends]
    assert encoded.in_characters({7: ends}) == {7: expected}


def test_a_prefilter_finds_the_same_with_and_without_parts() -> None:
    """Every third part is ASCII, and secrets are in all of them."""
    pytest.importorskip("hyperscan")
    prefilter = HyperscanPrefilter(DEFAULT_RULES)
    parts = [f"{case.value} {'ü😀'[: number % 3]}" for number, case in enumerate(secrets(3))]
    text = BOUNDARY.join(parts)
    assert prefilter.hits(text, parts) == prefilter.hits(text) != {}
