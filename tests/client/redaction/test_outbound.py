"""Outbound redaction: exported copies are redacted, and the originals are unchanged."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from compact.messages import Message, ToolCall
from compact.redaction import MASK
from compact.redaction.outbound import OutboundRedactor, RedactionSettings


@pytest.mark.req("S-RED-1")
def test_every_part_of_a_message_is_redacted_in_a_copy() -> None:
    """Content, arguments, meta and the provider's item are redacted, and the original keeps its secrets."""
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


def test_a_message_without_secrets_is_returned_as_is() -> None:
    """No copy is made if there is nothing to redact."""
    message = Message("user", "hello")
    assert OutboundRedactor().redact_message(message) is message


@pytest.mark.req("S-RED-1")
def test_the_hook_runs_before_the_rules() -> None:
    """The user's hook receives the whole message, and the rules apply to its result."""
    outbound = OutboundRedactor(hook=lambda m: replace(m, content=m.text.replace("Ada", "A.")))
    counts: Counter[str] = Counter()
    assert outbound.redact_message(Message("user", "Ada: password=x1"), counts).text == f"A.: password={MASK}"
    assert counts == {"hook": 1, "password": 1}


def test_redaction_can_be_disabled_and_customized() -> None:
    """Settings can disable redaction, add patterns and allow rules."""
    assert OutboundRedactor(RedactionSettings(enabled=False)).redact_value("password=x1") == "password=x1"
    custom = OutboundRedactor(RedactionSettings(patterns=(r"EMP-\d+",), allow=("email",)))
    assert custom.redact_value("EMP-7 ada@lovelace.org") == f"{MASK} ada@lovelace.org"


@pytest.mark.req("S-RED-1")
def test_a_private_key_that_is_split_over_two_messages_is_redacted_in_both() -> None:
    """Adjacent messages are searched together. Messages without a secret are returned as they are."""
    lines = ["MIIEpAIBAAKCAQEA" + "q7Xz81kPwT3r" * 4, "Zk" * 10 + "4T9b" * 11]
    first = Message("user", f"Here is the key:\n-----BEGIN RSA PRIVATE KEY-----\n{lines[0]}")
    second = Message("user", f"{lines[1]}\n-----END RSA PRIVATE KEY-----\nplease install it")
    third = Message("assistant", "done")
    redacted = OutboundRedactor().redact_messages([first, second, third])
    texts = [message.text for message, _ in redacted]
    assert not any(line in text for line in lines for text in texts)
    assert texts[1].endswith("please install it")
    assert redacted[2] == (third, {}) and redacted[2][0] is third
