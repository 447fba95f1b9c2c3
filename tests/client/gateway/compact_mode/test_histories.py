"""In compact mode every prompt is accepted by its provider: the same random sessions as for the integrations."""

from __future__ import annotations

import json
from typing import Any

import pytest
from compact import CompactManager
from providers.compactor_feed import KEYS, MODELS, CompactorFeed
from providers.histories.grammar import draw_session
from providers.histories.history import History
from providers.histories.play import Player
from providers.histories.routes import SESSION, Route
from providers.histories.test_histories import HISTORIES

NAMED = {
    "anthropic": {"headers": {"x-claude-code-session-id": SESSION}, "fields": {"max_tokens": 100}},
    "responses": {"headers": {}, "fields": {"prompt_cache_key": SESSION}},
    "chat": {"headers": {}, "fields": {"prompt_cache_key": SESSION}},
    "gemini": {"headers": {}, "fields": {"prompt_cache_key": SESSION}},
}


class GatewayRoute(Route):
    """Through the compactor of a gateway."""

    def __init__(self) -> None:
        self._feeds: dict[int, tuple[CompactManager, CompactorFeed]] = {}

    def send(self, manager: CompactManager, items: list[dict[str, Any]], codec: str) -> list[dict[str, Any]]:
        _, feed = self._feeds.setdefault(id(manager), (manager, CompactorFeed(manager)))
        named, key = NAMED[codec], KEYS[codec]
        body = json.dumps({"model": MODELS[codec], **named["fields"], key: items}).encode()  # type: ignore[dict-item]
        sent = feed.ask(codec, body, headers=named["headers"])  # type: ignore[arg-type]
        assert feed.verdict["session"] == SESSION
        if feed.verdict["action"] == "original":
            assert sent == body
        prompt: list[dict[str, Any]] = json.loads(sent)[key]
        return prompt


class GatewayPlayer(Player):
    def _history(self, tenant: str) -> History:
        history = super()._history(tenant)
        history.route = self.__dict__.setdefault("route", GatewayRoute())
        return history


@pytest.mark.req("A-GW-4")
@pytest.mark.parametrize("seed", range(32))
def test_every_prompt_of_a_session_is_right(seed: int) -> None:
    """Each prompt is accepted, ends with the newest message, keeps what must stay, and fits or reports its size."""
    GatewayPlayer(draw_session(seed), HISTORIES[seed % len(HISTORIES)]).play()
