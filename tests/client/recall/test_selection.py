"""The lines and names that a recall shows."""

from __future__ import annotations

from itertools import pairwise

import pytest
from compact.recall import PassageIndex, Source
from compact.recall.chunks import split_text
from recall_builders import known_words, search


def test_the_newest_of_equal_texts_is_returned():
    index = PassageIndex()
    index.add([Source("m1", "tool", "the config has port 8080"), Source("m2", "tool", "the config  has port 8080")])
    assert search(index, "config port") == ["m2"]


def test_what_the_prompt_lacks_counts_more():
    index = PassageIndex()
    index.add(
        [Source("m1", "tool", "port of the staging database 5433"), Source("m2", "user", "port of the database?")]
    )
    assert search(index, "port database", visible={1}, known_words=known_words("port of the database?"))[0] == "m1"


def test_chunks_cover_the_text():
    text = "short\n\n" + '{"id": 1, "name": "a"}, ' * 60 + "\n" + "line of text\n" * 40 + "end"
    spans = list(split_text(text, 240))
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())
    assert all(end - start <= 240 for start, end in spans)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))


def test_messages_next_to_each_other_are_one_passage():
    index = PassageIndex()
    texts_ = ["read the port of db-7", "db-7 listens on port 5433", *["filler"] * 9, "db-7 was moved to port 6000"]
    index.add([Source(f"m{number}", "tool", text) for number, text in enumerate(texts_)])
    passages = index.search("db-7 port", limit=5, max_tokens=500, count_tokens=lambda text: len(text) // 3)
    together = next(passage for passage in passages if "5433" in passage.text)
    assert {together.message_id, *together.neighbor_ids} == {"m0", "m1"}
    assert "[tool, message m1]" in together.text or "[tool, message m0]" in together.text
    assert len(passages) == 2


def test_names_in_other_lines_of_a_shown_message_are_listed_with_a_label():
    lines = "".join(f"{'word ' * 30}\nvalue_{number}: filler line\n" for number in range(40))
    index = PassageIndex()
    index.add([Source("m0", "tool", f"the ledger of ZX-9000 begins\n{lines}")])
    (passage,) = index.search("ledger ZX-9000", limit=1, max_tokens=120, count_tokens=lambda text: len(text) // 3)
    *_, last = passage.text.splitlines()
    assert last.startswith("Also in this part: ") and "value_1" in last
    known = known_words(last)
    (passage,) = index.search(
        "ledger ZX-9000", limit=1, max_tokens=120, count_tokens=lambda text: len(text) // 3, known_words=known
    )
    assert "value_1," not in passage.text.splitlines()[-1]


def test_names_far_from_a_match_are_listed_while_there_is_room():
    lines = "".join(f"{'word ' * 130}\nvalue_{number}: filler line\n" for number in range(20))
    index = PassageIndex()
    index.add([Source("m0", "tool", f"the ledger of ZX-9000 begins\n{lines}")])
    (passage,) = index.search("ledger ZX-9000", limit=1, max_tokens=900, count_tokens=lambda text: len(text) // 3)
    assert "value_9," in passage.text.splitlines()[-1]


@pytest.mark.parametrize("excluded", [set(), {0}])
def test_names_of_a_message_without_a_passage_are_listed_with_its_id(excluded):
    index = PassageIndex()
    fillers = [f"filler number {number}" for number in range(20)]
    texts_ = ["the ledger of ZX-9000 has entry_0", *fillers, "the ledger of ZX-9000 was moved to archive_77"]
    index.add([Source(f"m{number}", "tool", text) for number, text in enumerate(texts_)])
    (passage,) = index.search(
        "ledger ZX-9000 moved", limit=1, max_tokens=120, count_tokens=lambda text: len(text) // 3, excluded=excluded
    )
    assert passage.message_id == "m21"
    assert ("Also in message m0: entry_0" in passage.text) is not bool(excluded)
    assert passage.neighbor_ids == (() if excluded else ("m0",))


def test_a_neighbor_that_may_not_be_shown_is_left_out():
    index = PassageIndex()
    index.add([Source("m0", "tool", "balance of ZX-1 is open"), Source("m1", "tool", "balance of ZX-1 is secret-55")])
    assert "secret-55" in str(index.search("balance ZX-1", limit=5, max_tokens=500, count_tokens=len))
    assert "secret-55" not in str(index.search("balance ZX-1", limit=5, max_tokens=500, count_tokens=len, excluded={1}))


def test_common_words_are_found_beside_many_sources_that_may_not_be_shown():
    index = PassageIndex()
    index.add([Source(f"m{n}", "user", f"the server of group {n % 3} restarts daily") for n in range(3)])
    index.add([Source(f"x{n}", "tool", f"the server of room {n} restarts daily") for n in range(100)])
    assert search(index, "server restarts", excluded=set(range(3, 103)))[0] in {"m0", "m1", "m2"}
