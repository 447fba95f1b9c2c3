"""Start Codex behind the gateway. It ignores OPENAI_BASE_URL, and has two providers of its own and any others."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compact.agents.launch import Address, Environment, Launch


def _home(environment: Environment) -> Path:
    home = environment.get("CODEX_HOME")
    return Path(home) if home else Path.home() / ".codex"


def _config(environment: Environment) -> Mapping[str, Any]:
    try:
        return tomllib.loads((_home(environment) / "config.toml").read_text())
    except (OSError, ValueError):
        return {}  # Codex reports what is wrong with its settings.


def _custom_provider(config: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return name and address of the provider that the settings choose, if it is not one of Codex's own."""
    name = config.get("model_provider")
    providers = config.get("model_providers")
    provider = providers.get(name) if isinstance(providers, dict) and isinstance(name, str) else None
    url = provider.get("base_url") if isinstance(provider, dict) else None
    return (str(name), url) if isinstance(url, str) else None


def _uses_chatgpt(environment: Environment) -> bool:
    """Return True if Codex is signed in with a ChatGPT account, which has another address than the API."""
    try:
        login = json.loads((_home(environment) / "auth.json").read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(login, dict) and bool(login.get("tokens")) and not login.get("OPENAI_API_KEY")


def _upstreams(environment: Environment) -> Mapping[str, str]:
    config = _config(environment)
    custom = _custom_provider(config)
    if custom is not None:
        return dict([custom])
    url = config.get("openai_base_url")
    if not isinstance(url, str):
        return {}
    return {"chatgpt" if _uses_chatgpt(environment) else "openai": url}


def _arguments(address: Address, environment: Environment) -> Sequence[str]:
    custom = _custom_provider(_config(environment))
    if custom is not None:
        return "-c", f"model_providers.{custom[0]}.base_url={json.dumps(address(custom[0]))}"
    url = address("chatgpt") if _uses_chatgpt(environment) else address("openai") + "/v1"
    return "-c", f"openai_base_url={json.dumps(url)}"


LAUNCH = Launch(name="codex", title="Codex", upstreams=_upstreams, arguments=_arguments)
