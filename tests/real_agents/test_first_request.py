"""The first request of a real agent is the same with and without the gateway."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from ports import reserve_port

from real_agents.conftest import Provider, RealAgent, Seen, recorded_requests, server_of

FIRST_PARTY = {"_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL": "1"}
_CHANGING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|127\.0\.0\.1:\d+|\d{4}-\d\d-\d\d(?:[T ][\d:.]+Z?)?"
    r"|\b1[78]\d{8,11}\b|[0-9a-f]{64}|cc_version=[\w.]+|cch=\w+|home-\w+|ses_\w+"
)


def same(text: str) -> str:
    """Replace what changes from one run of an agent to the next: ids, times, addresses and its home."""
    return _CHANGING.sub("…", text)


def headers(seen: Seen) -> list[tuple[str, str]]:
    """Return names in their case and order, with values that do not change."""
    numbers = {"content-length", "x-stainless-retry-count", "traceparent", "x-codex-turn-metadata"}
    return [(name, "" if name.lower() in numbers else same(value)) for name, value in seen.headers]


def shape(value: Any) -> Any:
    """Return a body without what changes, in which random key orders of metadata do not count."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in sorted(value.items())}
    if isinstance(value, list):
        return [shape(item) for item in value]
    if isinstance(value, str) and value.startswith("{"):
        # Metadata is often JSON in a string.
        return shape(json.loads(value))
    if isinstance(value, int | float) and value > 10**9:
        return "a time"
    return same(value) if isinstance(value, str) else value


def compare(direct: Provider, through: Provider, path: str) -> None:
    first, second = direct.first(path), through.first(path)
    assert (first.method, same(first.path)) == (second.method, same(second.path))
    # The reason why the relay does not translate to HTTP/2.
    assert first.version == second.version == "HTTP/1.1"
    assert headers(first) == headers(second)
    left, right = shape(json.loads(first.body)), shape(json.loads(second.body))
    assert [tool.get("name") for tool in left.get("tools", [])] == [tool.get("name") for tool in right.get("tools", [])]
    assert left.keys() == right.keys()
    assert left == right


@pytest.mark.parametrize("version", ["claude-old", "claude-new"])
def test_claude_code_sends_what_it_sends_without_us(version, install):
    """Tools, betas, headers and prompt are those of a direct connection to its provider."""
    prompt = ("-p", "Say hello.")
    with Provider() as direct, Provider() as through, reserve_port() as port:
        agent: RealAgent = install(version, "home-a")
        done = agent.run(*prompt, variables={**FIRST_PARTY, "ANTHROPIC_BASE_URL": direct.url})
        assert "All done." in done.stdout, done.stderr
        agent = install(version, "home-b")
        options = ["--upstream", f"anthropic={through.url}"]
        # The upstream is not Anthropic's own, so `run` does not set the variable, and the test does.
        done = agent.run_behind_gateway(port, options, *prompt, variables=FIRST_PARTY)
        assert "All done." in done.stdout, done.stderr
        compare(direct, through, "/v1/messages")
        probes = [[(item.method, item.path) for item in p.requests if not item.body] for p in (direct, through)]
        assert probes[0] == probes[1]


@pytest.mark.parametrize("version", ["claude-old", "claude-new"])
def test_claude_code_sends_something_else_to_an_address_it_does_not_know(version, install):
    """The reason for the variable. If this fails, a new version no longer needs it."""
    with Provider() as known, Provider() as unknown:
        agent: RealAgent = install(version, "home-a")
        agent.run("-p", "Say hello.", variables={**FIRST_PARTY, "ANTHROPIC_BASE_URL": known.url})
        agent = install(version, "home-b")
        agent.run("-p", "Say hello.", variables={"ANTHROPIC_BASE_URL": unknown.url})
        first, second = known.first("/v1/messages"), unknown.first("/v1/messages")
        tools = [len(json.loads(item.body)["tools"]) for item in (first, second)]
        betas = [len(item.header("anthropic-beta").split(",")) for item in (first, second)]
        assert tools[0] < tools[1] or betas[0] > betas[1]


