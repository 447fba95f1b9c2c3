"""Token counting: exact, offline, and cached."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from builders import FixedEstimator, chat_turns, tool_pair
from compact import CompactConfig, CompactManager, CompactPolicy, Message, NoopEstimator, TiktokenEstimator
from compact.estimators import encodings
from compact.estimators.encodings import encoding_name, fast_counter, load_encoding, tiktoken_counter
from compact.protocols import ProviderAwareTokenizer, TokenEstimator
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.req("P-BUD-1", "D-BUD-2")
def test_tiktoken_estimator_uses_the_encoding_of_the_model():
    """The shipped vocabularies give tiktoken's counts. An unknown model gets the newest vocabulary."""
    assert [encoding_name(model) for model in ("gpt-5", "gpt-4o", "gpt-4", "gpt-3.5-turbo", "claude-x", "")] == [
        "o200k_base",
        "o200k_base",
        "cl100k_base",
        "cl100k_base",
        "o200k_base",
        "o200k_base",
    ]
    assert load_encoding("o200k_base").encode_ordinary("hello world") == [24912, 2375]
    assert load_encoding("cl100k_base").encode_ordinary("hello world") == [15339, 1917]
    estimator = TiktokenEstimator()
    assert isinstance(estimator, TokenEstimator)
    assert isinstance(estimator, ProviderAwareTokenizer)


# One string for each character class of the vocabularies' patterns, so that short texts cover all combinations.
_MARKS = st.sampled_from(
    ["a", "B", "é", "12", " ", "\t", "\n", "\r", "\x85", "\u2028", "/", ").", "'s", "- ", "漢", "🙂"]
)


@given(st.lists(_MARKS, max_size=30).map("".join), st.sampled_from(["gpt-5", "gpt-4"]))
def test_counting_by_line_equals_counting_the_whole_text(text, model):
    """`count_by_line` returns the exact count of the whole text."""
    whole = len(load_encoding(encoding_name(model)).encode_ordinary(text))
    assert TiktokenEstimator().count_by_line(text, model) == whole


@pytest.fixture(scope="module", params=["o200k_base", "cl100k_base"])
def counters(request):
    """The fast and the exact counter of one vocabulary."""
    pytest.importorskip("gigatoken")
    return fast_counter(request.param), tiktoken_counter(request.param)


@pytest.mark.req("K-ACC-5")
@given(st.one_of(st.lists(_MARKS, max_size=60).map("".join), st.text(st.characters(max_codepoint=0x17FF))))
def test_the_fast_counter_returns_tiktokens_counts(counters, text):
    """gigatoken and tiktoken agree on every text, including special tokens and lone surrogates."""
    fast, exact = counters
    for sample in (text, f"<|endoftext|>{text}\ud800"):
        assert fast(sample) == exact(sample)


@pytest.mark.req("K-ACC-5")
def test_tiktoken_counts_where_gigatoken_is_missing_or_inexact(monkeypatch):
    """Without the wheel nothing is said. A version that counts differently is reported and not used."""
    pytest.importorskip("gigatoken")
    monkeypatch.setattr(encodings, "_SAMPLE_TOKENS", {"cl100k_base": 1})
    with pytest.warns(RuntimeWarning, match="counts differently"):
        assert fast_counter("cl100k_base") is None
    monkeypatch.setattr(encodings, "_counters", {})
    monkeypatch.setitem(sys.modules, "gigatoken.gigatoken_rs", None)
    assert fast_counter("cl100k_base") is None
    assert TiktokenEstimator("cl100k_base").count_tokens("hello world") == 2


@pytest.mark.req("P-BUD-1")
def test_counting_needs_no_network(tmp_path):
    """Counting works with an empty tiktoken cache and no network."""
    code = (
        "import socket; socket.socket.connect = lambda *a: (_ for _ in ()).throw(OSError('no network'))\n"
        "from compact import TiktokenEstimator, Message\n"
        "print(TiktokenEstimator().estimate([Message('user', 'hello world')], 'gpt-5'))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        env={"TIKTOKEN_CACHE_DIR": str(tmp_path)} | _path_variables(),
    )
    assert result.stdout.strip() == "9", result.stderr


def _path_variables():
    return {key: os.environ[key] for key in ("PYTHONPATH", "PATH") if key in os.environ}


@pytest.mark.req("D-BUD-2", "S-BUD-1")
def test_all_parts_of_a_request_are_counted():
    """Calls, arguments, names, tool schemas and message overhead add to the count."""
    estimator = TiktokenEstimator()
    plain = Message("user", "hello world")
    assert estimator.count_message(plain) == 2 + 4
    with_call = Message("assistant", "", tool_calls=({"id": "c", "function": {"name": "f", "arguments": '{"a": 1}'}},))
    assert estimator.count_message(with_call) > 4 + estimator.count_tokens("f") + estimator.count_tokens('{"a": 1}')
    tools = [{"type": "function", "function": {"name": "f", "description": "does it", "parameters": {}}}]
    assert estimator.count_tool_schemas(tools) > 10
    assert estimator.count_request([plain], tools) == estimator.estimate([plain]) + estimator.count_tool_schemas(tools)
    assert estimator.estimate([]) == 0
    assert NoopEstimator().count_tokens("hello world") >= 2


@pytest.mark.req("S-BUD-1")
def test_preflight_counts_only_new_messages():
    """After 1,000 turns, one more message takes less than 10 ms of CPU (best of 15 runs)."""
    manager = CompactManager(CompactConfig("gpt-5", 10_000_000))
    messages = [item.to_dict() for item in chat_turns(1000, words=50)]
    manager.preflight("s", messages)
    times = []
    for number in range(15):
        messages.append({"role": "user", "content": f"one more {number}"})
        start = time.thread_time()
        manager.preflight("s", messages)
        times.append(time.thread_time() - start)
    assert min(times) < 0.010


@pytest.mark.req("P-BUD-1")
def test_custom_estimator_determines_the_total():
    """The total of a custom estimator is the estimate."""
    manager = CompactManager(
        CompactConfig("gpt-5", 1000, policy=CompactPolicy(hard_cap_buffer=100), token_estimator=FixedEstimator(700))
    )
    manager.preflight("s", [{"role": "user", "content": "hi"}, *tool_pair(1)])
    assert manager.remember("s").tokens == 700
