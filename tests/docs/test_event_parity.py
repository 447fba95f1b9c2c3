"""The event catalog agrees with the documentation, the console exporter and the server."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints, is_typeddict

import pytest
from compact import events
from compact.events.reading import event_of, read
from docs.pages import ROOT

from viewer.kinds import KINDS, PREFIX

OBSERVABILITY = (ROOT / "docs" / "OBSERVABILITY.md").read_text()
SOURCE = ROOT / "compact_client" / "src" / "compact"
# The four records have the same properties.
SHARED_SECTIONS = dict.fromkeys(("compact.summarized", "compact.cleared", "compact.dropped"), "compact.externalized")
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


def sample(hint: Any) -> Any:
    """Return a value of a type that an event class declares."""
    arguments = get_args(hint)
    if get_origin(hint) in (Annotated, Literal) or (arguments and type(None) in arguments):
        return sample(arguments[0]) if get_origin(hint) is not Literal else arguments[0]
    if is_typeddict(hint):
        return {name: sample(part) for name, part in get_type_hints(hint).items()}
    origin = get_origin(hint)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"kept": 3}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return []
    if arguments:
        return sample(arguments[0])
    return {bool: True, int: 12, float: 0.5, str: "word"}.get(hint)


def sample_of(event: type[events.Event]) -> dict[str, Any]:
    hints = get_type_hints(event, include_extras=True)
    return {field.name: sample(hints[field.name]) for field in dataclasses.fields(event)}


@EVERY_EVENT
def test_a_sentence_says_all_that_it_should(event: type[events.Event]) -> None:
    """The console, the tail, the inspector and MCP show it. The server reads what the library wrote."""
    complete = event(**sample_of(event))
    sentence = complete.line()
    assert len(sentence) > 3
    assert "?" not in sentence and "None" not in sentence
    received = event_of(event.name, complete.properties())
    assert received == read(event, complete.properties())
    assert received is not None and received.line() == sentence
    assert received.properties() == complete.properties()


@EVERY_EVENT
def test_every_property_is_documented(event: type[events.Event]) -> None:
    """The section of an event names each of its properties."""
    section = OBSERVABILITY.split(f"### {event.name}\n", 1)[1].split("\n### ", 1)[0].split("\n## ", 1)[0]
    shared = SHARED_SECTIONS.get(event.name)
    if shared:
        section += OBSERVABILITY.split(f"### {shared}\n", 1)[1].split("\n### ", 1)[0]
    missing = [name for name in event.public_fields() if f"`{name}`" not in section]
    assert missing == []


def test_server_has_a_kind_for_every_event_and_no_other() -> None:
    """An event without a row in `viewer.kinds` would get a default label and icon."""
    names = {name for name in KINDS if name.startswith(PREFIX)}
    assert names == {event.name for event in events.CATALOG}


@EVERY_EVENT
def test_server_publishes_only_payload_fields_that_exist(event: type[events.Event]) -> None:
    """A payload field that is public on the server is a private field of the event's class."""
    assert set(KINDS[event.name].public_payload) <= set(event.private_fields())


def test_event_names_are_defined_in_the_catalog_only() -> None:
    """No other module of the library or the server repeats a wire name."""
    names = "|".join(re.escape(event.name) for event in events.CATALOG)
    repeated = re.compile(rf"[\"']({names})[\"']")
    modules = [path for folder in (SOURCE, ROOT / "ingest", ROOT / "viewer") for path in folder.rglob("*.py")]
    modules = [path for path in modules if path.parent.name not in {"events", "migrations"}]
    # The docstrings of `compact.testing` and the programs on the start page show names to people.
    shown = {"testing.py", "snippets.py"}
    assert [path.name for path in modules if path.name not in shown and repeated.search(path.read_text())] == []
