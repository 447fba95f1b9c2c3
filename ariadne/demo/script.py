"""What a story is made of: turns of a user, the tool calls an agent makes on the way, and its reply."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Step:
    """One tool call and what it returned."""

    tool: str
    arguments: dict[str, Any]
    output: str
    seconds: float = 0.4
    is_error: bool = False
    says: str = ""  # what the agent says before it calls


@dataclass(frozen=True, slots=True)
class Turn:
    user: str
    steps: tuple[Step, ...]
    reply: str
    summarizer_refuses: bool = False  # from here on, the next summary is refused once
    provider_overflows: bool = False  # the first call of the turn does not fit, whatever was estimated


@dataclass(frozen=True, slots=True)
class Story:
    """A whole session. The window is small, so that compaction comes within minutes."""

    session_id: str
    agent: str
    model: str
    window_tokens: int
    system: str
    turns: Iterable[Turn]
    live_from: int  # turns before this one are played at once, the rest at the pace of a real agent
    tools: tuple[str, ...] = ()
    strategy: str = "task_state"
    summarizer_overlooks: str = ""  # messages with these words never reach a summary: the guard must notice
    externalizes: bool = False  # large tool outputs go to an artifact store and can come back
