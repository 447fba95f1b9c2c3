"""What the code has, the pages name: settings, events and their fields, addresses, metrics, commands, public names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import compact
import pytest
from compact import events
from compact.cli.parser import build_parser
from compact.config.settings import SETTINGS
from docs.pages import ROOT, program

CLIENT = (ROOT / "compact_client" / "README.md").read_text()
OBSERVABILITY = (ROOT / "docs" / "OBSERVABILITY.md").read_text()
EVENT_NAMES = {event.name for event in events.CATALOG}


def ticked(text: str) -> set[str]:
    """Everything that stands between backticks."""
    return set(re.findall(r"`([^`\n]+)`", text))


def section(name: str) -> str:
    """The text under an event's heading."""
    match = re.search(rf"^### {re.escape(name)}\n(.*?)(?=^##)", OBSERVABILITY, re.MULTILINE | re.DOTALL)
    assert match, f"docs/OBSERVABILITY.md has no section {name}"
    return match[1]


@pytest.mark.req("P-DOC-1")
def test_every_public_name_is_in_the_clients_readme() -> None:
    """A name in `compact.__all__` is public, so people must find it."""
    assert set(compact.__all__) - ticked(CLIENT) == set()


@pytest.mark.req("P-DOC-1")
def test_every_setting_is_listed_with_its_default() -> None:
    """The table in the client's README is the one in the code, no more and no less."""
    table = CLIENT.partition("| setting |")[2]
    rows = dict(re.findall(r"^\| `([\w.]+)` \| ([^|]+) \|", table, re.MULTILINE))
    assert set(rows) == set(SETTINGS)
    for path, setting in SETTINGS.items():
        assert rows[path].strip().strip("`") == _shown(setting.default), path


def _shown(default: Any) -> str:
    if default is None or default == ():
        return "none"
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return ", ".join(default)
    return str(default) or "empty"


def test_every_command_is_in_the_clients_readme() -> None:
    """`compactctl` has no command that its README does not name."""
    named = set(re.findall(r"compactctl ([a-z-]+)", CLIENT))
    assert set(_commands()) == named


def _commands() -> list[str]:
    (choices,) = [action.choices for action in build_parser()._actions if isinstance(action.choices, dict)]
    return list(choices)


@pytest.mark.req("P-DOC-1", "S-OBS-1")
def test_every_event_has_a_section_and_no_other_has() -> None:
    """Each name in `compact.events` is explained, under its own heading."""
    assert set(re.findall(r"^### (compact\.\w+)$", OBSERVABILITY, re.MULTILINE)) == EVENT_NAMES


@pytest.fixture
def fields(played: dict[str, list[dict[str, Any]]]) -> dict[str, set[str]]:
    """The fields of every event that the demo's stories emit, by event."""
    found: dict[str, set[str]] = defaultdict(set)
    for event in (event for story in played.values() for event in story if "event" in event):
        found[event["event"]] |= {*event["properties"], *event.get("payload", {})}
    return found


@pytest.mark.req("P-DOC-1")
def test_every_field_of_an_event_is_in_its_section(fields: dict[str, set[str]]) -> None:
    """What the library really sends in the demo's stories is explained where a reader looks for it."""
    assert len(fields) >= 15
    missing = {name: found - ticked(section(name)) for name, found in fields.items()}
    assert {name: left for name, left in missing.items() if left} == {}


@pytest.mark.parametrize("event", events.CATALOG, ids=lambda event: event.name)
def test_every_field_of_the_catalog_is_in_its_section(event: type[events.Event]) -> None:
    """Properties and payload keys are documented, also those that no demo story emits."""
    assert {*event.public_fields(), *event.private_fields()} - ticked(section(event.name)) == set()


def _addresses(patterns: list[Any], prefix: str = "") -> Iterator[str]:
    for pattern in patterns:
        at = prefix + str(pattern.pattern)
        if at.startswith("admin/"):
            yield "/admin/"
        elif hasattr(pattern, "url_patterns"):
            yield from _addresses(pattern.url_patterns, at)
        else:
            yield "/" + at


def _plain(address: str) -> str:
    """Every parameter as a star: `/sessions/<path:session>/` and `/sessions/{id}/` are the same address."""
    return re.sub(r"<[^>]+>|\{\w+\}", "*", address)


@pytest.mark.req("P-DOC-1")
def test_every_address_is_documented() -> None:
    """Pages, REST, websockets and the write path."""
    from ariadne.urls import urlpatterns
    from ingest.http.endpoints import PATHS
    from viewer.live.routing import websocket_urlpatterns

    *sockets, _unknown = websocket_urlpatterns
    there = {*_addresses(urlpatterns), *_addresses(sockets), *PATHS}
    said = {_plain(word.split()[-1]) for word in ticked(OBSERVABILITY) if "/" in word}
    said |= {address.replace("ledger.csv", "ledger.*") for address in said}
    assert {address for address in there if _plain(address) not in said} == set()


@pytest.mark.req("P-DOC-1")
def test_every_metric_is_documented_and_no_other() -> None:
    """What `/metrics` shows, by the names dashboards use."""
    from prometheus_client import Counter, Gauge, Histogram

    from ingest.http import metrics

    there = set()
    for metric in vars(metrics).values():
        if isinstance(metric, (Counter, Gauge, Histogram)):
            (family,) = metric.collect()
            there.add(f"{family.name}_total" if family.type == "counter" else family.name)
    assert set(re.findall(r"ariadne_\w+", OBSERVABILITY)) == there


def test_programs_of_pages_use_public_names_only() -> None:
    """A reader who copies from a page never imports something private."""
    for page in (ROOT / "README.md", ROOT / "compact_client" / "README.md", ROOT / "docs" / "MIGRATION.md"):
        for names in re.findall(r"^from compact import (.+)$", program(page), re.MULTILINE):
            assert {name.strip() for name in names.split(",")} <= set(compact.__all__)
