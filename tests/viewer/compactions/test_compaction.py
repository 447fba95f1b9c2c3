"""One compaction taken apart: fates, order, the picture, the line of summaries."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewer.compactions.flow import flow
from viewer.compactions.ledger import ledger
from viewer.compactions.lineage import changes


def entry(name: str, fate: str = "kept", tokens: int = 10) -> dict[str, object]:
    return {"id": name, "hash": name * 4, "role": "user", "tokens": tokens, "fate": fate, "rule": "recent 1 of 2"}


def test_what_stays_in_its_order_is_unchanged_and_what_does_not_is_moved() -> None:
    found = ledger({"ledger": [entry("a"), entry("b"), entry("c")], "after": [entry("c"), entry("a"), entry("b")]})
    assert {message.id: message.state for message in found.after} == {"a": "unchanged", "b": "unchanged", "c": "moved"}
    assert [message.id for message in found.moved] == ["c"]


def test_a_message_with_another_text_is_changed_and_a_summary_is_new() -> None:
    shorter = {**entry("a"), "hash": "other"}
    found = ledger({"ledger": [entry("a", "truncated"), entry("b", "summarized")], "after": [shorter, entry("s")]})
    assert [message.state for message in found.after] == ["changed", "new"]


@pytest.mark.parametrize("payload", [None, [], "text", {"ledger": "no"}, {"ledger": [1, None], "after": [[]]}])
def test_what_is_no_ledger_is_an_empty_one(payload: object) -> None:
    found = ledger(payload)
    assert found.entries == []
    flow(found)


_FATES = st.sampled_from(["kept", "pinned", "summarized", "cleared", "externalized", "dropped", "strange"])


@given(st.lists(st.tuples(_FATES, st.integers(0, 10_000)), max_size=40), st.randoms())
def test_the_picture_holds_every_token_and_stays_in_its_frame(rows: list[tuple[str, int]], random: object) -> None:
    before = [entry(f"m{n}", fate, tokens) for n, (fate, tokens) in enumerate(rows)]
    after = [row for row in before if row["fate"] in {"kept", "pinned"}]
    random.shuffle(after)  # type: ignore[attr-defined]
    found = ledger({"ledger": before, "after": after})
    picture = flow(found)
    assert sum(count for _, count, _ in found.counts) == len(before)
    for block in [*picture.before, *picture.after]:
        assert 0 <= block.y <= picture.height + 1
        assert block.height <= picture.height + 1
    assert len({message.was for message in found.after}) == len(found.after)


def test_lineage_tells_added_changed_and_lost_lines_apart() -> None:
    old = "# State v1\n- keep the ledger closed [m3]\n- migrate at 02:00 UTC\n- call the bank"
    new = "# State v2\n- keep the ledger closed [m3]\n- migrate at 03:30 UTC\n- backfill 40,112 [m31]"
    states = {line.text: line.state for line in changes(old, new)}
    assert states["# State v2"] == "same"
    assert states["- keep the ledger closed [m3]"] == "same"
    assert states["- migrate at 03:30 UTC"] == "changed"
    assert states["- backfill 40,112 [m31]"] == "added"
    assert states["- call the bank"] == "lost"
    assert next(line.sources for line in changes(old, new) if "backfill" in line.text) == ("m31",)


def test_a_line_that_only_moved_is_neither_lost_nor_added() -> None:
    found = changes("- one thing\n- two birds\n- three kings", "- three kings\n- one thing\n- two birds")
    assert [line.state for line in found] == ["same", "same", "same"]


_LINES = st.lists(st.sampled_from(["call the bank", "close the ledger", "close the books", "a", "b"]), max_size=12)


@given(_LINES, _LINES)
def test_every_line_of_both_summaries_is_told_once(old: list[str], new: list[str]) -> None:
    found = changes("\n".join(old), "\n".join(new))
    assert [line.text for line in found if line.state != "lost"] == new
    gone = [line.was or line.text for line in found if line.state in {"same", "changed", "lost"}]
    assert sorted(gone) == sorted(old)


def test_long_summaries_are_compared_in_no_time() -> None:
    """A thousand lines of which none stayed took difflib minutes."""
    old = "\n".join(f"- step {n} read the file src/module_{n}.py and found nothing" for n in range(1_000))
    new = "\n".join(f"- step {n} wrote the file lib/module_{n}.py and found errors" for n in range(1_000))
    began = time.process_time()
    changes(old, new)
    assert time.process_time() - began < 1
