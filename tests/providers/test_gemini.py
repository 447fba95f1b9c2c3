"""The strict provider speaks Gemini, and accepts compacted histories of a hand-written loop."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from compact import CompactManager
from compact.integrations.model_call import ModelCall
from compact.messages.block_kinds import Format
from providers.checks import assert_valid, compaction_count, overflow_count, result
from providers.histories.examples import example
from providers.server import StrictProvider

TOOLS = [{"functionDeclarations": [{"name": "look", "parameters": {"type": "object", "properties": {"step": {}}}}]}]
GO = {"role": "user", "parts": [{"text": "work 2"}]}
CALL = {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]}
RESULT = {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"output": "x"}}}]}
REJECTED: dict[str, tuple[list[Any], str]] = {
    "no contents": ([], "contents is not specified"),
    "two of a role": ([GO, GO], "alternate between user and model"),
    "model first": ([CALL, RESULT], "first content has the role user"),
    "model last": ([GO, CALL], "end with a user role"),
    "no response": ([GO, CALL, GO], "number of function response parts"),
    "no call": ([RESULT], "immediately after a function call turn"),
    "two responses": ([GO, CALL, {**RESULT, "parts": RESULT["parts"] * 2}], "number of function response parts"),
    "no signature": ([GO, CALL, RESULT], "missing a thought_signature"),
    "false signature": (
        [GO, {"role": "model", "parts": [{**CALL["parts"][0], "thoughtSignature": "CiQB"}]}, RESULT],
        "Corrupted thought signature",
    ),
    "no parts": ([{"role": "user", "parts": []}], "parts must not be empty"),
    "another role": ([{**GO, "role": "assistant"}], "Please use a valid role: user, model."),
    "another key": ([{**GO, "content": "x"}], 'Unknown name "content"'),
    "two kinds": ([{"role": "user", "parts": [{**GO["parts"][0], **example("inlineData", Format.GEMINI)}]}], "oneof"),
}


def post(provider: StrictProvider, contents: list[Any], *, model: str = "gemini-3-pro") -> httpx.Response:
    url = f"{provider.url}/v1beta/models/{model}:generateContent"
    return httpx.post(url, json={"contents": contents, "tools": TOOLS}, timeout=30)


def run(provider: StrictProvider, manager: CompactManager, order: str, *, model: str) -> list[Any]:
    """Run a tool loop and return the history."""
    contents: list[Any] = [{"role": "user", "parts": [{"text": order}]}]

    def send(prompt: list[Any]) -> Any:
        response = post(provider, prompt, model=model)
        if response.status_code != 200:
            raise RuntimeError(response.text)
        return response.json()

    while True:
        reply = ModelCall(manager, "s", contents, options=lambda: {"tools": TOOLS}).run(send)
        contents.append(reply["candidates"][0]["content"])
        calls = [part["functionCall"] for part in contents[-1]["parts"] if "functionCall" in part]
        if not calls:
            return contents
        responses = [
            {
                **{key: call[key] for key in ("name", "id") if key in call},
                "response": {"output": result(**call["args"])},
            }
            for call in calls
        ]
        contents.append({"role": "user", "parts": [{"functionResponse": response} for response in responses]})


@pytest.mark.parametrize("rule", REJECTED)
def test_gemini_rejects(rule: str, provider: StrictProvider) -> None:
    contents, message = REJECTED[rule]
    response = post(provider, contents)
    assert response.status_code == 400
    assert response.json()["error"]["status"] == "INVALID_ARGUMENT"
    assert message in response.json()["error"]["message"]


@pytest.mark.req("A-WIRE-1")
@pytest.mark.parametrize("model", ["gemini-3-pro", "gemini-2.5-flash"])
@pytest.mark.parametrize("order", ["work 24", "work 24 by 3"])
def test_each_request_of_a_tool_loop_is_accepted(
    order: str, model: str, provider: StrictProvider, manager: CompactManager, events: list[Any]
) -> None:
    contents = run(provider, manager, order, model=model)
    assert_valid(provider, min_requests=9)
    assert compaction_count(events) > 0
    assert contents[-1]["parts"][0]["text"].startswith("Done.")


@pytest.mark.req("A-WIRE-1")
def test_an_overflow_is_recovered(provider: StrictProvider, roomy_manager: CompactManager, events: list[Any]) -> None:
    provider.window_tokens = 6_000
    run(provider, roomy_manager, "work 24", model="gemini-3-pro")
    assert_valid(provider, min_requests=20)
    assert overflow_count(events) > 0
