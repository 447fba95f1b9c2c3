"""The redacted view of a session: two forms of each message, and the way back into the prompt."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from compact.messages import Message, RedactedMessage, RedactedText, RedactedTree, ToolCall
from compact.planning.tool_results.durability import ToolResultEnvelope
from compact.redaction import MASK
from compact.redaction.outbound import OutboundRedactor, RedactionSettings
from compact.redaction.view import RedactionView, mask_conversation
from hypothesis import given, settings
from hypothesis import strategies as st

LINES = ["MIIEpAIBAAKCAQEA" + "q7Xz81kPwT3r" * 4, "Zk" * 10 + "4T9b" * 11]
SECRETS = (
    "password: hunter2-Qz81",
    "mail ada@lovelace.org",
    "api_key=sk-abc123def456ghi789",
    '{"password": 471147, "a": 1}',
)


def log_messages(*texts: str, start: int = 1) -> list[Message]:
    """Messages with ids, as the log has them."""
    return [Message("user", text, id=f"m{number}-abc") for number, text in enumerate(texts, start=start)]


@pytest.mark.req("S-RED-1")
def test_every_part_of_a_message_is_redacted_in_a_copy() -> None:
    """Content, arguments, meta and the provider's item are redacted, and the original keeps its secrets."""
    message = Message(
        "assistant",
        [{"type": "text", "text": "api_key=sk-abc123"}],
        {"note": "password=hunter2", "envelope": ToolResultEnvelope("run", "c1", key_fields={"token": "hunter2x"})},
        tool_calls=(ToolCall("c1", "login", '{"password": "hunter2"}'),),
        id="m1-abc",
        source={"role": "assistant", "content": "api_key=sk-abc123"},
    )
    view = RedactionView()
    view.update([message])
    clean = view.mask(message)
    assert clean.content == [{"type": "text", "text": f"api_key={MASK}"}]
    assert clean.tool_calls[0].arguments == f'{{"password": "{MASK}"}}'
    assert clean.to_dict()["content"] == f"api_key={MASK}"
    assert clean.meta["note"] == f"password={MASK}"
    assert clean.meta["envelope"].key_fields == {"token": MASK}
    assert view.counts(message) == {"api_key": 1}
    assert (message.text, message.tool_calls[0].arguments) == ("api_key=sk-abc123", '{"password": "hunter2"}')
    assert (
        "hunter2" not in str(view.reversible(message)) and view.restore(view.reversible(message).text) == message.text
    )


def test_a_message_without_secrets_is_equal_to_its_original() -> None:
    """Both forms share the content with the original."""
    (message,) = log_messages("hello")
    view = RedactionView()
    assert view.mask(message) == message and view.mask(message).content is message.content


@pytest.mark.req("A-PRI-1")
def test_redacted_values_cannot_be_made_from_plain_text() -> None:
    """Neither the constructors nor `replace` create one, so a sink that asks for the type gets redacted text."""
    redacted = RedactionView().mask(Message("user", "hello"))
    for forge in (
        lambda: RedactedMessage("user", "raw"),
        lambda: replace(redacted, content="raw"),
        lambda: RedactedText("raw"),
        lambda: RedactedTree(text="raw"),
    ):
        with pytest.raises(TypeError, match="redaction view"):
            forge()
    assert isinstance(RedactionView().text("raw"), RedactedText)
    assert isinstance(RedactionView().tree({"text": "raw"}), RedactedTree)


