"""Facts of messages, and whether a prompt still says them."""

from __future__ import annotations

from compact.messages import Message
from compact.reading.blocks import read_blocks
from compact.reading.facts import FactFinder, PromptText, count_by_kind, kept_share
from compact.reading.line_words import LineWords, stems, words

MESSAGES = [
    Message("user", "Never delete the table orders_2024 on the host.", id="u"),
    Message("assistant", "I decided to read the file billing/export.py because ticket SHOP-4711 names it.", id="a"),
]


def find(prompt: str) -> FactFinder:
    finder = FactFinder(PromptText([Message("user", prompt)]), lambda kind, text: False)
    finder.add_blocks(read_blocks(MESSAGES))
    return finder


def test_commitments_rank_before_names() -> None:
    """Rules and decisions come first. An id said in passing comes last."""
    kinds = [fact.kind for fact in sorted(find("").facts, key=lambda fact: fact.rank)]
    assert kinds[:2] == ["constraint", "decision"]
    assert set(kinds[2:]) <= {"id", "path", "number"}


def test_a_fact_in_the_prompt_is_kept() -> None:
    facts = find("The ticket is SHOP-4711.").facts
    lost = [fact for fact in facts if not fact.is_kept]
    assert [fact.text for fact in facts if fact.is_kept] == ["SHOP-4711"]
    assert count_by_kind(facts, lost)["constraint"] == {"found": 1, "kept": 0, "restored": 0, "lost": 1}
    assert 0.0 < kept_share(facts, lost) < 1.0


def test_a_paraphrase_shares_stems_and_a_copy_shares_words() -> None:
    lines = ["The migrations were dropped after two failures"]
    assert LineWords(lines, split=stems, min_share=0.6).has("a migration is dropped after a failure")
    assert not LineWords(lines, split=words, min_share=0.75).has("a migration is dropped after a failure")
    assert LineWords(lines, split=words, min_share=0.75).has("the migrations were dropped")
