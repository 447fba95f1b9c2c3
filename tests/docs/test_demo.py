"""The demo stories contain what the README promises."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ariadne.demo import coding_agent, research_agent, support_agent

Events = list[dict[str, Any]]
STORIES = {module.STORY.agent: module.STORY for module in (coding_agent, support_agent, research_agent)}


def events_named(events: Events, name: str) -> Events:
    return [event for event in events if event.get("event") == name]


@pytest.mark.parametrize("agent", STORIES)
def test_story_compacts_more_than_once(agent: str, story_events: dict[str, Events]) -> None:
    """Each compaction has a ledger and an archived transcript, and some turns are played live."""
    events, story = story_events[agent], STORIES[agent]
    pruned = events_named(events, "compact.pruned_messages")
    assert len(pruned) >= 2
    assert len(events_named(events, "compact.archival")) == len(pruned)
    for event in pruned:
        assert event["properties"]["tokens_after"] < event["properties"]["tokens_before"]
        assert event["payload"]["ledger"]
    assert not events_named(events, "compact.breaker_open")
    assert 1 < story.live_from <= len(list(story.turns))


def test_coding_story_has_a_refused_summary(story_events: dict[str, Events]) -> None:
    """The model refuses once, and the retry with a brief summary succeeds."""
    events = story_events["coder"]
    (error,) = events_named(events, "compact.error")
    assert (error["properties"]["error_type"], error["properties"]["fallback"]) == ("SummaryRefused", "retry as brief")
    summaries = events_named(events, "compact.summary_created")
    assert "brief" in [event["properties"]["strategy"] for event in summaries]
    assert "never edit a migration" in summaries[-1]["payload"]["summary"]


def test_support_story_has_a_restored_rule(story_events: dict[str, Events]) -> None:
    """The summarizer omits a rule, the retention check restores it, and every later summary contains it."""
    events = story_events["service"]
    restored = [fact for event in events_named(events, "compact.retention") for fact in event["payload"]["restored"]]
    assert ("constraint", support_agent.OMITTED_RULE) in [(fact["kind"], fact["text"]) for fact in restored]
    for event in events_named(events, "compact.summary_created"):
        assert support_agent.OMITTED_RULE in event["payload"]["summary"]


def test_research_story_rehydrates_a_page_and_recovers_from_an_overflow(story_events: dict[str, Events]) -> None:
    """Pages are externalized, one is rehydrated by its id, and the call that overflowed is retried."""
    events = story_events["researcher"]
    counts = Counter(event.get("event") for event in events)
    assert counts["compact.externalized"] >= 3
    assert counts["compact.rehydrated"] == 1
    (recovered,) = events_named(events, "compact.overflow_recovered")
    assert recovered["properties"]["removed_count"] >= 1
    failed = [event for event in events if event.get("kind") == "generation" and event.get("status") == "error"]
    assert len({event["span_id"] for event in failed}) == 1
