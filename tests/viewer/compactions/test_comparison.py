"""The messages of two compactions, and the figures of two sessions, compared."""

from __future__ import annotations

from ingest.models import Session
from ingest.storage.figures.table import FIGURES, Page
from viewer.compactions.comparison import Side, compare_messages, session_figures
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


def test_sessions_are_compared_by_the_figures_of_the_table() -> None:
    """Fewer overflows are better, and a figure without a preference has no better side."""
    one, other = (Side(Session(overflow_count=n, turn_count=n, facts_total=4, facts_kept=n), [], None) for n in (1, 2))
    rows = {row.label: row for row in session_figures(one, other)}
    assert list(rows) == [figure.label for figure in FIGURES if Page.COMPARISON in figure.pages]
    assert (rows["Overflows"].better, rows["Facts kept"].better, rows["Turns"].better) == ("a", "b", "")
    assert rows["Facts kept"].text_b == "2 of 4 (50%)"
    assert all(row.definition for row in rows.values())
