"""The event catalog agrees with the documentation, the console exporter and the server."""

from __future__ import annotations

import dataclasses
import io
import re
from typing import Any

import pytest
from compact import events
from compact.exporters import ConsoleExporter
from docs.pages import ROOT

OBSERVABILITY = (ROOT / "docs" / "OBSERVABILITY.md").read_text()
SOURCE = ROOT / "compact_client" / "src" / "compact"
EVERY_EVENT = pytest.mark.parametrize("event", events.CATALOG, ids=lambda event: event.name)


SAMPLES = {"bool": True, "int": 42, "float": 0.5, "str": "text", "Sequence": [], "Literal": "text"}


def sample_record(event: type[events.Event]) -> dict[str, Any]:
    """Return a wire dict of the event with a plausible value for each property."""
    fields = {field.name: re.match(r"\w+", str(field.type)) for field in dataclasses.fields(event)}
    properties = {name: SAMPLES.get(match[0] if match else "", {}) for name, match in fields.items()}
    return {"event": event.name, "session_id": "s", "status": "ok", "properties": properties}


def test_catalog_names_are_unique_and_resolve_to_their_class() -> None:
    """A wire name belongs to exactly one class."""
    assert len({event.name for event in events.CATALOG}) == len(events.CATALOG)
    assert [events.event_named(event.name) for event in events.CATALOG] == list(events.CATALOG)
    assert events.event_named("compact.unknown") is None


def test_catalog_contains_every_event_class() -> None:
    """A class that is defined but not listed would be missing from every table."""
    classes = {value for value in vars(events).values() if isinstance(value, type) and issubclass(value, events.Event)}
    assert classes - {events.Event, events.RecordEvent} == set(events.CATALOG)


@EVERY_EVENT
def test_every_event_is_documented(event: type[events.Event]) -> None:
    """Each event has a heading in the documentation and a one-line description in its class."""
    assert re.search(rf"^### {re.escape(event.name)}$", OBSERVABILITY, re.MULTILINE)
    assert 10 < len(event.description()) < 140


@EVERY_EVENT
def test_console_exporter_prints_every_event(event: type[events.Event]) -> None:
    """Each event becomes one line with its short name and some of its properties."""
    stream = io.StringIO()
    ConsoleExporter(stream, color=False).emit(sample_record(event))
    (line,) = stream.getvalue().splitlines()
    _, short_name, text = line.partition(event.name.removeprefix("compact."))
    assert short_name
    assert text.strip()


def test_event_names_are_defined_in_the_catalog_only() -> None:
    """No module of the engine, and none below it, repeats a wire name."""
    names = "|".join(re.escape(event.name) for event in events.CATALOG)
    repeated = re.compile(rf"[\"']({names})[\"']")
    modules = [path for folder in ("engine", "planning", "summarizers") for path in (SOURCE / folder).rglob("*.py")]
    assert [path.name for path in modules if repeated.search(path.read_text())] == []
