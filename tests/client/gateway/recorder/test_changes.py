"""Appends, edits, branches, cleared results and compactions are recognized from the prompts alone."""

from __future__ import annotations

from typing import Any

import pytest
from client.gateway.recorder.wire_feed import Recording, anthropic

SESSION = [["x-claude-code-session-id", "aaaaaaaa-0000-4000-8000-000000000001"]]
REMINDER = {"type": "text", "text": "<system-reminder>\nToday is Thursday.\n</system-reminder>"}


def text(role: str, words: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": words, **more}]}


def call(name: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": name, "name": "Bash", "input": {"n": name}}]}


def result(name: str, content: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": name, "content": content}]}


FIRST = [text("user", "Fix the build. Never touch billing.py."), call("c1"), result("c1", "a long output " * 40)]
ANSWER = [{"type": "text", "text": "The build is fixed, version v1.2.3 is next."}]


def change_of(second: list[dict[str, Any]], first: list[dict[str, Any]] | None = None) -> tuple[str, Recording]:
    """Return the change from the first prompt with its answer to a second prompt."""
    recording = Recording()
    recording.play([anthropic(first or FIRST, answer=ANSWER, headers=SESSION)])
    recording.play([anthropic(second, answer=ANSWER, headers=SESSION, at=1_800_000_060.0)])
    return recording.requests()[-1]["change"], recording


ANSWERED = [*FIRST, {"role": "assistant", "content": ANSWER}]
NEXT = text("user", "Now the tests.")


@pytest.mark.parametrize(
    "second",
    [
        [*ANSWERED, NEXT],
        # The mark of the cache moves, a text is a text or a block, and keys have any order.
        [{"role": "user", "content": FIRST[0]["content"][0]["text"]}, *ANSWERED[1:], NEXT],
        [text("user", FIRST[0]["content"][0]["text"], cache_control={"type": "ephemeral"}), *ANSWERED[1:], NEXT],
        [FIRST[0], FIRST[1], result("c1", [{"type": "text", "text": "a long output " * 40}]), ANSWERED[3], NEXT],
        # A reminder appears before a message, and adjacent messages are merged.
        [{"role": "user", "content": [REMINDER, *FIRST[0]["content"]]}, *ANSWERED[1:], NEXT],
        # The answer was aborted and is not repeated.
        [*FIRST, NEXT],
    ],
)
def test_a_prompt_that_repeats_everything_is_an_append(second: list[dict[str, Any]]) -> None:
    """Nothing that moves from request to request is a change."""
    change, recording = change_of(second)
    assert change == "append"
    assert recording.of_kind("compact.check") == []


def test_a_cleared_result_is_the_same_call_with_other_content() -> None:
    """Its fate is `cleared`, and everything else was kept."""
    change, recording = change_of([FIRST[0], FIRST[1], result("c1", "[cleared]"), ANSWERED[3], NEXT])
    assert change == "clear"
    (event,) = recording.of_kind("compact.pruned_messages")
    assert event["properties"]["evidence"] == "exact"
    assert event["properties"]["fates"] == {"kept": 3, "cleared": 1}


def test_an_edit_replaces_a_message_of_the_user() -> None:
    """No message left the prompt because it was too long, so there is no compaction."""
    change, recording = change_of([text("user", "Fix the build and release it.")], [*FIRST[:1]])
    assert change == "start"  # nothing of the earlier prompt is left
    change, recording = change_of([*FIRST, text("user", "Explain it instead.")], [*FIRST, NEXT])
    assert change == "edit"
    assert recording.of_kind("compact.check") == []


def test_instructions_that_are_written_again_are_an_edit() -> None:
    """Each `claude -p --continue` has its own list of skills in the middle of the prompt. Nothing was compacted."""
    first = [FIRST[0], text("system", "Skills: a, b, c. " * 30), *FIRST[1:]]
    second = [*ANSWERED, NEXT, text("system", "Skills: b. " * 30)]
    change, recording = change_of(second, first)
    assert change == "edit"
    assert recording.of_kind("compact.check") == []


def test_a_branch_continues_an_earlier_prompt_in_another_way() -> None:
    """Another call was made in the place of one."""
    change, recording = change_of([FIRST[0], call("c2"), result("c2", "other")])
    assert change == "branch"
    assert recording.of_kind("compact.check") == []


def test_messages_that_leave_before_others_are_a_compaction() -> None:
    """A window that slides has no summary: what left was dropped."""
    old = [text("user", f"Question {n}, please.") for n in range(6)]
    change, recording = change_of([old[0], *old[3:], {"role": "assistant", "content": ANSWER}, NEXT], old)
    assert change == "compaction"
    (event,) = recording.of_kind("compact.pruned_messages")
    assert event["properties"]["fates"] == {"kept": 5, "dropped": 2}
    assert {entry["rule"] for entry in event["payload"]["ledger"] if entry["fate"] == "dropped"} == {
        "not in the next prompt"
    }


def test_an_unannounced_summary_is_recognized_by_its_text() -> None:
    """An old version whose summary request was not seen still has an exact ledger."""
    summary = "This session is being continued from a previous conversation. Never touch billing.py."
    change, recording = change_of([text("user", summary), NEXT])
    assert change == "compaction"
    (event,) = recording.of_kind("compact.pruned_messages")
    assert set(event["properties"]["fates"]) == {"summarized"}
    (created,) = recording.of_kind("compact.summary_created")
    assert created["payload"]["summary"] == summary


def test_the_prompt_is_a_list_of_hashes_that_can_be_rebuilt() -> None:
    """Each request has only the hashes that the one before did not have."""
    _, recording = change_of([*ANSWERED, NEXT])
    events = recording.of_kind("compact.request")
    prompt: list[str] = []
    for event in events:
        prompt = [*prompt[: event["payload"]["kept"]], *event["payload"]["prompt"]]
        assert len(prompt) == event["properties"]["message_count"]
    assert events[1]["properties"]["previous"] == events[0]["span_id"]


@pytest.mark.parametrize("status", [429, 529])
def test_a_rejected_request_is_no_turn(status: int) -> None:
    """The retry is. Agents retry often, and turns would be counted twice."""
    recording = Recording()
    failed = {**anthropic(FIRST, answer=ANSWER, headers=SESSION), "status": status}
    failed["answer"] = '{"type": "error", "error": {"type": "rate_limit_error"}}'
    recording.play([failed, anthropic(FIRST, answer=ANSWER, headers=SESSION, at=1_800_000_002.0)])
    first, second = recording.of_kind("generation")
    assert (first["status"], first["data"]["http_status"], first["data"]["is_aside"]) == ("error", status, True)
    assert second["status"] == "ok"
    assert [request["turn"] for request in recording.requests()] == [None, 1]
