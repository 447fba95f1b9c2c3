"""The cache of results by text."""

from __future__ import annotations

from compact.reading.text_cache import TextCache


def test_a_result_is_computed_once_within_the_limit():
    """Texts beyond the limit start the cache over, and very long ones are never kept."""
    read: list[str] = []

    def length(text: str) -> int:
        read.append(text)
        return len(text)

    cache = TextCache(length, max_chars=80)
    texts = [f"{number:010d}" for number in range(8)]
    assert [cache[text] for text in (*texts, *texts)] == [10] * 16
    assert read == texts
    assert cache["x" * 11] == cache["x" * 11] == 11
    assert read[8:] == ["x" * 11] * 2
    assert cache["one more"] == 8
    assert list(cache) == ["one more"]
