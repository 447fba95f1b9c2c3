"""Redaction happens once, at the edge, and nothing leaves the process around it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import Recorder, chat_turns
from compact import CompactConfig, CompactManager, Message, events
from compact.exporters.redaction import RedactingExporter
from compact.redaction import MASK
from compact.redaction.outbound import OutboundRedactor, RedactionSettings

SECRET = "password=hunter22"
MASKED = f"password={MASK}"


def redact(event: dict[str, Any], **options: Any) -> dict[str, Any]:
    recorder = Recorder()
    RedactingExporter(recorder, OutboundRedactor(**options)).emit(event)
    return recorder.events[0]


@pytest.mark.req("S-RED-1")
@pytest.mark.parametrize("key", ["name", "properties", "data", "metadata", "payload"])
def test_every_part_with_content_is_redacted(key: str) -> None:
    """The other keys are ids and times, and they arrive unchanged."""
    event = {"session_id": "s", "span_id": "1", key: SECRET if key == "name" else {"text": SECRET}}
    assert redact(event) == {"session_id": "s", "span_id": "1", key: MASKED if key == "name" else {"text": MASKED}}


@pytest.mark.req("S-RED-1")
def test_the_original_event_is_not_changed() -> None:
    """Redaction works on a copy."""
    event = {"properties": {"text": SECRET}}
    redact(event)
    assert event == {"properties": {"text": SECRET}}


def test_the_hook_sees_only_payload_fields_that_quote_messages() -> None:
    """Ids and ledgers do not pass through the caller's function."""
    payload = {"summary": "Ada paid.", "structured": {"facts": ["Ada paid."], "style": "Ada"}}
    event = {"event": events.SummaryCreatedEvent.name, "properties": {"model": "Ada"}, "payload": payload}

    def hook(message: Message) -> Message:
        return replace(message, content=message.text.replace("Ada", "A."))

    assert redact(event, hook=hook) == {
        "event": "compact.summary_created",
        "properties": {"model": "Ada"},
        "payload": {"summary": "A. paid.", "structured": {"facts": ["A. paid."], "style": "Ada"}},
    }


def test_disabled_redaction_passes_events_unchanged() -> None:
    """The manager warns about it before it exports anything."""
    assert redact({"payload": {"text": SECRET}}, settings=RedactionSettings(enabled=False)) == {
        "payload": {"text": SECRET}
    }


class Storage:
    """A storage that records events only."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def save_transcript(self, session_id: str, transcript: Any) -> None:
        return None

    def save_summary(self, session_id: str, summary: Message, step: int) -> None:
        return None

    def save_event(self, session_id: str, event: dict[str, Any]) -> None:
        self.events.append((session_id, event))


@pytest.mark.req("S-RED-1")
def test_exporter_and_storage_receive_the_same_redacted_events() -> None:
    """Each event is redacted once for all of its targets."""
    recorder, storage = Recorder(), Storage()
    manager = CompactManager(CompactConfig("gpt-5", 2000, exporter=recorder, storage=storage))
    manager.manual_compact("s", [Message("user", f"My {SECRET}. Remember it."), *chat_turns(12)])
    assert storage.events == [("s", event) for event in recorder.events]
    assert "hunter22" not in str(recorder.events)


@pytest.mark.req("S-RED-1")
def test_an_event_without_a_check_is_redacted_too() -> None:
    """Integrations report their warnings through the manager."""
    recorder = Recorder()
    manager = CompactManager(CompactConfig("gpt-5", 2000, exporter=recorder))
    manager.emit_event("s", events.WarningEvent(severity="low", code="server_managed", message=f"It has {SECRET}"))
    (event,) = recorder.events
    assert (event["session_id"], event["event"]) == ("s", "compact.warning")
    assert event["properties"]["message"] == f"It has {MASKED}"


def test_added_exporters_receive_redacted_events() -> None:
    """`add_exporter` cannot bypass the redaction."""
    recorder = Recorder()
    manager = CompactManager(CompactConfig("gpt-5", 2000))
    manager.preflight("s", chat_turns(1))
    manager.add_exporter(recorder)
    manager.manual_compact("s", chat_turns(1), note=SECRET)
    assert recorder.last("compact.trigger_decision")["note"] == MASKED
    assert manager.cfg.exporter is recorder


def test_configuration_is_read_only() -> None:
    """Assigning `cfg` used to ignore a new policy silently."""
    manager = CompactManager(CompactConfig("gpt-5", 2000))
    with pytest.raises(AttributeError):
        manager.cfg = CompactConfig("gpt-5", 4000)
