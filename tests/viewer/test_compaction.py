"""One compaction taken apart: fates, order, the picture, the line of summaries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewer.compaction import changes, flow, ledger


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
