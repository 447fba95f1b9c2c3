"""Two compactions side by side, message by message."""

from __future__ import annotations

from viewer.compactions.comparison import compare_messages
from viewer.compactions.ledger import Ledger, ledger


def made(**fates: str) -> Ledger:
    rows = [{"id": f"m-{name}", "hash": name[0] * 64, "fate": fate, "tokens": 1} for name, fate in fates.items()]
    return ledger({"ledger": rows})


def test_messages_are_only_here_only_there_or_fared_otherwise() -> None:
    found = compare_messages(made(a="kept", b="kept", c="dropped"), made(b="summarized", c="dropped", d="kept"))
    assert [entry.id for entry in found.only_a] == ["m-a"]
    assert [entry.id for entry in found.only_b] == ["m-d"]
    assert [(one.fate, other.fate) for one, other in found.otherwise] == [("kept", "summarized")]
    assert found.alike == 1


def test_a_text_that_is_in_a_prompt_twice_is_two_messages() -> None:
    found = compare_messages(made(a1="kept", a2="dropped"), made(a1="kept"))
    assert (found.alike, [entry.id for entry in found.only_a]) == (1, ["m-a2"])
