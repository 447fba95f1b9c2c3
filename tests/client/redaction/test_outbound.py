"""What leaves is redacted; what stays in memory is not touched."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from compact.messages import Message, ToolCall
from compact.redaction import MASK
from compact.redaction.outbound import OutboundRedactor, RedactionSettings


@pytest.mark.req("S-RED-1")
def test_every_part_of_a_message_is_redacted_on_a_copy() -> None:
    """Content, parts, arguments, meta and the provider's own item: all of it, and none of the original."""
    message = Message(
        "assistant",
        [{"type": "text", "text": "api_key=sk-abc123"}],
        {"note": "password=hunter2"},
        tool_calls=(ToolCall("c1", "login", '{"password": "hunter2"}'),),
        source={"role": "assistant", "content": "api_key=sk-abc123"},
    )
    counts: Counter[str] = Counter()
    clean = OutboundRedactor().redact_message(message, counts)
    assert clean.content == [{"type": "text", "text": f"api_key={MASK}"}]
    assert clean.tool_calls[0].arguments == f'{{"password": "{MASK}"}}'
    assert clean.to_dict()["content"] == f"api_key={MASK}"
    assert clean.meta["note"] == f"password={MASK}"
    assert counts == {"api_key": 2, "password": 2}
    assert message.text == "api_key=sk-abc123"
    assert message.tool_calls[0].arguments == '{"password": "hunter2"}'


def test_a_clean_message_is_the_same_object() -> None:
    """Nothing to hide, nothing copied."""
    message = Message("user", "hello")
    assert OutboundRedactor().redact_message(message) is message


@pytest.mark.req("S-RED-1")
def test_a_hook_comes_before_the_patterns() -> None:
    """A function of the user's own sees the whole message, and patterns still apply to what it returns."""
    outbound = OutboundRedactor(hook=lambda m: replace(m, content=m.text.replace("Ada", "A.")))
    counts: Counter[str] = Counter()
    assert outbound.redact_message(Message("user", "Ada: password=x1"), counts).text == f"A.: password={MASK}"
    assert counts == {"hook": 1, "password": 1}


def test_redaction_can_be_switched_off_and_tuned() -> None:
    """Off means off; allow-lists and own patterns come from the settings."""
    assert OutboundRedactor(RedactionSettings(enabled=False)).redact_value("password=x1") == "password=x1"
    tuned = OutboundRedactor(RedactionSettings(patterns=(r"EMP-\d+",), allow=("email",)))
    assert tuned.redact_value("EMP-7 ada@lovelace.org") == f"{MASK} ada@lovelace.org"
