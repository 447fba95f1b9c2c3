"""Gemini in compact mode, streamed and not."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from client.gateway.compact_mode.conftest import Start
from gateways import Gateway
from providers.checks import result
from providers.server import StrictProvider

TOOL = {"name": "look", "parameters": {"type": "object", "properties": {"step": {}}}}
SYSTEM = {"parts": [{"text": "Read files."}]}


def send(gateway: Gateway, contents: list[Any], *, model: str, method: str) -> list[dict[str, Any]]:
    """Return the parts of the model's answer."""
    url = f"{gateway.url}/gemini/v1beta/models/{model}:{method}?key=k"
    body = {"contents": contents, "tools": [{"functionDeclarations": [TOOL]}], "systemInstruction": SYSTEM}
    answer = httpx.post(url, json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    if method == "generateContent":
        chunks = [answer.json()]
    else:
        chunks = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    return [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"]]


def run(gateway: Gateway, order: str, **options: str) -> list[dict[str, Any]]:
    """Run a tool loop and return its history."""
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": order}]}]
    while True:
        parts = send(gateway, contents, **options)
        contents.append({"role": "model", "parts": parts})
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        if not calls:
            return contents
        responses = [
            {**{k: call[k] for k in ("name", "id") if k in call}, "response": {"output": result(**call["args"])}}
            for call in calls
        ]
        contents.append({"role": "user", "parts": [{"functionResponse": response} for response in responses]})


@pytest.mark.req("A-GW-4")
@pytest.mark.parametrize("method", ["generateContent", "streamGenerateContent"])
@pytest.mark.parametrize("model", ["gemini-3-pro", "gemini-2.5-flash"])
def test_a_growing_session_is_accepted_call_by_call(start: Start, provider: StrictProvider, model: str, method: str):
    """With and without signatures."""
    gateway = start(window=5_000)
    contents = run(gateway, "work 30", model=model, method=method)
    assert provider.rejections == []
    assert gateway.metrics()["compactions_total"] >= 1
    assert len(contents) > max(len(request.body["contents"]) for request in provider.requests)


@pytest.mark.req("A-GW-4")
@pytest.mark.parametrize("method", ["generateContent", "streamGenerateContent"])
def test_the_agent_never_sees_an_overflow(start: Start, provider: StrictProvider, method: str):
    """The request is sent again, shorter."""
    provider.window_tokens = 5_000
    gateway = start(window=100_000)
    run(gateway, "work 24", model="gemini-3-pro", method=method)
    assert provider.rejections == []
    assert 1 <= len(provider.overflows) <= 3
