"""Counting: exact, offline, once, and corrected by the provider."""

from __future__ import annotations

import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from builders import FixedEstimator, chat_turns, tool_pair
from compact import CompactConfig, CompactManager, Message, NoopEstimator, TiktokenEstimator
from compact.estimators.tiktoken import encoding_name, load_encoding
from compact.planning.budget import PARTS, Breakdown, TokenBudget, Usage, correction_factor
from compact.protocols import ProviderAwareTokenizer, TokenEstimator
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.req("P-BUD-1", "D-BUD-2")
def test_tiktoken_counts_with_the_models_own_encoding_and_no_network():
    """The shipped vocabularies give tiktoken's own counts; a model nobody knows gets the newest one."""
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


# What the vocabularies' patterns treat alike or apart, so that short texts meet every case.
_MARKS = st.sampled_from(
    ["a", "B", "é", "12", " ", "\t", "\n", "\r", "\x85", "\u2028", "/", ").", "'s", "- ", "漢", "🙂"]
)


@given(st.lists(_MARKS, max_size=30).map("".join), st.sampled_from(["gpt-5", "gpt-4"]))
def test_a_text_has_as_many_tokens_as_its_lines(text, model):
    """Counted by its lines, a text has the count that it has as a whole."""
    whole = len(load_encoding(encoding_name(model)).encode_ordinary(text))
    assert TiktokenEstimator().count_by_line(text, model) == whole


@pytest.mark.req("P-BUD-1")
def test_no_vocabulary_is_downloaded(tmp_path):
    """With an empty cache and no route out, counting works."""
    code = (
        "import socket; socket.socket.connect = lambda *a: (_ for _ in ()).throw(OSError('no network'))\n"
        "from compact import TiktokenEstimator, Message\n"
        "print(TiktokenEstimator().estimate([Message('user', 'hello world')], 'gpt-5'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        env={"TIKTOKEN_CACHE_DIR": str(tmp_path)} | _path(),
    )
    assert done.stdout.strip() == "9", done.stderr


def _path():
    import os

    return {key: os.environ[key] for key in ("PYTHONPATH", "PATH") if key in os.environ}


@pytest.mark.req("D-BUD-2", "S-BUD-1")
def test_everything_that_is_sent_is_counted():
    """Calls, their arguments, names, schemas and framing all weigh something."""
    count = TiktokenEstimator()
    plain = Message("user", "hello world")
    assert count.count_message(plain) == 2 + 4
    called = Message("assistant", "", tool_calls=({"id": "c", "function": {"name": "f", "arguments": '{"a": 1}'}},))
    assert count.count_message(called) > 4 + count.count_tokens("f") + count.count_tokens('{"a": 1}')
    tools = [{"type": "function", "function": {"name": "f", "description": "does it", "parameters": {}}}]
    assert count.count_tool_schemas(tools) > 10
    assert count.count_request([plain], tools) == count.estimate([plain]) + count.count_tool_schemas(tools)
    assert count.estimate([]) == 0
    assert NoopEstimator().count_tokens("hello world") >= 2


@pytest.mark.req("S-BUD-1")
def test_a_preflight_on_a_long_history_counts_only_what_is_new():
    """With 1,000 turns behind it, one more message is far below 10 ms (the best of several, for busy machines)."""
    manager = CompactManager(CompactConfig("gpt-5", 10_000_000))
    messages = [item.to_dict() for item in chat_turns(1000, words=50)]
    manager.preflight("s", messages)
    times = []
    for number in range(15):
        messages.append({"role": "user", "content": f"one more {number}"})
        start = time.perf_counter()
        manager.preflight("s", messages)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.010


@pytest.mark.req("P-BUD-2")
@given(st.lists(st.integers(0, 10_000), min_size=6, max_size=6), st.integers(0, 200_000))
def test_scaled_parts_sum_exactly(parts, total):
    """Six parts scaled to any total are whole, not negative, and sum to it."""
    scaled = Breakdown(**dict(zip(PARTS, parts, strict=True))).scale_to(total)
    assert scaled.total == total
    assert min(scaled.to_dict().values()) >= 0


@pytest.mark.req("D-BUD-1")
def test_the_token_budget_takes_off_its_overhead():
    """What is left for messages and for rehydration."""
    budget = TokenBudget(100_000, system_prompt_tokens=1000, tool_schema_tokens=2000, formatting_overhead_tokens=100)
    assert budget.available_for_messages == 85_000 - 1000 - 2000 - 100 - 500 - 2000
    assert budget.available_for_rehydration == 2000


@pytest.mark.req("C-BUD-1")
@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 60}}, (100, 7, 60)),
        ({"input_tokens": 100, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 60}}, (100, 7, 60)),
        ({"input_tokens": 40, "output_tokens": 7, "cache_read_input_tokens": 60}, (100, 7, 60)),
        (SimpleNamespace(input_tokens=100, output_tokens=7), (100, 7, 0)),
        (100, (100, 0, 0)),
    ],
)
def test_any_providers_usage_is_understood(usage, expected):
    """OpenAI's, Anthropic's and an object's usage; blended is what was not cached plus the output."""
    found = Usage.from_provider(usage)
    assert (found.input_tokens, found.output_tokens, found.cached_tokens) == expected
    assert found.blended_tokens == expected[0] - expected[2] + expected[1]


def test_nonsense_from_a_provider_corrects_nothing():
    """A report of zero or of ten times our count is not believed whole."""
    assert correction_factor(0, 100) == 1.0
    assert correction_factor(100, 0) == 1.0
    assert correction_factor(1_000_000, 100) == 4.0


@pytest.mark.req("P-BUD-1")
def test_an_estimator_of_ones_own_decides():
    """A custom estimator's total is the estimate; our counts only give the shares."""
    manager = CompactManager(CompactConfig("gpt-5", 1000, token_estimator=FixedEstimator(700)))
    manager.preflight("s", [{"role": "user", "content": "hi"}, *tool_pair(1)])
    assert manager.remember("s").tokens == 700
