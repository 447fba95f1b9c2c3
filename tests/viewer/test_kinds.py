"""Every event has a row in the table of span kinds, and every row has an icon and a color."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compact.events import CATALOG
from django.template.loader import render_to_string

from viewer.kinds import KINDS, Family, Panel, browser_table, kind_of

ROOT = Path(__file__).parents[2]
OBSERVABILITY = (ROOT / "docs/OBSERVABILITY.md").read_text()
SPRITE = render_to_string("frame/_icons.html")
TREE_CSS = (ROOT / "static/css/sessions/tree.css").read_text()
LIBRARY_EVENTS = {event.name for event in CATALOG}
DOCUMENTED_EVENTS = set(re.findall(r"^### (compact\.\w+)$", OBSERVABILITY, re.M))


def test_every_event_of_the_library_has_a_row() -> None:
    assert len(LIBRARY_EVENTS) > 20
    assert LIBRARY_EVENTS - KINDS.keys() == set()


def test_every_documented_event_has_a_row() -> None:
    assert len(DOCUMENTED_EVENTS) > 20
    assert DOCUMENTED_EVENTS - KINDS.keys() == set()


def test_no_row_describes_an_event_that_does_not_exist() -> None:
    events = {name for name in KINDS if name.startswith("compact.")}
    assert events - DOCUMENTED_EVENTS == set()


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_every_row_has_an_icon_in_the_sprite_and_a_one_line_description(kind) -> None:
    assert f'id="i-{kind.icon}"' in SPRITE
    assert kind.label
    assert kind.description.endswith(".")
    assert len(kind.description) < 100


@pytest.mark.parametrize("family", [family for family in Family if family != Family.NEUTRAL])
def test_every_family_has_a_color(family: Family) -> None:
    rules = re.findall(r"([^{}]+)\{([^}]*)\}", TREE_CSS)
    declarations = [body for selector, body in rules if f'[data-family="{family}"]' in selector]
    assert any(re.search(r"\b(color|background):", body) for body in declarations)


def test_every_inspector_panel_belongs_to_a_kind() -> None:
    assert {panel for kind in KINDS.values() for panel in kind.panels} == set(Panel)


def test_an_unknown_kind_gets_a_default_row() -> None:
    assert (kind_of("compact.brand_new").label, kind_of("compact.brand_new").family) == ("brand new", "compaction")
    assert (kind_of("custom").icon, kind_of("custom").family) == ("span", "neutral")


def test_the_browser_gets_what_it_needs_to_draw_a_span() -> None:
    assert browser_table()["compact.error"] == {
        "label": "error",
        "icon": "error",
        "family": "trouble",
        "lane": "error",
        "traits": ["has-line"],
    }
    assert browser_table().keys() == KINDS.keys()


def test_a_decision_is_described_with_its_distance_from_the_trigger() -> None:
    describe = kind_of("compact.trigger_decision").describe
    data = {"triggered": False, "t_est": 17_964, "max_tokens": 24_000, "trigger_tokens": 20_400, "reason": "a reason"}
    assert describe(data) == "No compaction: 17,964 of 24,000 tokens (74.9%), 2,436 below the trigger of 20,400"
    reached = {**data, "triggered": True, "t_est": 20_414}
    assert describe(reached) == "Compact: 20,414 of 24,000 tokens (85.1%), 14 above the trigger of 20,400"
    # Another rule decided.
    assert describe({**data, "triggered": True}) == "Compact: a reason"
    assert describe({"triggered": False, "t_est": 5, "max_tokens": 10}) == "No compaction: 5 of 10 tokens (50.0%)"
