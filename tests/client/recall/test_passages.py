"""A passage is what a person can read: whole lines or sentences, who said them, and the neighbor that explains them."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from compact.recall import Passage, PassageIndex, Source, render_passages
from compact.recall.sections import split_text
from recall_builders import search

PROSE = "The proxy listens on port 4319. We chose it because 4317 belongs to OTLP. "
FILLER = "Nothing of interest happened on this day, and everybody went home early. "


def passages(index: PassageIndex, query: str, **options: Any) -> list[Passage]:
    options = {"limit": 5, "max_tokens": 2_000, "count_tokens": lambda text: len(text) // 4, **options}
    return index.search(query, **options)


def test_sections_cover_the_text():
    text = "short\n\n" + '{"id": 1, "name": "a"}, ' * 60 + "\n" + "line of text\n" * 40 + FILLER * 20 + "end"
    spans = list(split_text(text, 240))
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(end - start <= 240 for start, end in spans)
    assert all(a[1] == b[0] for a, b in pairwise(spans))


def test_a_passage_of_prose_has_whole_sentences():
    index = PassageIndex()
    index.add([Source("m1", "assistant", FILLER * 30 + PROSE + FILLER * 30)])
    (passage,) = passages(index, "Which port did we choose for the proxy, and why?", limit=1)
    assert "We chose it because 4317 belongs to OTLP." in passage.text
    assert all(re.fullmatch(r"[A-Z].*\.", line) for line in passage.text.splitlines())


def test_a_passage_of_a_table_has_whole_lines():
    index = PassageIndex()
    lines = [f"row {number} | service-{number} | port {number * 7}" for number in range(200)]
    index.add([Source("m1", "tool", "\n".join(lines))])
    (passage,) = passages(index, "service-44", limit=1)
    assert "row 44 | service-44 | port 308" in passage.text
    assert set(passage.text.splitlines()) <= set(lines)


def test_a_passage_never_lists_bare_names():
    index = PassageIndex()
    lines = "".join(f"{'word ' * 130}\nvalue_{number}: filler line\n" for number in range(20))
    index.add([Source("m0", "tool", f"the ledger of ZX-9000 begins\n{lines}")])
    assert "Also in" not in str(passages(index, "ledger ZX-9000"))


def test_a_question_and_its_answer_are_one_passage_with_their_speakers():
    index = PassageIndex()
    texts = ["Hello there.", "Which port does db-7 listen on?", "It is 5433.", *["filler"] * 9, "db-7 has a new owner."]
    roles = ("assistant", "user")
    index.add([Source(f"m{n}", roles[n % 2], text, n // 2 + 1) for n, text in enumerate(texts)])
    first, *_ = passages(index, "db-7 port")
    assert "5433" in first.text and "[assistant, message m2]" in first.text
    assert first.message_id == "m1" and "m2" in first.neighbor_ids
    assert "[turn 1, user, message m1]" in render_passages([first])


def test_each_text_is_shown_once():
    index = PassageIndex()
    index.add([Source(f"m{n}", "tool", "the config  has port 8080" if n % 2 else f"filler {n}") for n in range(40)])
    shown = "\n".join(passage.text for passage in passages(index, "config port"))
    assert shown.count("8080") == 1


def test_the_newest_of_equal_texts_is_returned():
    index = PassageIndex()
    index.add([Source("m1", "tool", "the config has port 8080"), Source("m2", "tool", "the config  has port 8080")])
    assert search(index, "config port") == ["m2"]


def test_what_the_prompt_lacks_counts_more():
    index = PassageIndex()
    texts = ["port of the staging database 5433", *[f"filler {n}" for n in range(60)], "port of the database?"]
    index.add([Source(f"m{n}", "user", text) for n, text in enumerate(texts)])
    known = {"port", "of", "the", "database"}
    assert search(index, "port database", visible={"m61"}, known_words=known)[0] == "m0"


def test_five_passages_have_at_most_4000_characters():
    index = PassageIndex()
    for number in range(40):
        index.add([Source(f"m{number}", "tool", f"{FILLER * 9}{PROSE}port {number}. {FILLER * 9}")])
    shown = passages(index, "port of the proxy")
    assert len(shown) == 5 and sum(len(passage.text) for passage in shown) <= 4_000


@pytest.mark.parametrize("excluded", [set(), {"m1"}])
def test_a_message_that_may_not_be_shown_is_in_no_passage(excluded):
    index = PassageIndex()
    index.add([Source("m0", "tool", "balance of ZX-1 is open"), Source("m1", "tool", "balance of ZX-1 is secret-55")])
    assert ("secret-55" in str(passages(index, "balance ZX-1", excluded=excluded))) is not bool(excluded)


def test_a_neighbor_that_may_not_be_shown_is_left_out():
    index = PassageIndex()
    index.add([Source("m0", "user", "What is the balance of ZX-1?"), Source("m1", "tool", "secret-55")])
    assert "secret-55" in str(passages(index, "balance ZX-1"))
    assert "secret-55" not in str(passages(index, "balance ZX-1", excluded={"m1"}))


def test_common_words_are_found_beside_many_sources_that_may_not_be_shown():
    index = PassageIndex()
    index.add([Source(f"m{n}", "user", f"the server of group {n % 3} restarts daily") for n in range(3)])
    index.add([Source(f"x{n}", "tool", f"the server of room {n} restarts daily") for n in range(100)])
    excluded = {f"x{n}" for n in range(100)}
    assert search(index, "server restarts", excluded=excluded)[0] in {"m0", "m1", "m2"}
