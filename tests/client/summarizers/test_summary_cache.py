"""The cache of summaries in memory and on disk."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from client.chat_endpoint import completion
from client.model_span import GOOD, SPAN, summarizer
from compact.summarizers import DiskSummaryCache, MemorySummaryCache, ModelSummarizer, TieredSummaryCache
from compact.summarizers.cache import SummaryCacheKey
from compact.summary.structured_summary import StructuredSummary


@pytest.mark.req("D-SUM-2", "S-SUM-4")
def test_a_cached_span_makes_no_second_request(endpoint, tmp_path):
    """A second call and a new process hit the cache. Another style, model or content does not."""
    endpoint.respond(completion(GOOD))
    disk = tmp_path / "cache"
    cache = TieredSummaryCache(MemorySummaryCache(), DiskSummaryCache(disk))
    first = summarizer(endpoint, cache=cache).summarize_span(SPAN, max_tokens=600)
    again = summarizer(endpoint, cache=cache).summarize_span(SPAN, max_tokens=600)
    fresh = summarizer(endpoint, cache=DiskSummaryCache(disk)).summarize_span(SPAN, max_tokens=600)
    assert first.render() == again.render() == fresh.render()
    assert len(endpoint.requests) == 1
    summarizer(endpoint, cache=cache).summarize_span(SPAN, style="brief", max_tokens=600)
    summarizer(endpoint, cache=cache).summarize_span(SPAN[:2], max_tokens=600)
    other = ModelSummarizer("other-model", base_url=endpoint.url, api_key="", cache=cache)
    other.summarize_span(SPAN, max_tokens=600)
    assert len(endpoint.requests) == 4


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: '{"key": ',
        lambda text: "[" * 100_000,
        lambda text: "[1]",
        lambda text: text.replace('"refund $75"', "75"),
        lambda text: text.replace('"decisions": [', '"facts": 5, "decisions": ['),
    ],
)
def test_a_damaged_cache_file_is_a_miss(endpoint, tmp_path, damage):
    """A truncated file, or one with values of the wrong type, leads to a new request."""
    endpoint.respond(completion(GOOD))
    cache = DiskSummaryCache(tmp_path)
    summarizer(endpoint, cache=cache).summarize_span(SPAN, max_tokens=600)
    for file in tmp_path.iterdir():
        text = file.read_text()
        file.write_text(damage(text))
        assert file.read_text() != text
    assert summarizer(endpoint, cache=cache).summarize_span(SPAN, max_tokens=600).decisions
    assert len(endpoint.requests) == 2


def test_the_disk_cache_supports_concurrent_access(tmp_path):
    """Threads that read and write one key see only complete summaries and leave no temporary files."""
    summary = StructuredSummary(facts=tuple(f"fact {number} " * 50 for number in range(50)))
    key = SummaryCacheKey.of(SPAN, policy_version="p", model_id="m", prompt_version="v")

    def work(_: int) -> bool:
        cache = DiskSummaryCache(tmp_path)
        cache.put(key, summary)
        return cache.get(key) == summary

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(64)))
    assert len(list(tmp_path.iterdir())) == 1
