"""Agents' Markdown is rendered in linear time."""

from __future__ import annotations

import pytest
from growth import assert_linear

from viewer.templatetags.ariadne import markdown

SUMMARY = (
    "## Goal\n\nFix **the login** for `users.py`.\n\n- read `auth.py` and `tests.py` [m3]\n- ran the *failing* test\n\n"
)


@pytest.mark.req("A-LIN-1")
@pytest.mark.parametrize(
    "unit", ["[", "[]", "**a*", "_a __b ", "`a``", "![[]()", "<a ", "&#", "|a|b|\n", "-\n", "a|b\n-|-\n", "> "]
)
def test_markup_takes_linear_time(unit: str) -> None:
    """Text that is mostly markup costs at most 20 times as much as a summary of the same length."""
    assert_linear(
        markdown, lambda size: unit * (size // len(unit)), ordinary=lambda size: SUMMARY * (size // len(SUMMARY))
    )


def test_text_that_is_mostly_markup_is_shown_as_it_is() -> None:
    assert markdown("[<b>" * 1000) == f"<pre>{'[&lt;b&gt;' * 1000}</pre>"
    assert "<strong>the login</strong>" in markdown(SUMMARY * 50)


def test_very_long_text_is_shown_as_it_is() -> None:
    """A summary of 200 kB with short lines would be 10,000 elements."""
    text = "Valve V-7 is closed.\n" * 10_000
    assert markdown(text) == f"<pre>{text}</pre>"
