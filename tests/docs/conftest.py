"""Play the demo stories once for all tests that inspect their events."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from compact import CallbackExporter, FileStorage

from ariadne.demo import coding_agent, research_agent, support_agent
from ariadne.demo.clock import PastClock
from ariadne.demo.player import Player

Events = list[dict[str, Any]]


@pytest.fixture(scope="session")
def story_events(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Events]:
    """Return the events of each story by agent, played without a server and without pauses."""
    events_by_agent: dict[str, Events] = {}
    for story in (coding_agent.STORY, support_agent.STORY, research_agent.STORY):
        events = events_by_agent[story.agent] = []
        storage = FileStorage(tmp_path_factory.mktemp(story.agent))
        Player(story, CallbackExporter(events.append), storage, PastClock(timedelta())).play()
    return events_by_agent
