"""Truncation of long tool outputs."""

from __future__ import annotations

import json
import re

import pytest
from builders import Recorder, chat_turns, tool_pair
from compact import CompactConfig, CompactManager, CompactPolicy, TiktokenEstimator
from compact.adapters.artifact_stores import MemoryArtifactStore
from compact.planning.tool_results.truncation import truncate_bytes_with_split, truncate_output, truncate_with_split
from hypothesis import given, settings
from hypothesis import strategies as st

count = TiktokenEstimator().count_tokens
LONG = "\n".join(f"line {number} of the log" for number in range(3000))


@pytest.mark.req("R-TRUNC-1")
def test_truncation_keeps_the_start_and_the_end():
    """Half of the limit is kept at each end, and the marker has the number of missing tokens."""
    cut = truncate_with_split(LONG, 1000, count)
    assert cut.startswith("line 0 of the log\n")
    assert cut.endswith("line 2999 of the log")
    head, marker, rest = cut.split("…")
    lines, _, tail = rest.partition("\n")
    assert marker == f"{count(LONG) - count(head) - count(tail)} tokens truncated"
    assert lines == f" ({3000 - len(head.splitlines()) - len(tail.splitlines()):,} lines)"
    assert count(cut) <= 1010
    assert abs(count(head) - count(tail)) < 100
    assert truncate_with_split("short", 1000, count) == "short"


@pytest.mark.req("R-TRUNC-1")
def test_truncation_by_bytes_and_without_truncation():
    """`bytes` cuts between characters, `none` cuts nothing, and a header may have the line count."""
    assert truncate_output(LONG, CompactPolicy(tool_output_truncation="none"), count) == LONG
    cut = truncate_output("é" * 100_000, CompactPolicy(tool_output_truncation="bytes"), count)
    assert len(cut.encode()) <= 5000 * 1.2 * 4 + 40
    assert "chars truncated" in cut
    headed = truncate_bytes_with_split(LONG, 100, with_line_count=True)
    assert headed.startswith("Total output lines: 3000\n")


@pytest.mark.req("R-TRUNC-1")
@pytest.mark.parametrize("text", ["word " * 5500, "\U0001f9ff" * 4000], ids=["inside the buffer", "four bytes each"])
def test_every_output_over_the_limit_is_truncated(text):
    """Includes outputs within the serialization buffer, and outputs with few characters but many tokens."""
    assert count(text) > 5000
    assert "tokens truncated…" in truncate_output(text, CompactPolicy(), count)


def flight(number):
    """Return a record with a nested one, as an airline's API returns it."""
    return {"flight": f"HAT{number:03}", "origin": "EWR", "seats": {"economy": number, "business": 2}, "via": ["a, {b"]}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("before", "after"),
    [("", ""), ('{"total": 80, "flights": ', ', "page": {"next": 2}}'), ("[", ", []]")],
    ids=["array", "field of an object", "array of arrays"],
)
def test_records_stay_whole(before, after, indent):
    """The first and the last records of a JSON text are left, and whatever is around them."""
    text = before + json.dumps([flight(number) for number in range(80)], indent=indent) + after
    cut = truncate_with_split(text, 600, count)
    assert 300 < count(cut) <= 616
    middle = re.search(r" …(\d+) tokens truncated… \((\d+) records\) ", cut)
    assert int(middle[1]) == pytest.approx(count(text) - count(cut), abs=20)
    data = json.loads(cut.replace(middle[0], ", "))
    flights = data["flights"] if "flights" in data else data[0] if before else data
    numbers = [int(item["flight"][3:]) for item in flights]
    assert flights == [flight(number) for number in sorted(numbers)]
    assert int(middle[2]) == 80 - len(flights)
    assert text.startswith(cut[: middle.start()])
    assert text.endswith(cut[middle.end() :])


def test_a_record_that_is_too_long_is_cut_between_the_records_in_it():
    """The outer object alone exceeds the limit, so its list is shortened."""
    order = {"order": 7, "lines": [{"sku": f"A-{number}", "quantity": number} for number in range(300)], "paid": True}
    cut = truncate_with_split(json.dumps([order]), 400, count)
    short = json.loads(re.sub(r" …\d+ tokens truncated… \(\d+ records\) ", ", ", cut))
    assert short[0]["order"] == 7
    assert short[0]["paid"]
    assert all(line in order["lines"] for line in short[0]["lines"])


def test_fields_and_values_stay_whole():
    """A single long object is cut between its fields, and a list of numbers between the numbers."""
    issue = {f"field_{number}": f"value {number}, of " + "text " * 20 for number in range(100)}
    cut = truncate_with_split(json.dumps(issue), 400, count)
    middle = re.search(r" …\d+ tokens truncated… \((\d+) values\) ", cut)
    short = json.loads(cut.replace(middle[0], ", "))
    assert short.items() <= issue.items()
    assert int(middle[1]) == 100 - len(short)
    cut = truncate_with_split(json.dumps([number**9 for number in range(1000)]), 400, count)
    assert {round(number ** (1 / 9)) ** 9 - number for number in json.loads(re.sub(" ….*… .*?\\) ", ", ", cut))} == {0}


