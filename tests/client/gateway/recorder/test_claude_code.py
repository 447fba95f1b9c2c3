"""Sessions of the real Claude Code, as the gateway has seen them, beside what its own log says."""

from __future__ import annotations

from typing import Any

import pytest
from client.gateway.recorder.wire_feed import LOGS, Recording, read_exchanges
from compact.importers.log_file import LogFile

VERSIONS = ("claude_code_2.1.197", "claude_code_2.1.327")
EACH_VERSION = pytest.mark.parametrize("version", VERSIONS)


def log_events(version: str) -> list[dict[str, Any]]:
    """Return what `watch` sends for the logs of the same sessions."""
    events = []
    for path in sorted((LOGS / version).rglob("*.jsonl")):
        for step in LogFile(path).steps(None, is_final=True):
            events += step.events
    return events


@EACH_VERSION
def test_turns_tools_and_changes_are_those_of_the_session(version: str) -> None:
    """Each prompt but the first continues the one before, except for the compaction."""
    recording = Recording().play(read_exchanges(version))
    turns = [request for request in recording.requests() if request["request_class"] in ("main", "subagent")]
    changes = [request["change"] for request in turns]
    assert changes.count("start") == 3  # two sessions and a sub-agent
    assert changes.count("compaction") == 1
    assert set(changes) == {"start", "append", "compaction"}
    tools = recording.of_kind("tool")
    assert {tool["name"] for tool in tools} <= {"Read", "Agent", "Task"}
    assert all(tool["ended_at"] for tool in tools)


@EACH_VERSION
def test_the_compaction_is_exact_and_every_block_has_its_fate(version: str) -> None:
    """The summary request is linked to it and is no turn. Only the last answer stays."""
    recording = Recording().play(read_exchanges(version))
    (result,) = recording.of_kind("compact.pruned_messages")
    properties, ledger = result["properties"], result["payload"]["ledger"]
    assert (properties["evidence"], properties.get("inferred")) == ("exact", None)
    assert not any("inferred" in entry for entry in ledger)
    spoken = [entry for entry in ledger if entry["role"] in ("assistant", "tool")]
    assert [entry["fate"] for entry in spoken] == ["summarized"] * (len(spoken) - 1) + ["kept"]
    (check,) = recording.of_kind("compact.check")
    assert check["properties"]["trigger"] == ("manual" if version.endswith("327") else "auto")
    summaries = [span for span in recording.of_kind("generation") if span["name"] == "summary request"]
    assert [span["parent_id"] for span in summaries] == [check["span_id"]]
    assert "turn" not in summaries[0]["data"]
    (summary,) = recording.of_kind("compact.summary_created")
    assert summary["payload"]["summary"].startswith("This session is being continued")


@EACH_VERSION
def test_sizes_are_those_that_the_provider_reported(version: str) -> None:
    """The prompt before is the last turn with its answer, and the prompt after is the next turn's."""
    recording = Recording().play(read_exchanges(version))
    (result,) = recording.of_kind("compact.pruned_messages")
    turns = [request for request in recording.requests() if request["request_class"] == "main"]
    after = next(index for index, request in enumerate(turns) if request["change"] == "compaction")
    before = turns[after - 1]["usage"]
    assert result["properties"]["tokens_before"] == before["input_tokens"] + before["output_tokens"]
    assert result["properties"]["tokens_after"] == turns[after]["usage"]["input_tokens"]


@EACH_VERSION
def test_parts_add_up_to_the_prompt(version: str) -> None:
    """Tools are named, results have the file that was read, and the summary is a part of its own."""
    requests = Recording().play(read_exchanges(version)).requests()
    assert all(sum(part["tokens"] for part in request["parts"]) == request["tokens"] for request in requests)
    names = {(part["part"], part.get("name")) for request in requests for part in request["parts"]}
    assert {("tools", "Read"), ("tool_result", "/home/user/notes/note1.md"), ("summary", None)} <= names


@EACH_VERSION
def test_the_log_of_the_session_names_the_same_spans(version: str) -> None:
    """`watch` imports the same session: only the summary request and background notices are in one of them."""
    wire = {event["span_id"]: event for event in Recording().play(read_exchanges(version)).events if "span_id" in event}
    log = {event["span_id"]: event for event in log_events(version) if "span_id" in event}
    only_wire = {event["name"] for name, event in wire.items() if name not in log}
    only_log = {event["name"] for name, event in log.items() if name not in wire}
    assert only_wire - {"title"} == {"compact.request", "summary request"}
    assert only_log <= {"notice"}
    traces = [{event["trace_id"] for event in events.values()} for events in (wire, log)]
    assert traces[0] == traces[1]


@EACH_VERSION
def test_interleaved_sub_agents_are_compared_with_their_own_prompts(version: str) -> None:
    """The sub-agent hangs below the call that started it, and its turns are numbered on their own."""
    recording = Recording().play(read_exchanges(version))
    (agent,) = [span for span in recording.of_kind("agent") if span["name"] == "general-purpose"]
    calls = {span["span_id"]: span for span in recording.of_kind("tool")}
    assert calls[agent["parent_id"]]["name"] in ("Agent", "Task")
    own = [request for request in recording.requests() if request["request_class"] == "subagent"]
    assert [request["turn"] for request in own] == list(range(1, len(own) + 1))
    assert [request["change"] for request in own] == ["start"] + ["append"] * (len(own) - 1)


@EACH_VERSION
def test_a_replay_emits_the_same_events(version: str) -> None:
    """Ids come from the session and from the provider, so a second recording changes nothing."""
    first, second = (Recording().play(read_exchanges(version)).events for _ in range(2))
    assert first == second


@EACH_VERSION
def test_a_session_that_is_first_seen_at_its_compaction_has_a_ledger(version: str) -> None:
    """The request for the summary has the earlier prompt without its last answer, so the evidence is `inferred`."""
    records = read_exchanges(version)
    whole, late = Recording().play(records), Recording().play(records[4:])
    (result,), (exact,) = (recording.of_kind("compact.pruned_messages") for recording in (late, whole))
    assert result["properties"]["evidence"] == "inferred"
    fates = [(entry["role"], entry["fate"]) for entry in result["payload"]["ledger"]]
    answered = [(entry["role"], entry["fate"]) for entry in exact["payload"]["ledger"]]
    assert fates == answered[:-1]  # without the last answer
    assert "summarized" in dict(fates).values()
    (summary,) = late.of_kind("compact.summary_created")
    assert summary["payload"]["summary"].startswith("This session is being continued")
    (check,) = late.of_kind("compact.check")
    assert [s["parent_id"] for s in late.of_kind("generation") if s["name"] == "summary request"] == [check["span_id"]]
    first = next(request for request in late.requests() if request["request_class"] == "main")
    assert first["change"] == "compaction"
