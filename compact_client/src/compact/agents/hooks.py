"""The hooks of an agent. An agent waits while its hook starts, so this loads nothing but the standard library."""

from __future__ import annotations

import importlib.util
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from compact import agents


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """The hooks of an agent, which run `compactctl hooks run NAME` with JSON on stdin.

    The edits take the text of the settings and return it changed, and raise `Unsafe` if that is not possible.
    """

    agent: str
    """The name of the agent."""
    events: tuple[str, ...]
    scopes: tuple[str, ...]
    """The settings that the agent has: of the user, of a project, and of a project on this machine only."""
    settings_file: Callable[[str], Path]
    """Returns the settings of a scope."""
    add: Callable[[str, str], str]
    """Returns the settings with our hooks, which run a command."""
    remove: Callable[[str], str]
    installed: Callable[[str], Mapping[str, str]]
    """Returns the command of our hook for each event that has one."""
    fields: tuple[str, ...]
    """The parts of the input that are kept. `transcript_path` and `hook_event_name` are among them."""
    before_compaction: str
    """The event after which the prompt is archived."""
    settle_s: Mapping[str, float]
    """The seconds after an event until the log has it."""
    next_step: str = ""
    """The step of the user after the installation."""

    @property
    def call(self) -> str:
        """The arguments of `compactctl` in our hooks, by which they are recognized."""
        return hook_call(self.agent)


def hook_call(agent: str) -> str:
    """Return the arguments of `compactctl` in the hooks of an agent."""
    return f"hooks run {agent}"


def hooks_of(agent: str) -> Hooks | None:
    """Return the hooks of an agent by its name, without loading anything else of it."""
    for module in pkgutil.iter_modules(agents.__path__):
        name = f"{agents.__name__}.{module.name}.hooks"
        if module.ispkg and importlib.util.find_spec(name) is not None:
            hooks: Hooks = importlib.import_module(name).HOOKS
            if hooks.agent == agent:
                return hooks
    return None
