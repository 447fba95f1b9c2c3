"""Each history that a provider accepts is accepted after a compaction, too."""

from __future__ import annotations

from typing import Any

import pytest
from compact.adapters.artifact_stores import MemoryArtifactStore
from compact.messages.block_kinds import BLOCK_KINDS
from openai.types.responses.response_input_item_param import ResponseInputItemParam
from providers.odd_histories import (
    WORDS,
    AnthropicHistory,
    Item,
    check_chat,
    check_responses,
    grow,
    small_manager,
    text,
)
from providers.shapes import check as check_shape

RENDERERS = ("layered", "inplace", "bridge")


def thinking_session(*, turns: int = 3, calls: int = 12, words: int = 12) -> tuple[AnthropicHistory, list[int]]:
    """A session with interleaved thinking. The second value has the sizes at which the model is called."""
    history, sizes = AnthropicHistory(), []
    for turn in range(turns):
        history.user(f"Task {turn}: fix the module. " + WORDS * 4)
        for _ in range(calls):
            sizes.append(len(history.items))
            call = history.call()
            history.assistant(history.thought(), call)
            history.results(history.result(call, f"lines of file {call['id']} " + WORDS * words))
        sizes.append(len(history.items))
        history.assistant(history.thought(), {"type": "text", "text": f"Turn {turn} is done."})
    return history, sizes


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("window", [1_000, 1_500, 3_000])
@pytest.mark.parametrize("words", [4, 12, 40])
def test_an_unfinished_tool_turn_starts_with_its_thinking(renderer: str, window: int, words: int) -> None:
    """The summary is not part of the assistant's turn, whose thinking blocks stay unchanged."""
    history, sizes = thinking_session(words=words)
    prompt = grow(small_manager(window, renderer=renderer), history.items, history.check, calls_at=sizes)
    assert "COMPACT-SUMMARY" in text(prompt) or "Context Summary" in text(prompt)


@pytest.mark.parametrize("renderer", RENDERERS)
def test_the_last_user_message_may_not_fit(renderer: str) -> None:
    """A user message that is too large is removed, and the tool turn after it still starts with its thinking."""
    history = AnthropicHistory()
    history.user("Read this log. " + WORDS * 120)
    sizes = []
    for _ in range(10):
        sizes.append(len(history.items))
        call = history.call()
        history.assistant(history.thought(), call)
        history.results(history.result(call, WORDS * 20))
    grow(small_manager(1_500, renderer=renderer), history.items, history.check, calls_at=sizes)


def test_rehydrated_content_is_not_the_first_message() -> None:
    """Content that the agent asks for stands before the user message, which is the first one."""
    history = AnthropicHistory()
    history.user("Look at everything.")
    for number in range(9):
        call = history.call()
        history.assistant(call)
        history.results(history.result(call, f"report-{number}.txt says {number} " + WORDS * 60))
    manager = small_manager(
        4_000, config={"artifact_store": MemoryArtifactStore()}, externalize_threshold_tokens=100, keep_tool_io_pairs=1
    )
    history.check(manager.preflight("s", history.items), thinks=False)
    plan = manager.plan("s")
    assert plan is not None
    artifact = plan.externalizations[2].artifact_id
    call = history.call()
    history.assistant({"type": "text", "text": f"I need {artifact} again."}, call)
    history.results(history.result(call, "ok"))
    prompt = manager.preflight("s", history.items)
    assert "[Rehydrated Content" in text(prompt)
    history.check(prompt, thinks=False)
    assert prompt == manager.rerender("s", 2)


def test_parallel_calls_in_two_messages() -> None:
    """Each output follows its call, although the host sends both calls first."""

    def call(name: str) -> Item:
        function = {"name": "f", "arguments": "{}"}
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": name, "type": "function", "function": function}],
        }

    def output(name: str) -> Item:
        return {"role": "tool", "tool_call_id": name, "content": "ok"}

    items = [{"role": "user", "content": "Go"}, call("c1"), call("c2"), output("c1"), output("c2")]
    for sizes in ([5], [1, 5]):
        prompt = grow(small_manager(), items, check_chat, calls_at=sizes)
        assert prompt == [items[0], items[1], items[3], items[2], items[4]]


