"""Words of every script, identifiers and paths are found by what a person would type."""

from __future__ import annotations

import tracemalloc
import unicodedata

import pytest
from compact.recall import PassageIndex, Source
from compact.recall.terms import is_name
from recall_builders import search


def test_languages_without_spaces_are_found():
    index = PassageIndex()
    index.add([Source("m1", "user", "注文番号は四四七一です"), Source("m2", "user", "天気がいいですね")])
    assert search(index, "注文番号")[0] == "m1"


@pytest.mark.parametrize("query", ["埠", "号", "埠 号", "𠮷", "🔥", "🚀🔥", "👩‍💻", "❤️", "→", "€!"])
def test_a_query_without_words_is_searched_for_its_characters(query):
    index = PassageIndex()
    index.add([Source(f"x{n}", "user", f"注文 {n} done ✅") for n in range(50)])
    filler = "filler line\n" * 50
    index.add([Source("m", "user", f"{filler}第十二埠号: 𠮷野, hot🔥 🚀launch 👩\u200d💻 ❤ 5€ a→b\n{filler}")])
    (passage,) = index.search(query, limit=5, max_tokens=60, count_tokens=lambda text: len(text) // 3)
    assert passage.message_id == "m" and "第十二埠号" in passage.text


def test_a_character_that_most_messages_have_is_found_in_the_newest_ones():
    index = PassageIndex()
    index.add([Source(f"m{n}", "user", f"step {n} ✅") for n in range(100)])
    assert int(search(index, "✅")[0][1:]) > 50
    assert search(index, "✅", excluded={f"m{n}" for n in range(5, 100)})[0] == "m4"


@pytest.mark.parametrize("query", ["a", "7", "the", "!?… ---", "\u200d\ufe0f", "。"])
def test_a_single_letter_or_a_punctuation_mark_finds_nothing(query):
    index = PassageIndex()
    index.add([Source("m", "user", "the plan a, step 7!?… --- \u200d\ufe0f。")])
    assert search(index, query) == []


@pytest.mark.parametrize(
    "word", ["İstanbul", "हिन्दी", "e\u0301tude", "ΣΊΣΥΦΟΣ", "العَرَبِيّة", "ẞ-7", "ภาษาไทย", "ที่อยู่", "码头"]
)
def test_a_word_of_any_script_is_found_in_any_case(word):
    index = PassageIndex()
    index.add([Source(f"x{n}", "user", f"filler {n} étage") for n in range(30)])
    index.add([Source("m", "user", f"note about {word} here")])
    for query in (word, word.lower(), word.upper().replace("SS", "ẞ"), unicodedata.normalize("NFC", word)):
        assert search(index, query)[:1] == ["m"], query


def test_a_long_sentence_without_spaces_is_found_by_its_end():
    index = PassageIndex()
    sentence = "".join(chr(0x4E00 + number) for number in range(600))
    index.add([Source(f"x{n}", "user", f"filler {n}") for n in range(30)])
    index.add([Source("long", "user", sentence)])
    (passage,) = index.search(sentence[590:], limit=1, max_tokens=2_000, count_tokens=len)
    assert passage.message_id == "long"


def test_long_tokens_are_not_kept_in_memory():
    tokens = [f"{number}a" * 100_000 for number in range(100, 120)]
    index = PassageIndex()
    index.add([Source("a", "user", "The order ORD-4471.")])
    tracemalloc.start()
    try:
        for token in tokens:
            is_name(token)
            index.search(f"data: {token}", limit=1, max_tokens=100, count_tokens=len)
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < len(tokens[0])


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("src/app/main.py:12", True), ("secret_key_base", True), ("readUser", True), ("ORD-4471", True),
        ("größe_7", True), ("2734887122", True), ("v2", False), ("1151", False), ("Sentence", False), ("HTTP", False),
    ],
)  # fmt: skip
def test_identifiers_paths_and_ids_are_names(token, expected):
    assert is_name(token) is expected


def test_a_name_is_found_where_a_part_of_its_word_is_not():
    index = PassageIndex()
    index.add([Source("a", "user", "we use ord_44"), Source("b", "user", "user_id and ord_44/user_id.py are set")])
    passages = index.search("use user_id ord_44/user_id.py", limit=1, max_tokens=100, count_tokens=len)
    assert [passage.message_id for passage in passages] == ["b"]


@pytest.mark.parametrize("query", ["http server", "Response", "decoder", "größe", "ledger2026"])
def test_parts_of_camel_case_are_found(query):
    index = PassageIndex()
    index.add([Source(f"x{n}", "user", f"filler {n}") for n in range(30)])
    index.add([Source("m", "tool", "parse(HTTPServerResponse, lineDecoder, maxGröße, größe, Ledger2026)")])
    assert search(index, query)[0] == "m"


def test_an_id_is_not_found_in_a_longer_one():
    index = PassageIndex()
    index.add([Source(f"m{n}", "tool", f"the state of module_{n} is {n * 31}") for n in (3, *range(30, 90))])
    (passage, *_) = index.search("module_3", limit=5, max_tokens=500, count_tokens=len)
    assert passage.message_id == "m3"


def test_half_of_a_surrogate_pair_and_null_characters_are_indexed():
    index = PassageIndex()
    index.add([Source("m0", "tool", "broken \ud800 text\x00 with QX-99 after it")])
    assert search(index, "QX-99") == ["m0"]
