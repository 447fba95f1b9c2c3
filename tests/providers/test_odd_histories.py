"""Each history that a provider accepts is accepted after a compaction, too."""

from __future__ import annotations

import pytest
from compact.adapters.artifact_stores import MemoryArtifactStore
from providers.odd_histories import WORDS, AnthropicHistory, Item, check_chat, grow, small_manager, text

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
