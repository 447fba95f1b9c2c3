"""The recorder: turns, open and aborted calls, versions, prompts and compactions of one session."""

from __future__ import annotations

from typing import Any

import pytest
from compact.events import CATALOG
from compact.ledgers.foreign_compaction import LogMessage
from compact.recording import RecordedSpan, SessionEvents, SessionRecorder


def at(second: int) -> str:
    return f"2026-11-18T10:00:{second:02d}.000Z"


def message(name: str, text: str = "", role: str = "user") -> LogMessage:
    return LogMessage(name, {"role": role, "content": text or f"text of {name}"}, at(0))


def record() -> SessionRecorder:
    recorder = SessionRecorder("some-agent", "anthropic", keep_items=True)
    recorder.session_id = "s1"
    return recorder


def events(recorder: SessionRecorder) -> list[dict[str, Any]]:
    session = SessionEvents(recorder, session_id=str(recorder.session_id))
    return [event for span in recorder.drain() for event in session.span_events(span)]


def spans(recorder: SessionRecorder, kind: str) -> list[RecordedSpan]:
    return [span for span in recorder.drain() if span.kind == kind]


def test_a_call_is_open_until_its_result() -> None:
    """The result has the output, and a result without a call is ignored."""
    recorder = record()
    recorder.generation("g1", at=at(1))
    recorder.call("c1", "read", {"path": "a"}, at=at(1))
    assert [span.key for span in recorder.open_calls()] == ["tool:c1"]
    assert recorder.result("other", "?", at=at(2)) is None
    span = recorder.result("c1", "content", at=at(2), is_error=True)
    assert span is not None
    assert (span.ended_at, span.is_error, span.payload) == (at(2), True, {"input": {"path": "a"}, "output": "content"})
    assert list(recorder.open_calls()) == []


def test_a_call_that_the_model_did_not_wait_for_ends_with_the_next_model_call() -> None:
    """It says that it was interrupted. Calls of other threads stay open."""
    recorder = record()
    side = recorder.thread("agent-1")
    recorder.generation("g1", at=at(1))
    recorder.call("c1", "bash", {}, at=at(1))
    recorder.generation("g2", at=at(2), thread=side)
    recorder.call("c2", "grep", {}, at=at(2), thread=side)
    recorder.drain()
    recorder.generation("g3", at=at(5))
    ended = next(event for event in events(recorder) if event["kind"] == "tool")
    assert (ended["ended_at"], ended["data"]) == (at(5), {"interrupted": True})
    assert [span.key for span in recorder.open_calls()] == ["tool:c2"]


@pytest.mark.parametrize("is_sent", [False, True])
def test_a_late_result_replaces_the_end_of_an_aborted_call(is_sent: bool) -> None:
    """The server merges data, so a mark that was sent is taken back."""
    recorder = record()
    recorder.generation("g1", at=at(1))
    recorder.call("c1", "bash", {}, at=at(1))
    recorder.generation("g2", at=at(2))
    if is_sent:
        recorder.drain()
    recorder.result("c1", "late", at=at(9))
    (span,) = spans(recorder, "tool")
    assert (span.ended_at, span.payload["output"]) == (at(9), "late")
    assert span.data == ({"interrupted": False} if is_sent else {})


def test_a_new_version_of_an_aborted_call_stays_ended() -> None:
    """A source that repeats a message repeats its calls."""
    recorder = record()
    recorder.generation("g1", at=at(1))
    recorder.call("c1", "bash", {}, at=at(1))
    recorder.generation("g2", at=at(2))
    recorder.call("c1", "bash", {"command": "make"}, at=at(1))
    (span,) = spans(recorder, "tool")
    assert (span.ended_at, span.payload) == (at(2), {"input": {"command": "make"}})
    assert list(recorder.open_calls()) == []


def test_turns_count_the_model_calls_of_each_thread_and_survive_new_versions() -> None:
    """A model call that is recorded again keeps its number and ends nothing."""
    recorder = record()
    side = recorder.thread("agent-1")
    turns = [recorder.generation(name, at=at(1)).data["turn"] for name in ("g1", "g2", "g2", "g3")]
    assert turns == [1, 2, 2, 3]
    assert recorder.generation("g4", at=at(2), thread=side).data["turn"] == 1
    recorder.call("c1", "bash", {}, at=at(3))
    assert recorder.generation("g1", at=at(1), model="m").data["turn"] == 1
    assert [span.key for span in recorder.open_calls()] == ["tool:c1"]