@pytest.mark.parametrize("copy_of", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_redacted_values_can_be_copied(copy_of: Callable[[Any], Any]) -> None:
    """An exporter may keep a copy of an event, or send it to another process."""
    view = RedactionView()
    message = view.mask(Message("user", "hello"))
    event = {"text": view.text("raw"), "tree": view.tree({"texts": ["raw"]}), "message": message}
    assert copy_of(event) == event
    assert copy_of(event["text"]) == "raw" and copy_of(event["tree"]) == {"texts": ["raw"]}


@pytest.mark.req("S-RED-1", "A-PRI-1")
def test_a_secret_that_is_split_over_two_messages_is_found_in_both() -> None:
    """It is also found if the second half arrives after the first was redacted."""
    first, second, third = log_messages(
        f"Here is the key:\n-----BEGIN RSA PRIVATE KEY-----\n{LINES[0]}",
        f"{LINES[1]}\n-----END RSA PRIVATE KEY-----\nplease install it",
        "done",
    )
    for batches in ([[first, second, third]], [[first], [first, second], [first, second, third]]):
        view = RedactionView()
        for batch in batches:
            view.update(batch)
        texts = [view.mask(message).text for message in (first, second, third)]
        assert not any(line in text for line in LINES for text in texts)
        assert texts[1].endswith("please install it") and texts[2] == "done"


@settings(max_examples=60)
@given(st.lists(st.sampled_from([*SECRETS, "hello", "REDACTED_1_001", f"a {MASK} b", "1 2 3"]), min_size=1, max_size=8))
def test_restoring_the_reversible_form_gives_the_original(texts: list[str]) -> None:
    """The reversible form has no secret, and it has the same gaps as the masked one."""
    messages = log_messages(*(f"{text} and {other}" for text, other in zip(texts, reversed(texts), strict=True)))
    view = RedactionView()
    view.update(messages)
    for message in messages:
        reversible = view.reversible(message).text
        assert view.restore(reversible).replace('"471147"', "471147") == message.text
        assert not any(secret in reversible for secret in ("hunter2", "ada@", "sk-abc", "471147"))
        assert not any(secret in view.mask(message).text for secret in ("hunter2", "ada@", "sk-abc", "471147"))


def test_a_text_that_looks_like_a_placeholder_is_not_replaced_with_a_secret() -> None:
    """A tool output can quote a placeholder. It must not receive another message's password."""
    secret, quote = log_messages("password: hunter2-Qz81", "see REDACTED_1_001 there")
    view = RedactionView()
    view.update([secret, quote])
    assert view.reversible(secret).text == "password: REDACTED_1_001"
    assert view.restore(view.reversible(quote).text) == quote.text


def test_two_sessions_do_not_share_values() -> None:
    """The same placeholder restores to each session's own value, and to nothing in a third one."""
    views = [RedactionView() for _ in range(3)]
    texts = ["password: first-Qz81", "password: second-Qz82"]
    for view, text in zip(views, texts, strict=False):
        view.update(log_messages(text))
    assert [view.restore("it is REDACTED_1_001") for view in views] == [
        "it is first-Qz81",
        "it is second-Qz82",
        "it is REDACTED_1_001",
    ]


@pytest.mark.req("S-RED-1")
def test_derived_texts_leave_with_plain_masks() -> None:
    """A summary with placeholders, and with a secret that a summarizer added, is masked when it leaves."""
    (message,) = log_messages("password: hunter2-Qz81")
    view = RedactionView()
    view.update([message])
    summary = f"- {view.reversible(message).text}, also token=abcdef123456"
    assert view.text(summary) == f"- password: {MASK}, also token={MASK}"
    assert view.tree({"facts": [summary]}) == {"facts": [f"- password: {MASK}, also token={MASK}"]}
    protected = view.protect(summary)
    assert "abcdef123456" not in protected
    assert view.restore(protected) == "- password: hunter2-Qz81, also token=abcdef123456"


def test_a_restored_summary_has_the_hash_of_its_masked_form() -> None:
    """The ledger's hash of a summary is that of what was archived, not of what the prompt contains."""
    (message,) = log_messages("password: hunter2-Qz81")
    view = RedactionView()
    view.update([message])
    template = Message("assistant", f"<COMPACT-SUMMARY v1>\n{view.reversible(message).text}", id="summary-v1")
    restored = view.restore_message(template)
    assert restored.text == "<COMPACT-SUMMARY v1>\npassword: hunter2-Qz81"
    masked = Message("assistant", f"<COMPACT-SUMMARY v1>\npassword: {MASK}")
    assert view.hash(restored) == RedactionView().hash(masked)


def test_a_host_that_shows_a_restored_summary_as_its_own_message() -> None:
    """The values are masked even where no rule finds them."""
    (message,) = log_messages("password: hunter2-Qz81")
    view = RedactionView()
    view.update([message])
    shown = Message("assistant", "<COMPACT-SUMMARY v1>\nThe word is hunter2-Qz81.", id="m2-abc")
    view.update([message, shown])
    assert view.mask(shown).text == f"<COMPACT-SUMMARY v1>\nThe word is {MASK}."


@pytest.mark.req("S-RED-1")
def test_the_hook_runs_before_the_rules_and_can_be_reversed() -> None:
    """The caller's function receives the whole message. What it removes is restored in the prompt only."""

    def hook(message: Message) -> Message:
        return replace(message, content=message.text.replace("Ada", "A."))

    text = "Ada said: password=x1"
    message = Message("user", text, id="m1-abc", source={"role": "user", "content": text})
    view = RedactionView(OutboundRedactor(hook=hook))
    view.update([message])
    assert view.mask(message).to_dict() == {"role": "user", "content": f"A. said: password={MASK}"}
    assert view.counts(message) == {"hook": 1, "password": 1}
    assert "Ada" not in view.reversible(message).text
    assert view.restore(view.reversible(message).text) == text


def test_disabled_redaction_keeps_every_text() -> None:
    """The manager warns about it."""
    (message,) = log_messages("password: hunter2-Qz81")
    view = RedactionView(OutboundRedactor(RedactionSettings(enabled=False)))
    assert view.mask(message).text == view.reversible(message).text == message.text


def test_the_cache_is_bounded_and_makes_each_form_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A known message is not redacted again, except as the neighbor of a new one."""
    redactor = OutboundRedactor()
    redacted: list[int] = []
    real = redactor.redact_values

    def count(values: Any) -> Any:
        redacted.append(len(values))
        return real(values)

    monkeypatch.setattr(redactor, "redact_values", count)
    view = RedactionView(redactor, max_messages=5)
    messages = log_messages(*(f"text {number}" for number in range(4)))
    view.update(messages)
    view.update(messages)
    view.update([*messages, *log_messages("new", start=5)])
    assert redacted == [5, 3]  # the first of each is the list of labels
    assert [view.mask(message) for message in messages] == messages
    view.update(log_messages("x", "y", "z", start=6))
    assert len(view._entries) == 5


def test_messages_of_no_session_are_masked_by_the_default_rules() -> None:
    """A storage adapter that is called directly archives no secret either."""
    (clean,) = mask_conversation([Message("user", "password: hunter2-Qz81")])
    assert clean.text == f"password: {MASK}"
    assert mask_conversation([clean]) == [clean]
    assert copy.copy(clean.content) == clean.content
