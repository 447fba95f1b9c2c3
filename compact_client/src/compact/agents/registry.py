"""Find the agents whose logs are read: the folders of this package with an `AGENT` in their `agent.py`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from compact import agents
from compact.agents.agent import Agent, Storage


def _find_agents() -> Iterator[Agent]:
    for module in pkgutil.iter_modules(agents.__path__):
        name = f"{agents.__name__}.{module.name}.agent"
        if module.ispkg and find_spec(name) is not None:
            yield importlib.import_module(name).AGENT


AGENTS: tuple[Agent, ...] = tuple(_find_agents())
WITH_HOOKS = tuple(agent for agent in AGENTS if agent.hooks is not None)
WITH_MCP = tuple(agent for agent in AGENTS if agent.mcp is not None)
BY_NAME: Mapping[str, Agent] = {agent.name: agent for agent in AGENTS}


def detect_agent(line: Mapping[str, Any]) -> Agent | None:
    """Return the agent whose log has this line, or None if the line does not tell."""
    return next((agent for agent in AGENTS if agent.recognizes(line)), None)


def storage_of(path: Path) -> Storage | None:
    """Return the storage that a path names a session of, or None for an ordinary file."""
    storages = (agent.storage for agent in AGENTS)
    return next((storage for storage in storages if storage is not None and storage.is_session(path)), None)


def titles(conjunction: str, agents: Iterable[Agent] = AGENTS) -> str:
    """Return the agents as a list in words, such as `Codex, opencode and pi`."""
    *others, last = (agent.title for agent in agents)
    return f"{', '.join(others)} {conjunction} {last}" if others else last