def test_a_message_replaces_its_earlier_version_and_does_not_return() -> None:
    """A version that comes after a rewind is too late. An unchanged record is skipped."""
    recorder = record()
    for name in ("u1", "u2"):
        recorder.put(message(name))
    recorder.put(message("u1", "edited"))
    assert [item["content"] for item in recorder.items or ()] == ["edited", "text of u2"]
    recorder.set_prompt([recorder.own_thread.prompt["u1"]])
    recorder.put(message("u2", "edited, too"))
    assert list(recorder.own_thread.prompt) == ["u1"]
    recorder.set_prompt([message("u2"), message("u3")])
    assert list(recorder.own_thread.prompt) == ["u2", "u3"]
    assert [recorder.is_new_version("r1", {"text": text}) for text in "aab"] == [True, False, True]


def test_a_sub_agent_ends_with_its_last_span() -> None:
    """Later records add to it, and it belongs to the call that started it."""
    recorder = record()
    recorder.agent("a1", at=at(1))
    recorder.agent("a1", name="explorer", parent="tool:c1")
    recorder.generation("g1", at=at(4), thread=recorder.thread("a1"))
    (agent,) = spans(recorder, "agent")
    assert (agent.name, agent.parent, agent.started_at, agent.ended_at) == ("explorer", "tool:c1", at(1), at(4))


def compact(recorder: SessionRecorder, evidence: Any, summary: str) -> RecordedSpan | None:
    compaction = recorder.begin_compaction("b1", at=at(3))
    compaction.evidence, compaction.summary, compaction.summary_id = evidence, summary, "s1"
    compaction.after = (message("s1", summary),)
    return recorder.compaction(compaction, "compacted")


def test_better_evidence_replaces_a_compaction_and_worse_evidence_does_not() -> None:
    """The number stays, in both orders of arrival."""
    recorder = record()
    recorder.add(message("u1"))
    assert compact(recorder, "possible", "guess") is not None
    assert compact(recorder, "exact", "seen") is not None
    assert compact(recorder, "inferred", "read") is None
    (span,) = spans(recorder, "compaction")
    assert span.compaction is not None
    assert (span.payload, span.compaction.number) == ({"summary": "seen"}, 1)
    assert [item.item["content"] for item in recorder.own_thread.prompt.values()] == ["seen"]


@pytest.mark.parametrize(("evidence", "is_inferred"), [("exact", None), ("inferred", True)])
def test_the_events_of_a_compaction_have_the_keys_of_the_catalog(evidence: str, is_inferred: bool | None) -> None:
    """Only keys that a class marks as optional are left out. Fates that were seen are not called inferred."""
    recorder = record()
    recorder.model = "m"
    for name in ("u1", "u2"):
        recorder.add(message(name, f"Never touch {name}.py, the release is v1.2.3."))
    recorder.generation("g1", at=at(1), model="m").usage = {"input_tokens": 9}
    compact(recorder, evidence, "A summary of the release v1.2.3.")
    classes = {event.name: event for event in CATALOG}
    records = [event for event in events(recorder) if event["kind"] in classes]
    kinds = [record["kind"].removeprefix("compact.") for record in records]
    assert kinds == ["token_estimate", "check", "trigger_decision", "summary_created", "retention", "pruned_messages"]
    for sent in records:
        event = classes[sent["kind"]]
        optional = {name for name, mark in event.__dataclass_fields__.items() if "is_optional" in mark.metadata}
        assert set(event.public_fields()) - optional <= set(sent["properties"]) <= set(event.public_fields())
        assert set(sent.get("payload", ())) == set(event.private_fields())
    result = records[-1]
    assert (result["properties"]["evidence"], result["properties"].get("inferred")) == (evidence, is_inferred)
    assert result["properties"]["layers"] == {"pinned": 0, "summary": 1, "recent": 0}
    assert {entry.get("inferred") for entry in result["payload"]["ledger"]} == {is_inferred}


def test_two_sessions_in_one_process_share_nothing() -> None:
    """The same ids in both, interleaved, and a different planted value in each."""
    secrets = {"s1": "zebra-4711-quartz", "s2": "otter-9083-cobalt"}
    recorders = {name: record() for name in secrets}
    sent: dict[str, list[dict[str, Any]]] = {name: [] for name in secrets}
    for second in range(8):
        for name, recorder in recorders.items():
            recorder.session_id, text = name, f"In step {second} the code is {secrets[name]}."
            recorder.put(message(f"u{second % 3}", text))
            recorder.user(message(f"u{second}", text), text)
            recorder.generation(f"g{second}", at=at(second)).payload = {"output": text}
            recorder.call(f"c{second % 2}", "bash", text, at=at(second))
            if second % 3:
                recorder.result(f"c{second % 2}", text, at=at(second))
            if second == 5:
                compact(recorder, "exact", text)
            sent[name] += events(recorder)
    for name, other in (("s1", "s2"), ("s2", "s1")):
        assert secrets[name] in str(sent[name])
        assert secrets[other] not in str(sent[name])
        assert {event["session_id"] for event in sent[name]} == {name}
    assert not {event["span_id"] for event in sent["s1"]} & {event["span_id"] for event in sent["s2"]}
