"""The way to start each agent behind the gateway, by its own switches and without a change to its settings.

An agent's folder has it as `LAUNCH` in `launch.py`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec

from compact import agents

Address = Callable[[str], str]
"""Returns the gateway's address of an upstream, without a slash at the end."""
Environment = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Target:
    """The upstream that a variable names the address of, and the path that the agent expects in it."""

    upstream: str
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One agent."""

    name: str
    """The name after `compactctl run`, which is also its command."""
    title: str
    variables: Mapping[str, Target] = field(default_factory=dict)
    """The variables with the address of a provider. If the user has set one, that address becomes the upstream."""
    first_party_variables: Mapping[str, str] = field(default_factory=dict)
    """Set only if all upstreams of `variables` are the providers' own."""
    upstreams: Callable[[Environment], Mapping[str, str]] = lambda environment: {}
    """Returns the upstreams that the user's settings name."""
    more_variables: Callable[[Address, Environment], Mapping[str, str]] = lambda address, environment: {}
    arguments: Callable[[Address, Environment], Sequence[str]] = lambda address, environment: ()
    """Returns the arguments before the user's."""
    hint: str = ""
    """A sentence about what the user can do if nothing arrives, or the empty string."""


ANY_COMMAND = Launch(
    name="",
    title="The command",
    variables={
        "ANTHROPIC_BASE_URL": Target("anthropic"),
        "OPENAI_BASE_URL": Target("openai", "/v1"),
        "GOOGLE_GEMINI_BASE_URL": Target("gemini"),
    },
)
"""A program that honors the variables of the providers' own libraries."""


@cache
def find_launches() -> Mapping[str, Launch]:
    """Return the agents that can be started, by name."""
    launches = {}
    for module in pkgutil.iter_modules(agents.__path__):
        name = f"{agents.__name__}.{module.name}.launch"
        if module.ispkg and find_spec(name) is not None:
            launch: Launch = importlib.import_module(name).LAUNCH
            launches[launch.name] = launch
    return launches
