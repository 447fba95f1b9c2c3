"""Messages of every provider's format read as a role, texts, tool calls and results."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewer.chat import PREVIEW_CHARS, parse_message

ARGUMENTS = {"path": "billing/export.py", "limit": 20}
CALL = 'read_file(path="billing/export.py", limit=20)'


@pytest.mark.parametrize(
    ("message", "role", "preview"),
    [
        ({"role": "user", "content": "Fix   the\nlogin."}, "user", "Fix the login."),
        ({"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "image"}]}, "user", "Hi [image]"),
        (
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "function": {"name": "read_file", "arguments": json.dumps(ARGUMENTS)}}],
            },
            "assistant",
            CALL,
        ),
        (
            {"type": "function_call", "call_id": "c", "name": "read_file", "arguments": json.dumps(ARGUMENTS)},
            "assistant",
            CALL,
        ),
        (
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Let me look."},
                    {"type": "tool_use", "id": "c", "name": "read_file", "input": ARGUMENTS},
                ],
            },
            "assistant",
            f"{CALL} Let me look.",
        ),
        ({"type": "function_call_output", "call_id": "c", "output": "42 lines"}, "tool", "42 lines"),
        ({"role": "tool", "tool_call_id": "c", "content": "42 lines"}, "tool", "42 lines"),
        (
            {"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "42 lines"}]}]},
            "user",
            "42 lines",
        ),
        ({"role": "model", "parts": [{"functionCall": {"name": "read_file", "args": ARGUMENTS}}]}, "model", CALL),
        (
            {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
            "assistant",
            "Reasoning: Encrypted reasoning",
        ),
        (
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]},
            "assistant",
            "f({)",
        ),
        ({"role": "user", "content": "Hi", "zone": "EU"}, "user", 'Hi {"zone": "EU"}'),
        ("plain", "", "plain"),
    ],
)
def test_each_format_has_a_role_and_a_preview(message: Any, role: str, preview: str) -> None:
    chat = parse_message(message)
    assert (chat.role, chat.preview) == (role, preview)


def test_a_long_message_is_shortened_and_marked() -> None:
    chat = parse_message({"role": "user", "content": "word " * 500})
    assert len(chat.preview) <= PREVIEW_CHARS
    assert chat.preview.endswith("…")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "role",
                    "type",
                    "content",
                    "text",
                    "tool_calls",
                    "function",
                    "arguments",
                    "input",
                    "output",
                    "summary",
                    "parts",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(_JSON)
def test_any_json_is_shown(message: Any) -> None:
    chat = parse_message(message)
    assert isinstance(chat.preview, str)
    assert isinstance(chat.text, str)
