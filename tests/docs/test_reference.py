"""The pages document all settings, events, fields, addresses, metrics, commands and public names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import compact
import pytest
from compact import events
from compact.cli.parser import build_parser
from compact.config.settings import SETTINGS
from docs.pages import ROOT, blocks

from tools import figures_page

CLIENT = (ROOT / "compact_client" / "README.md").read_text()
OBSERVABILITY = (ROOT / "docs" / "OBSERVABILITY.md").read_text()
EVENT_NAMES = {event.name for event in events.CATALOG}


def code_spans(text: str) -> set[str]:
    """Return the texts between backticks."""
    return set(re.findall(r"`([^`\n]+)`", text))


def section(name: str) -> str:
    """Return the text under the heading of an event."""
    match = re.search(rf"^### {re.escape(name)}\n(.*?)(?=^##)", OBSERVABILITY, re.MULTILINE | re.DOTALL)
    assert match, f"docs/OBSERVABILITY.md has no section {name}"
    return match[1]


@pytest.mark.req("P-DOC-1")
def test_readme_documents_every_public_name() -> None:
    """Every name in `compact.__all__` is in the client README."""
    assert set(compact.__all__) - code_spans(CLIENT) == set()


@pytest.mark.req("P-DOC-1")
def test_readme_lists_every_setting_with_its_default() -> None:
    """The table in the client README matches the settings in the code."""
    table = CLIENT.partition("| setting |")[2]
    rows = dict(re.findall(r"^\| `([\w.]+)` \| ([^|]+) \|", table, re.MULTILINE))
    assert set(rows) == set(SETTINGS)
    for path, setting in SETTINGS.items():
        assert rows[path].strip().strip("`") == _format_default(setting.default), path


def _format_default(default: Any) -> str:
    if default is None or default in ((), {}):
        return "none"
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return ", ".join(default)
    return str(default) or "empty"


def test_readme_documents_every_command() -> None:
    """The client README lists all commands of `compactctl`."""
    documented = set(re.findall(r"compactctl ([a-z-]+)", CLIENT))
    assert set(_commands()) == documented


def _commands() -> list[str]:
    (choices,) = [action.choices for action in build_parser()._actions if isinstance(action.choices, dict)]
    return list(choices)


@pytest.mark.req("P-DOC-1", "S-OBS-1")
def test_every_event_has_a_section() -> None:
    """The headings match the names in `compact.events`."""
    assert set(re.findall(r"^### (compact\.\w+)$", OBSERVABILITY, re.MULTILINE)) == EVENT_NAMES


@pytest.fixture
def fields(story_events: dict[str, list[dict[str, Any]]]) -> dict[str, set[str]]:
    """Return the fields of the events in the demo stories, by event name."""
    fields: dict[str, set[str]] = defaultdict(set)
    for event in (event for story in story_events.values() for event in story if "event" in event):
        fields[event["event"]] |= {*event["properties"], *event.get("payload", {})}
    return fields


@pytest.mark.req("P-DOC-1")
def test_section_documents_every_emitted_field(fields: dict[str, set[str]]) -> None:
    """Every field that the demo stories emit is in the section of its event."""
    assert len(fields) >= 15
    missing = {name: names - code_spans(section(name)) for name, names in fields.items()}
    assert {name: names for name, names in missing.items() if names} == {}


@pytest.mark.parametrize("event", events.CATALOG, ids=lambda event: event.name)
def test_section_documents_every_catalog_field(event: type[events.Event]) -> None:
    """Properties and payload keys are documented, also those that no demo story emits."""
    assert {*event.public_fields(), *event.private_fields()} - code_spans(section(event.name)) == set()


def _addresses(patterns: list[Any], prefix: str = "") -> Iterator[str]:
    for pattern in patterns:
        at = prefix + str(pattern.pattern)
        if at.startswith("admin/"):
            yield "/admin/"
        elif hasattr(pattern, "url_patterns"):
            yield from _addresses(pattern.url_patterns, at)
        else:
            yield "/" + at


def _with_wildcards(address: str) -> str:
    """Replace each parameter by a star, so that `/sessions/<path:session>/` equals `/sessions/{id}/`."""
    return re.sub(r"<[^>]+>|\{\w+\}", "*", address)


@pytest.mark.req("P-DOC-1")
def test_every_address_is_documented() -> None:
    """All addresses of pages, REST, websockets and ingest are documented."""
    from ariadne.urls import urlpatterns
    from ingest.http.endpoints import PATHS
    from viewer.live.routing import websocket_urlpatterns

    *sockets, _unknown = websocket_urlpatterns
    addresses = {*_addresses(urlpatterns), *_addresses(sockets), *PATHS}
    documented = {_with_wildcards(word.split()[-1]) for word in code_spans(OBSERVABILITY) if "/" in word}
    documented |= {address.replace("ledger.csv", "ledger.*") for address in documented}
    assert {address for address in addresses if _with_wildcards(address) not in documented} == set()


@pytest.mark.req("P-DOC-1")
def test_every_metric_is_documented() -> None:
    """The documented metrics match those of `/metrics`."""
    from prometheus_client import Counter, Gauge, Histogram

    from ingest import metrics

    metric_names = set()
    for metric in vars(metrics).values():
        if isinstance(metric, (Counter, Gauge, Histogram)):
            (family,) = metric.collect()
            metric_names.add(f"{family.name}_total" if family.type == "counter" else family.name)
    assert set(re.findall(r"ariadne_\w+", OBSERVABILITY)) == metric_names


def test_programs_import_only_public_names() -> None:
    """Code on the pages imports only names in `compact.__all__`."""
    for page in (ROOT / "README.md", ROOT / "compact_client" / "README.md", ROOT / "docs" / "MIGRATION.md"):
        programs = "".join(block.text for block in blocks(page, "python"))
        for names in re.findall(r"^from compact import (.+)$", programs, re.MULTILINE):
            assert {name.strip() for name in names.split(",")} <= set(compact.__all__)


TOUR = ROOT / "docs" / "ARCHITECTURE.md"
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))


def test_files_that_tour_and_decisions_name_exist() -> None:
    """Every file that docs/ARCHITECTURE.md and docs/decisions/ name is in the repository."""
    names = {
        name
        for page in (TOUR, *DECISIONS)
        for name in code_spans(page.read_text())
        if re.fullmatch(r"[\w/-]+\.(?:py|js|css|html|md)", name)
    }
    assert len(names) > 40
    roots = (ROOT, ROOT / "compact_client" / "src")
    assert [name for name in sorted(names) if not any((root / name).exists() for root in roots)] == []


def test_tour_is_short_and_links_every_decision() -> None:
    """The tour takes ten minutes, because the reasons are in dated records that it links."""
    lines = TOUR.read_text().splitlines()
    assert len(lines) <= 150
    links = {(TOUR.parent / link).resolve() for line in lines for link in re.findall(r"\]\((decisions/[^)]+)\)", line)}
    assert links == set(DECISIONS)


@pytest.mark.parametrize("record", DECISIONS, ids=lambda record: record.stem)
def test_decision_has_its_date(record: Path) -> None:
    """A record starts with its title and the day of the decision."""
    assert re.match(r"# [^\n]+\n\nDecided on 20\d\d-\d\d-\d\d[,.]", record.read_text())


def test_every_figure_is_documented() -> None:
    """`python -m tools.figures_page` writes the page from the table of figures."""
    assert figures_page.PAGE.read_text() == figures_page.page()