@pytest.mark.parametrize("is_http_only", [False, True])
def test_codex_sends_what_it_sends_without_us(install, is_http_only):
    """With its own provider, the websocket is tried, or not if the gateway answers 426, and the prompt is the same."""
    arguments = ("exec", "--skip-git-repo-check", "Say hello.")
    with Provider() as direct, Provider() as through, reserve_port() as port:
        agent: RealAgent = install("codex", "home-a")
        done = agent.run("-c", f'openai_base_url="{direct.url}/v1"', *arguments)
        assert "All done." in done.stdout + done.stderr, done.stderr
        agent = install("codex", "home-b")
        options = ["--upstream", f"openai={through.url}", *(["--http"] if is_http_only else [])]
        done = agent.run_behind_gateway(port, options, *arguments)
        assert "All done." in done.stdout + done.stderr, done.stderr
        compare(direct, through, "/v1/responses")
        upgrades = [sum(bool(item.header("upgrade")) for item in p.requests) for p in (direct, through)]
        assert upgrades == [1, 0 if is_http_only else 1]


def test_gemini_cli_sends_what_it_sends_without_us(install, receiver):
    """With an API key that its settings name as the way to log in."""
    prompt = ("-p", "Say hello.", "-m", "gemini-2.5-pro")
    trust = {"GEMINI_CLI_TRUST_WORKSPACE": "true"}
    with Provider() as direct, Provider() as through, reserve_port() as port:
        agent = with_gemini_key(install("gemini", "home-a"))
        done = agent.run(*prompt, variables={**trust, "GOOGLE_GEMINI_BASE_URL": direct.url})
        assert "All done." in done.stdout, done.stderr
        agent = with_gemini_key(install("gemini", "home-b"))
        variables = {**trust, **server_of(receiver)}
        done = agent.run_behind_gateway(port, ["--upstream", f"gemini={through.url}"], *prompt, variables=variables)
        assert "All done." in done.stdout, done.stderr
        compare(direct, through, ":streamGenerateContent")
    (request,) = recorded_requests(receiver)
    assert {"system", "tools", "user"} <= {part["part"] for part in request["properties"]["parts"]}


def test_gemini_cli_takes_no_address_with_a_key_that_its_settings_do_not_name(install):
    """The reason for the hint of `run gemini`. If this fails, a new version no longer needs it."""
    with Provider() as provider, reserve_port() as port:
        agent: RealAgent = install("gemini", "home-a")
        options = ["--upstream", f"gemini={provider.url}"]
        done = agent.run_behind_gateway(
            port, options, "-p", "Say hello.", variables={"GEMINI_CLI_TRUST_WORKSPACE": "true"}
        )
        assert not provider.requests
        assert "Invalid auth method selected" in done.stderr
        assert "choose Use Gemini API Key once" in done.stderr


def with_gemini_key(agent: RealAgent) -> RealAgent:
    """Write what Gemini CLI writes when its user chooses an API key."""
    settings = agent.home / ".gemini/settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}}))
    return agent


def test_opencode_sends_what_it_sends_without_us(install, receiver):
    """The call for a title beside the prompt included. Both are sent at the same time, in any order."""
    prompt = ("run", "-m", "anthropic/claude-sonnet-4-5", "Say hello.")
    with Provider() as direct, Provider() as through, reserve_port() as port:
        agent: RealAgent = install("opencode", "home-a")
        providers = {"anthropic": "/v1", "openai": "/v1", "google": "/v1beta"}
        config = {name: {"options": {"baseURL": direct.url + path}} for name, path in providers.items()}
        variables = {"OPENCODE_CONFIG_CONTENT": json.dumps({"provider": config})}
        done = agent.run(*prompt, variables=variables)
        assert "All done." in done.stdout, done.stderr
        agent = install("opencode", "home-b")
        options = ["--upstream", f"anthropic={through.url}"]
        done = agent.run_behind_gateway(port, options, *prompt, variables=server_of(receiver))
        assert "All done." in done.stdout, done.stderr
        for provider in (direct, through):
            provider.requests.sort(key=lambda seen: len(seen.body))
        assert len(direct.requests) == len(through.requests) == 2
        compare(direct, through, "/v1/messages")
        for provider in (direct, through):
            provider.requests.reverse()
        compare(direct, through, "/v1/messages")
    requests = recorded_requests(receiver)
    parts = [{part["part"] for part in request["properties"]["parts"]} for request in requests]
    assert sorted("tools" in names for names in parts) == [False, True]
