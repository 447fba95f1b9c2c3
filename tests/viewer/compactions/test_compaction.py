"""The fate ledger, the flow diagram and the comparison of summaries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.growth import assert_linear
from viewer.compactions.flow import MAX_BLOCKS, build_flow
from viewer.compactions.ledger import parse_ledger
from viewer.compactions.lineage import diff_summaries, summary_version
from viewer.compactions.lost_facts import quote
from viewer.sessions.spans import SpanRow


def entry(name: str, fate: str = "kept", tokens: int = 10) -> dict[str, object]:
    return {"id": name, "hash": name * 4, "role": "user", "tokens": tokens, "fate": fate, "rule": "recent 1 of 2"}


def test_messages_that_change_their_order_are_moved() -> None:
    ledger = parse_ledger(
        {"ledger": [entry("a"), entry("b"), entry("c")], "after": [entry("c"), entry("a"), entry("b")]}
    )
    assert {message.id: message.state for message in ledger.after} == {"a": "unchanged", "b": "unchanged", "c": "moved"}
    assert [message.id for message in ledger.moved] == ["c"]


def test_a_truncated_message_is_changed_and_a_summary_is_new() -> None:
    shorter = {**entry("a"), "hash": "other"}
    ledger = parse_ledger(
        {"ledger": [entry("a", "truncated"), entry("b", "summarized")], "after": [shorter, entry("s")]}
    )
    assert [message.state for message in ledger.after] == ["changed", "new"]


def test_null_fields_of_a_ledger_are_empty() -> None:
    row = dict.fromkeys(("id", "hash", "role", "tokens", "fate", "rule", "into"))
    ledger = parse_ledger({"ledger": [row], "after": [row]})
    (entry,) = ledger.entries
    assert (entry.id, entry.role, entry.tokens, entry.rule, ledger.after[0].role) == ("", "", 0, "", "")


@pytest.mark.parametrize("payload", [None, [], "text", {"ledger": "no"}, {"ledger": [1, None], "after": [[]]}])
def test_an_invalid_payload_gives_an_empty_ledger(payload: object) -> None:
    ledger = parse_ledger(payload)
    assert ledger.entries == []
    build_flow(ledger, 0, None)


_FATES = st.sampled_from(["kept", "pinned", "summarized", "cleared", "externalized", "dropped", "strange"])


@given(st.lists(st.tuples(_FATES, st.integers(0, 10_000)), max_size=40), st.randoms())
def test_the_diagram_includes_every_message_and_stays_in_its_frame(rows: list[tuple[str, int]], random: object) -> None:
    before = [entry(f"m{n}", fate, tokens) for n, (fate, tokens) in enumerate(rows)]
    after = [row for row in before if row["fate"] in {"kept", "pinned"}]
    random.shuffle(after)  # type: ignore[attr-defined]
    ledger = parse_ledger({"ledger": before, "after": after})
    flow = build_flow(ledger, ledger.tokens_before + 50, ledger.tokens_after + 50)
    assert sum(count for _, count, _ in ledger.counts) == len(before)
    for block in [*flow.before, *flow.after]:
        assert 0 <= block.y <= flow.height + 1
        assert block.height <= flow.height + 1
    assert len({message.was for message in ledger.after}) == len(ledger.after)


def test_a_diff_has_added_edited_and_removed_lines() -> None:
    old = "# State v1\n- keep the ledger closed [m3]\n- migrate at 02:00 UTC\n- call the bank"
    new = "# State v2\n- keep the ledger closed [m3]\n- migrate at 03:30 UTC\n- backfill 40,112 [m31]"
    states = {line.text: line.state for line in diff_summaries(old, new)}
    assert states["# State v2"] == "same"
    assert states["- keep the ledger closed [m3]"] == "same"
    assert states["- migrate at 03:30 UTC"] == "edited"
    assert states["- backfill 40,112 [m31]"] == "added"
    assert states["- call the bank"] == "removed"
    assert next(line.sources for line in diff_summaries(old, new) if "backfill" in line.text) == ("m31",)


def test_marks_for_the_model_are_not_lines_of_a_summary() -> None:
    lines = diff_summaries("", "<COMPACT-SUMMARY v3>\n[Summary v1 task_state]\n# Goals\n- Ship it")
    assert [line.words for line in lines] == ["Goals", "• Ship it"]


def test_a_record_below_its_parent_is_indented_and_has_its_source() -> None:
    text = "- reservation_id OBUT9V: cabin=economy\n flight_number HAT266: price=131"
    record = {"text": "flight_number HAT266 (reservation_id OBUT9V): price=131", "parent": "reservation_id OBUT9V"}
    payload = {"summary": text, "structured": {"records": [{**record, "sources": ["m22"]}]}}
    span = SpanRow("t", "s", None, "compact.summary_created", "", "ok", None, None, None, 1, {"version": 1})
    version = summary_version(1, span, payload, None)
    assert version is not None
    assert [(line.is_indented, line.sources) for line in version.lines] == [(False, ()), (True, ("m22",))]


def test_a_line_that_only_moved_is_neither_removed_nor_added() -> None:
    lines = diff_summaries("- one thing\n- two birds\n- three kings", "- three kings\n- one thing\n- two birds")
    assert [line.state for line in lines] == ["same", "same", "same"]


_LINES = st.lists(st.sampled_from(["call the bank", "close the ledger", "close the books", "a", "b"]), max_size=12)


@given(_LINES, _LINES)
def test_every_line_of_both_summaries_is_in_the_diff_once(old: list[str], new: list[str]) -> None:
    lines = diff_summaries("\n".join(old), "\n".join(new))
    assert [line.text for line in lines if line.state != "removed"] == new
    old_lines = [line.was or line.text for line in lines if line.state in {"same", "edited", "removed"}]
    assert sorted(old_lines) == sorted(old)


@pytest.mark.req("A-LIN-1")
def test_long_summaries_are_compared_in_linear_time() -> None:
    """With difflib, a thousand lines that all changed took minutes."""

    def changed_summaries(lines: int) -> tuple[str, str]:
        old = (f"- step {n} read the file src/module_{n}.py and found nothing" for n in range(lines))
        new = (f"- step {n} wrote the file lib/module_{n}.py and found errors" for n in range(lines))
        return "\n".join(old), "\n".join(new)

    assert_linear(lambda texts: diff_summaries.__wrapped__(*texts), changed_summaries, first_size=200)


def test_the_blocks_of_each_side_add_up_to_the_prompt() -> None:
    """Tool schemas are a block of their own, so "before" means the same in the diagram and in the header."""
    rows = [entry("a", "kept", 40), entry("b", "summarized", 60)]
    after = [entry("a", tokens=40), {**entry("s", tokens=20), "hash": "new"}]
    flow = build_flow(parse_ledger({"ledger": rows, "after": after}), 130, 90)
    labels = [[block.label for block in side] for side in (flow.before, flow.after)]
    assert labels == [
        ["overhead · 30", "1 kept · 40", "1 summarized · 60"],
        ["overhead · 30", "1 unchanged · 40", "summary · 20"],
    ]
    assert flow.is_consistent
    assert not build_flow(parse_ledger({"ledger": rows, "after": after}), 90, 50).is_consistent


def test_a_lost_fact_is_quoted_with_its_sentence() -> None:
    text = "First line.\nIn 2024 the sites reported 11,976 and 1,976 MWh. Done."
    assert quote("1,976", text) == ("In 2024 the sites reported 11,976 and ", "1,976", " MWh.")
    assert quote("2,000", text) is None
    assert quote("192", '{\n  "fee_eur": 192,\n  "cabin": "Y"\n}') == ("fee_eur: ", "192", "")
    assert quote("Q38AR", '  "fare_basis": "Q38AR",\n') == ("fare_basis: ", "Q38AR", "")
    assert quote("Q38AR", 'He said "Q38AR", then left.') == ('He said "', "Q38AR", '", then left.')
    assert quote("x" * 10, "a " * 500 + "x" * 10 + " b" * 500)[0].startswith("…")  # type: ignore[index]


def test_inferred_fates_are_marked() -> None:
    ledger = parse_ledger({"ledger": [{**entry("a"), "inferred": True}, entry("b")]})
    assert [row.inferred for row in ledger.entries] == [True, False]
    assert ledger.inferred_count == 1


def test_an_undisclosed_summary_is_recognized() -> None:
    span = SpanRow("t", "s", None, "compact.summary_created", "", "ok", None, None, None, 1, {"version": 2})
    version = summary_version(2, span, {"summary": "The provider does not disclose this summary."}, {"summary": "- a"})
    assert version
    assert not version.is_disclosed
    assert not version.is_compared


def test_the_flow_of_thousands_of_messages_has_few_blocks() -> None:
    """Kept and cleared messages alternate, so each message is a run of its own."""
    rows = [entry(f"m{number}", ("kept", "cleared")[number % 2], tokens=1 + number % 7) for number in range(2_000)]
    ledger = parse_ledger({"ledger": rows, "after": [row for row in rows if row["fate"] == "kept"]})
    flow = build_flow(ledger, ledger.tokens_before + 50, ledger.tokens_after + 50)
    assert 100 < len(flow.before) <= MAX_BLOCKS + 1
    assert len(flow.ribbons) <= MAX_BLOCKS + 1
    assert sum(int(block.label.split()[0]) for block in flow.before[1:]) == 2_000
