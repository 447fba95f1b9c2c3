"""The messages of two compactions compared."""

from __future__ import annotations

from viewer.compactions.comparison import compare_messages
from viewer.compactions.ledger import Ledger, parse_ledger


def ledger(**fates: str) -> Ledger:
    rows = [{"id": f"m-{name}", "hash": name[0] * 64, "fate": fate, "tokens": 1} for name, fate in fates.items()]
    return parse_ledger({"ledger": rows})


def test_messages_are_only_in_one_compaction_or_have_different_fates() -> None:
    comparison = compare_messages(
        ledger(a="kept", b="kept", c="dropped"), ledger(b="summarized", c="dropped", d="kept")
    )
    assert [entry.id for entry in comparison.only_a] == ["m-a"]
    assert [entry.id for entry in comparison.only_b] == ["m-d"]
    assert [(a.fate, b.fate) for a, b in comparison.different] == [("kept", "summarized")]
    assert comparison.same_count == 1


def test_a_text_that_is_twice_in_a_prompt_counts_as_two_messages() -> None:
    comparison = compare_messages(ledger(a1="kept", a2="dropped"), ledger(a1="kept"))
    assert (comparison.same_count, [entry.id for entry in comparison.only_a]) == (1, ["m-a2"])