def server_tool_session(*, is_paused: bool) -> tuple[AnthropicHistory, list[int]]:
    """A program that calls tools: the call is in one message, and its result is in a later one."""
    history, sizes = AnthropicHistory(), []
    for number in range(10):
        history.user(f"Question {number}. " + WORDS * 5)
        sizes.append(len(history.items))
        server_id = f"srvtoolu_{number}"
        program = {"type": "server_tool_use", "id": server_id, "name": "code_execution", "input": {"code": WORDS * 5}}
        output = {"type": "code_execution_result", "stdout": WORDS * 10, "stderr": "", "return_code": 0, "content": []}
        result = {"type": "code_execution_tool_result", "tool_use_id": server_id, "content": output}
        if is_paused:
            history.assistant({"type": "text", "text": "Running it."}, program)
        else:
            caller = {"type": "code_execution_20260120", "tool_id": server_id}
            call = history.call(caller=caller)
            history.assistant(program, call)
            history.results(history.result(call, WORDS * 10))
            sizes.append(len(history.items))
            second = history.call(caller=caller)
            history.assistant(second)
            history.results(history.result(second, WORDS * 10))
            sizes.append(len(history.items))
        history.assistant(result, {"type": "text", "text": f"Answer {number}."})
    return history, sizes


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("is_paused", [False, True])
def test_a_server_tool_stays_with_its_result(renderer: str, is_paused: bool) -> None:
    history, sizes = server_tool_session(is_paused=is_paused)

    def check(prompt: list[Item]) -> None:
        history.check(prompt, thinks=False)

    grow(small_manager(renderer=renderer), history.items, check, calls_at=sizes)


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("pairs", [1, 2, 4])
def test_the_calls_of_a_program_stay_with_it(renderer: str, pairs: int) -> None:
    items: list[Item] = []
    sizes = []
    for number in range(8):
        items.append({"role": "user", "content": f"Question {number}. " + WORDS * 5})
        sizes.append(len(items))
        program = {
            "type": "program",
            "id": f"prog_{number}",
            "call_id": f"p{number}",
            "code": WORDS,
            "fingerprint": "f",
        }
        items.append(program)
        caller = {"type": "program", "caller_id": f"p{number}"}
        for step in range(3):
            call_id = f"c{number}-{step}"
            items.append(
                {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}", "caller": caller}
            )
            output = {"type": "function_call_output", "call_id": call_id, "output": WORDS * 8, "caller": caller}
            items.append(output)
            sizes.append(len(items))
        done = {"type": "program_output", "id": f"po_{number}", "call_id": f"p{number}", "result": WORDS * 3}
        items.append({**done, "status": "completed"})
        sizes.append(len(items))
        items.append({"role": "assistant", "content": f"Answer {number}."})
    grow(
        small_manager(renderer=renderer, keep_tool_io_pairs=pairs, keep_recent_turns=1),
        items,
        check_responses,
        calls_at=sizes,
    )


CALLS: dict[str, dict[str, Any]] = {
    "function_call": {"call_id": "c", "name": "f", "arguments": "{}"},
    "custom_tool_call": {"call_id": "c", "name": "f", "input": "x"},
    "shell_call": {"call_id": "c", "action": {"commands": ["ls"]}},
    "local_shell_call": {
        "id": "lsh_1",
        "call_id": "c",
        "status": "completed",
        "action": {"type": "exec", "command": ["ls"], "env": {}},
    },
    "apply_patch_call": {
        "call_id": "c",
        "status": "completed",
        "operation": {"type": "delete_file", "path": "a.py"},
    },
    "computer_call": {
        "id": "cu_1",
        "call_id": "c",
        "status": "completed",
        "action": {"type": "screenshot"},
        "pending_safety_checks": [{"id": "safety-1", "code": "malicious", "message": "Check this."}],
    },
    "tool_search_call": {"call_id": "c", "arguments": {"query": "x"}, "execution": "client"},
    "program": {"id": "prog_1", "call_id": "c", "code": "x", "fingerprint": "f"},
    "mcp_approval_request": {"id": "mcpr_1", "name": "f", "arguments": "{}", "server_label": "s"},
}


def test_each_call_with_an_output_is_tried() -> None:
    assert {name for name, kind in BLOCK_KINDS.items() if kind.is_item and kind.answered_by} == set(CALLS)


@pytest.mark.parametrize("kind", CALLS)
def test_an_aborted_call_gets_an_output_of_its_kind(kind: str) -> None:
    """A call without an output gets one that the API accepts."""
    items = [{"role": "user", "content": "Go"}, {"type": kind, **CALLS[kind]}, {"role": "user", "content": "Go on"}]
    prompt = small_manager().preflight("s", items)
    assert len(prompt) == 4
    for item in prompt:
        check_shape(item, ResponseInputItemParam)
    check_responses(prompt)


@pytest.mark.parametrize("kind", CALLS)
def test_the_output_of_an_aborted_call_is_counted_as_it_is_sent(kind: str) -> None:
    """A computer call needs a screenshot, which costs more than its text."""
    items = [{"role": "user", "content": "Go"}, {"type": kind, **CALLS[kind]}, {"role": "user", "content": "Go on"}]
    tokens = []
    for number, sent in enumerate([items, small_manager().preflight("s", items)]):
        manager = small_manager()
        manager.preflight(f"s{number}", sent)
        tokens.append(manager.remember(f"s{number}").tokens)
    assert tokens[0] == pytest.approx(tokens[1], abs=40)


def test_a_generated_image_is_counted_as_an_image() -> None:
    """The base64 of a picture is no text, whatever its format."""
    picture = {
        "type": "image_generation_call",
        "id": "ig_1",
        "status": "completed",
        "result": "UklGRAAA" + "Ab9/" * 50_000,
    }
    manager = small_manager(100_000)
    manager.preflight("s", [{"role": "user", "content": "Draw"}, picture, {"role": "user", "content": "Thanks"}])
    assert manager.remember("s").tokens < 2_000
