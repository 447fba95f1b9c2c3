"""Start opencode behind the gateway. It reads settings from a variable and merges them with its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from compact.agents.launch import Address, Environment, Launch

_VARIABLE = "OPENCODE_CONFIG_CONTENT"
_PATHS = {"anthropic": ("anthropic", "/v1"), "openai": ("openai", "/v1"), "google": ("gemini", "/v1beta")}
"""The upstream of each provider, and the path in its address."""


def _more_variables(address: Address, environment: Environment) -> Mapping[str, str]:
    try:
        config: Any = json.loads(environment.get(_VARIABLE) or "{}")
    except ValueError:
        return {}  # opencode reports what is wrong with it.
    providers = config.setdefault("provider", {})
    for provider, (upstream, path) in _PATHS.items():
        options = providers.setdefault(provider, {}).setdefault("options", {})
        options.setdefault("baseURL", address(upstream) + path)
    return {_VARIABLE: json.dumps(config)}


LAUNCH = Launch(name="opencode", title="opencode", more_variables=_more_variables)
