"""The event catalog agrees with the documentation, the console exporter and the server."""

from __future__ import annotations

import re

import pytest
from compact import events
from compact.exporters.console_lines import LINES
from docs.pages import ROOT

from viewer.kinds import KINDS, PREFIX

OBSERVABILITY = (ROOT / "docs" / "OBSERVABILITY.md").read_text()
SOURCE = ROOT / "compact_client" / "src" / "compact"
EVERY_EVENT = pytest.mark.parametrize("event", events.CATALOG, ids=lambda event: event.name)


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


def test_console_exporter_has_a_line_for_every_event() -> None:
    """An event without a line would be printed as a list of its properties."""
    assert set(LINES) == set(events.CATALOG)


def test_server_has_a_kind_for_every_event_and_no_other() -> None:
    """An event without a row in `viewer.kinds` would get a default label and icon."""
    names = {name for name in KINDS if name.startswith(PREFIX)}
    assert names == {event.name for event in events.CATALOG}


@EVERY_EVENT
def test_server_publishes_only_payload_fields_that_exist(event: type[events.Event]) -> None:
    """A payload field that is public on the server is a private field of the event's class."""
    assert set(KINDS[event.name].public_payload) <= set(event.private_fields())


def test_event_names_are_defined_in_the_catalog_only() -> None:
    """No other module of the library repeats a wire name."""
    names = "|".join(re.escape(event.name) for event in events.CATALOG)
    repeated = re.compile(rf"[\"']({names})[\"']")
    # The docstrings of `compact.testing` show how to look up an event by its name.
    modules = [path for path in SOURCE.rglob("*.py") if path.parent.name != "events" and path.name != "testing.py"]
    assert [path.name for path in modules if repeated.search(path.read_text())] == []
