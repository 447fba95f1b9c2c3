"""The stories of `make up` really contain what the README and the first look promise, played without a server."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ariadne.demo import coding_agent, research_agent, support_agent

Events = list[dict[str, Any]]
STORIES = {module.STORY.agent: module.STORY for module in (coding_agent, support_agent, research_agent)}


def named(events: Events, name: str) -> Events:
    return [event for event in events if event.get("event") == name]


@pytest.mark.parametrize("agent", STORIES)
def test_every_story_compacts_more_than_once(agent: str, played: dict[str, Events]) -> None:
    """Each compaction has its ledger and its archived transcript; some turns are left to be watched live."""
    events, story = played[agent], STORIES[agent]
    pruned = named(events, "compact.pruned_messages")
    assert len(pruned) >= 2
    assert len(named(events, "compact.archival")) == len(pruned)
    for event in pruned:
        assert event["properties"]["tokens_after"] < event["properties"]["tokens_before"]
        assert event["payload"]["ledger"]
    assert not named(events, "compact.breaker_open")
    assert 1 < story.live_from <= len(list(story.turns))


def test_the_coding_story_has_a_refused_summary(played: dict[str, Events]) -> None:
    """The model declines once, the library asks again for a brief summary, and gets one."""
    events = played["coder"]
    (error,) = named(events, "compact.error")
    assert (error["properties"]["error_type"], error["properties"]["fallback"]) == ("SummaryRefused", "retry as brief")
    summaries = named(events, "compact.summary_created")
    assert "brief" in [event["properties"]["strategy"] for event in summaries]
    assert "never edit a migration" in summaries[-1]["payload"]["summary"]


def test_the_support_story_has_a_rule_that_the_guard_puts_back(played: dict[str, Events]) -> None:
    """The summary overlooks what the traveller forbade; the guard finds it and every later summary has it."""
    events = played["service"]
    restored = [found for event in named(events, "compact.retention") for found in event["payload"]["restored"]]
    assert ("constraint", support_agent.OMITTED_RULE) in [(found["kind"], found["text"]) for found in restored]
    for event in named(events, "compact.summary_created"):
        assert support_agent.OMITTED_RULE in event["payload"]["summary"]


def test_the_research_story_brings_a_page_back_and_survives_an_overflow(played: dict[str, Events]) -> None:
    """Pages are put away, one is asked for by its id and returns, and the call that did not fit is made again."""
    events = played["researcher"]
    counts = Counter(event.get("event") for event in events)
    assert counts["compact.externalized"] >= 3
    assert counts["compact.rehydrated"] == 1
    (recovered,) = named(events, "compact.overflow_recovered")
    assert recovered["properties"]["removed_count"] >= 1
    failed = [event for event in events if event.get("kind") == "generation" and event.get("status") == "error"]
    assert len({event["span_id"] for event in failed}) == 1
