"""The demo's stories, played once for all who look at their events."""

from __future__ import annotations

from typing import Any

import pytest
from compact import CallbackExporter, FileStorage

from ariadne.demo import coding_agent, research_agent, support_agent
from ariadne.demo.player import Player

Events = list[dict[str, Any]]


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Events]:
    """Every event of each story, by its agent; without a server and without pauses."""
    found: dict[str, Events] = {}
    for story in (coding_agent.STORY, support_agent.STORY, research_agent.STORY):
        events = found[story.agent] = []
        storage = FileStorage(tmp_path_factory.mktemp(story.agent))
        Player(story, CallbackExporter(events.append), storage, pause=lambda _seconds: None).play()
    return found
