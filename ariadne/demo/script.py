"""The parts of a story: user turns, the tool calls of the agent, and its replies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any


@dataclass(frozen=True, slots=True)
class Step:
    """One tool call and its result."""

    tool: str
    arguments: dict[str, Any]
    output: str
    seconds: float = 0.4
    is_error: bool = False
    says: str = ""  # the agent's text before the call


@dataclass(frozen=True, slots=True)
class Turn:
    """One user message, the steps of the agent, and its reply."""

    user: str
    steps: tuple[Step, ...]
    reply: str
    summarizer_refuses: bool = False  # the next summary is refused once
    provider_overflows: bool = False  # the first call of the turn overflows the context window


@dataclass(frozen=True, slots=True)
class Story:
    """A whole session. The context window is small, so that compactions happen within minutes."""

    session_id: str
    agent: str
    model: str
    window_tokens: int
    system: str
    turns: Iterable[Turn]
    live_from: int  # earlier turns are played fast, later ones at the speed of a real agent
    tools: tuple[str, ...] = ()
    strategy: str = "task_state"
    summarizer_omits: str = ""  # messages with this text are hidden from the summarizer
    user_pause_s: float = 0.0  # time that the user takes before the next message
    externalizes: bool = False  # large tool outputs go to an artifact store and can be rehydrated

    @property
    def metadata(self) -> dict[str, str]:
        """The labels of the session, as an application sets them on its traces."""
        environment = "staging" if self.agent == "coder" else "production"
        return {"deployment.environment.name": environment, "service.name": self.agent}


@dataclass(frozen=True, slots=True)
class PastSession:
    """A story and the time since it began."""

    story: Story
    ago: timedelta
