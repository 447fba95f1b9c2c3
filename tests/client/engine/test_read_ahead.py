"""Messages are read in the background once a session has used half of its trigger."""

from __future__ import annotations

import os
import threading

import pytest
from compact import CompactConfig, CompactManager
from compact.engine import preflight
from compact.messages import Message
from compact.reading.blocks import _output_lines, _prose_blocks
from compact.redaction.view import RedactionView
from compact.summarizers.read_ahead import READ_AHEAD, ReadAhead

WINDOW = 8_000
SECRETS = {"acme": "sk-proj-" + "a1B2c3D4" * 5, "globex": "sk-proj-" + "z9Y8x7W6" * 5}


@pytest.fixture
def passed(monkeypatch):
    """The messages that each preflight passes to the reader."""
    lists: list[list[Message]] = []
    monkeypatch.setattr(preflight.READ_AHEAD, "add", lambda session, messages: lists.append(messages))
    return lists


def history(name: str, words: int, *, secret: str = "") -> list[dict]:
    function = {"name": "read", "arguments": '{"path": "src/app.py"}'}
    return [
        {"role": "user", "content": f"Deploy {name} with {secret or 'no key'}. " + "and check it again " * words},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c1", "content": f"def {name}_main():\n    return {len(name)}"},
        {"role": "user", "content": f"Now deploy {name} for good."},
    ]


def manager() -> CompactManager:
    return CompactManager(CompactConfig("gpt-5", WINDOW))


def test_messages_are_read_before_the_compaction():
    items = history("read_before", 1_100)
    manager().preflight("s", items)
    assert READ_AHEAD.wait(20)
    assert items[0]["content"] in _prose_blocks
    assert items[2]["content"] in _output_lines


def test_a_session_below_half_of_the_trigger_is_not_read(passed):
    manager().preflight("s", history("not_read", 200))
    assert passed == []


def test_each_message_is_read_once_with_the_messages_before_it(passed):
    items, client = history("once", 1_100), manager()
    client.preflight("s", items)
    client.preflight("s", items)
    items.append({"role": "assistant", "content": "Deployed."})
    client.preflight("s", items)
    assert [len(messages) for messages in passed] == [4, 5]


def test_reading_ahead_does_not_change_the_prompt(monkeypatch):
    def compact_history(name: str) -> list:
        items, client = history(name, 1_100), manager()
        client.preflight("s", items[:-1])
        assert READ_AHEAD.wait(20)
        return client.manual_compact("s", items)

    ahead = compact_history("same_a")
    monkeypatch.setattr(preflight.READ_AHEAD, "add", lambda session, messages: None)
    assert str(ahead).replace("same_a", "same_b") == str(compact_history("same_b"))


def test_the_reader_gets_no_secret_of_any_tenant(passed):
    client = manager()
    for tenant, secret in SECRETS.items():
        client.preflight(tenant, history(tenant, 1_100, secret=secret))
    texts = ["\n".join(message.text for message in messages) for messages in passed]
    assert ["acme_main" in text for text in texts] == [True, False]
    assert ["globex_main" in text for text in texts] == [False, True]
    assert not any(secret in text for secret in SECRETS.values() for text in texts)


def redact_text(text: str) -> list[Message]:
    return [RedactionView().reversible(Message("user", text, id="m1"))]


def test_a_message_that_cannot_be_read_does_not_end_the_reader():
    reader = ReadAhead()
    reader.add("s", [object()])
    reader.add("s", redact_text("The reader goes on after an error, as this line shows."))
    assert reader.wait(20)
    assert "The reader goes on after an error, as this line shows." in _prose_blocks


def test_a_process_that_may_start_no_thread_reads_nothing(monkeypatch):
    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    reader = ReadAhead()
    reader.add("s", redact_text("No thread can be started for this line."))
    assert reader.wait(20)
    assert "No thread can be started for this line." not in _prose_blocks


def test_a_compaction_ends_the_reading_for_its_session():
    reader = ReadAhead()
    long = [
        message for number in range(500) for message in redact_text(f"Line {number} of a session that compacts now.")
    ]
    other = "The messages of another session are still read."
    for _ in range(40):
        reader.add("compacting", long)
    reader.add("other", redact_text(other))
    reader.cancel("compacting")
    assert [reading.session for reading in reader._pending if reading.session == "compacting"] == []
    assert reader.wait(20)
    assert other in _prose_blocks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_its_own_reader():
    READ_AHEAD.add("s", redact_text("The parent has a reader thread."))
    assert READ_AHEAD.wait(20)
    text = "The child has none, and starts its own."
    with READ_AHEAD._changed:  # The child inherits a locked lock.
        child = os.fork()
        if child == 0:
            READ_AHEAD.add("s", redact_text(text))
            os._exit(0 if READ_AHEAD.wait(20) and text in _prose_blocks else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