def test_lines_stay_whole():
    """A row of a table is never cut, also if it is long."""
    rows = [f"| {number} | " + "cell | " * 40 for number in range(60)]
    cut = truncate_with_split("\n".join(rows), 500, count)
    kept = [line for line in cut.split("\n") if "truncated" not in line]
    assert 4 <= len(kept) <= 6
    assert set(kept) <= set(rows)
    assert f"({60 - len(kept)} lines)" in cut


HOSTILE = {
    "one long string": json.dumps({"text": "word " * 200_000}),
    "numbers": json.dumps(list(range(150_000))),
    "records and one long string": json.dumps([{"id": 1}, {"text": "word " * 200_000}, {"id": 2}]),
    "truncated JSON": json.dumps([flight(number) for number in range(8000)])[:-77_777],
    "JSON with a hole": json.dumps([flight(number) for number in range(8000)])[:400_004] + "…" + '"}, {"id": 1}]' * 9,
    "open brackets": "[" * 300_000,
    "closing brackets": "[" + "]" * 300_000,
    "open string": '["' + '\\"' * 500_000 + "\\",
    "empty lines": "\n" * 1_000_000,
    "one long line between short ones": "start\n" + "x" * 1_000_000 + "\nend",
    "control characters": "".join(chr(number * 7919 % 256) for number in range(300_000)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_any_text_is_cut_to_the_limit(name):
    """The result fills at least a third of the limit, and the text is read only a few times."""
    counted = 0

    def count_and_sum(text):
        nonlocal counted
        counted += len(text)
        return count(text)

    cut = truncate_with_split(HOSTILE[name], 600, count_and_sum)
    assert 200 < count(cut) <= 616
    assert "tokens truncated…" in cut
    assert counted < 2 * len(HOSTILE[name])


@settings(max_examples=50)
@given(st.text(max_size=3000), st.integers(2, 200))
def test_truncated_text_is_not_much_longer_than_the_limit(text, limit):
    """For any text and limit, the result is at most slightly longer than the limit."""
    cut = truncate_with_split(text, limit, count)
    assert count(cut) <= limit + 16 or cut == text


def history(output):
    return [{"role": "user", "content": "go"}, *tool_pair(1, output), *tool_pair(2, "short")]


@pytest.mark.req("R-TRUNC-1")
def test_an_output_over_its_share_of_the_window_is_truncated_when_it_arrives():
    """The prompt has 6,000 tokens of it, the log has all of it, and an event has the true sizes."""
    recorder = Recorder()
    manager = CompactManager(CompactConfig("gpt-5", 30_000, exporter=recorder))
    messages = history(LONG)
    out = manager.preflight("s", messages)
    assert "tokens truncated…" in out[2]["content"]
    assert 5000 < count(out[2]["content"]) <= 6020
    assert out[3:] == messages[3:]
    assert manager._session("s").thread.messages[2].text == LONG
    (event,) = recorder.of("compact.truncated")
    properties = event["properties"]
    assert properties["tokens_before"] == pytest.approx(count(LONG), abs=20)
    assert properties["tokens_after"] == pytest.approx(count(out[2]["content"]), abs=20)
    assert properties["tokens_freed"] == properties["tokens_before"] - properties["tokens_after"]
    manager.preflight("s", [*messages, {"role": "user", "content": "next"}])
    assert len(recorder.of("compact.truncated")) == 1


@pytest.mark.req("R-TRUNC-1")
def test_an_output_that_fits_is_not_truncated():
    """36,000 tokens stay whole in a window of 128,000. Protected outputs stay whole in any window."""
    recorder = Recorder()
    messages = history("word " * 36_000)
    manager = CompactManager(CompactConfig("gpt-5", 128_000, exporter=recorder))
    assert manager.preflight("s", messages) == messages
    small = CompactManager(CompactConfig("gpt-5", 60_000, exporter=recorder))
    messages[2]["meta"] = {"protected": True}
    assert small.preflight("s", messages)[2]["content"] == messages[2]["content"]
    assert small.preflight("t", history("word " * 36_000), protected=[2]) == history("word " * 36_000)
    assert not recorder.of("compact.truncated")


def test_a_share_of_zero_truncates_every_long_output():
    """That is the rule of document 004, also if the window is unknown."""
    for window in (128_000, None):
        policy = CompactPolicy(tool_output_share=0)
        out = CompactManager(CompactConfig("gpt-5", window, policy=policy)).preflight("s", history(LONG))
        assert 5000 < count(out[2]["content"]) <= 6020


@pytest.mark.req("R-TRUNC-1")
@pytest.mark.parametrize("kind", ["tokens", "bytes"])
def test_a_new_process_does_not_truncate_an_output_again(kind):
    """A text with a marker that is much longer than the limit is truncated like any other."""
    policy = CompactPolicy(tool_output_share=0, tool_output_truncation=kind)
    config = CompactConfig("gpt-5", 128_000, policy=policy, artifact_store=MemoryArtifactStore())
    out = CompactManager(config).preflight("s", history(LONG))
    assert " truncated…" in out[2]["content"]
    assert CompactManager(config).preflight("s", out) == out
    longer = history(f"{LONG}\n{out[2]['content']}")
    again = CompactManager(config).preflight("s", longer)[2]["content"]
    assert len(again) == pytest.approx(len(out[2]["content"]), rel=0.05)


@pytest.mark.req("R-TRUNC-1")
def test_the_full_text_goes_to_the_artifact_store():
    """The marker names the artifact, and `read_artifact` returns the whole output."""
    recorder = Recorder()
    manager = CompactManager(CompactConfig("gpt-5", 30_000, exporter=recorder, artifact_store=MemoryArtifactStore()))
    out = manager.preflight("s", history(LONG))
    artifact_id = recorder.last("compact.truncated")["artifact_id"]
    assert out[2]["content"].endswith(f'[Full output: read_artifact("{artifact_id}")]')
    assert manager.read_artifact("s", artifact_id) == LONG


@pytest.mark.req("R-TRUNC-1", "A-END-2")
def test_a_compaction_truncates_older_outputs_before_it_keeps_fewer():
    """The newest output is whole, older ones are truncated, and the ledger and events say so."""
    recorder = Recorder()
    policy = CompactPolicy(tool_output_max_tokens=200, hard_cap_buffer=100)
    manager = CompactManager(CompactConfig("gpt-5", 6000, policy=policy, exporter=recorder))
    output = "word " * 1000
    old = [item for number in range(40) for item in tool_pair(number, output)]
    messages = [{"role": "user", "content": "go"}, *old, *tool_pair(99, output)]
    sent = manager.preflight("s", messages)
    assert sent[-1] == messages[-1]
    assert "tokens truncated" in sent[-3]["content"]
    ledger = recorder.of("compact.pruned_messages")[-1]["payload"]["ledger"]
    assert [entry["fate"] for entry in ledger[-7:]] == ["truncated" if n % 2 == 0 else "kept" for n in range(6)] + [
        "kept"
    ]
    assert len(recorder.of("compact.truncated")) == 3
    assert {event["properties"]["tokens_before"] for event in recorder.of("compact.truncated")} == {
        ledger[-1]["tokens"]
    }
    assert manager.preflight("s", messages) == sent
    assert manager.rerender("s", 1) == sent


@pytest.mark.req("A-END-2")
def test_a_compaction_never_shows_a_truncated_output_in_full_again():
    """A manual compaction of 9,717 tokens once became 91,404."""
    recorder = Recorder()
    manager = CompactManager(CompactConfig("gpt-5", 128_000, exporter=recorder))
    turns = [message.to_dict() for message in chat_turns(30)]
    messages = [*turns, *tool_pair(1, "word " * 82_000)]
    before = manager.preflight("s", messages)
    after = manager.manual_compact("s", messages)
    assert after[-1] == before[-1]
    compaction = recorder.last("compact.pruned_messages")
    assert compaction["tokens_after"] < compaction["tokens_before"] < 15_000


@pytest.mark.req("R-TRUNC-1")
def test_shell_output_is_truncated_inside_its_item():
    """A Responses shell output keeps its structure and exit code. Only its texts are truncated."""
    result = {"stdout": LONG, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    items = [
        {"role": "user", "content": "Run it."},
        {"type": "shell_call", "call_id": "c", "action": {"commands": ["make"]}},
        {"type": "shell_call_output", "call_id": "c", "output": [result]},
    ]
    out = CompactManager(CompactConfig("gpt-5", 30_000)).preflight("s", items)
    assert out[:2] == items[:2]
    shown = out[2]["output"][0]
    assert shown == {**result, "stdout": shown["stdout"]}
    assert "tokens truncated" in shown["stdout"]
    assert count(shown["stdout"]) <= 6100


@pytest.mark.req("R-TRUNC-1")
def test_a_second_truncation_starts_from_the_full_text():
    """The marker has all the missing tokens, and the pointer to the full output occurs once."""
    recorder = Recorder()
    policy = CompactPolicy(tool_output_share=0, tool_output_max_tokens=1000, hard_cap_buffer=0)
    store = MemoryArtifactStore()
    manager = CompactManager(CompactConfig("gpt-5", 2000, policy=policy, exporter=recorder, artifact_store=store))
    messages = [{"role": "user", "content": "go"}, *tool_pair(1, LONG)]
    manager.preflight("s", messages)
    messages += [{"role": "assistant", "content": "word " * 1000}, {"role": "user", "content": "next"}]
    out = manager.preflight("s", messages)
    assert len(recorder.of("compact.truncated")) > 1
    (text,) = (message["content"] for message in out if message["role"] == "tool")
    (missing,) = re.findall(r"…(\d+) tokens truncated…", text)
    assert int(missing) == pytest.approx(count(LONG) - count(text), abs=50)
    assert text.count("read_artifact") == 1
