"""Replay recorded sessions and random runs. Every request must fit its budget with complete tool pairs.

COMPACT_TRANSCRIPTS=… python -m pytest tests/bench/engine/test_replay.py -q -s
"""

from __future__ import annotations

import json
import lzma
import os
import random
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from builders import agent_step
from compact import CompactConfig, CompactManager, CompactPolicy, InsufficientBudget, TiktokenEstimator
from compact.messages.codecs import get_codec
from compact.messages.normalization import normalize

CHAT = get_codec("chat")
# Real transcripts are not part of the repository. The environment variable gives their folder.
TRANSCRIPTS = Path(os.environ.get("COMPACT_TRANSCRIPTS", "../shared/data/transcripts"))


WINDOWS = [int(window) for window in os.environ.get("COMPACT_REPLAY_WINDOWS", "8000,32000,128000").split(",")]


@dataclass
class Tally:
    """Totals of a replay."""

    sessions: int = 0
    calls: int = 0
    compactions: int = 0
    oversized: int = 0

    def __str__(self) -> str:
        return (
            f"{self.sessions} sessions, {self.calls:,} calls, {self.compactions:,} compactions, "
            f"{self.oversized} ended by a newest message over the budget"
        )


@pytest.mark.skipif(not TRANSCRIPTS.is_dir(), reason="COMPACT_TRANSCRIPTS is not a directory")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("window", WINDOWS)
def test_replay_of_recorded_sessions(window):
    """Replay every recorded session call by call, with and without passing the returned prompt back."""
    estimator = TiktokenEstimator()
    tally = Tally()
    for path in sorted(TRANSCRIPTS.rglob("*.jsonl.xz")):
        with lzma.open(path, "rt") as file:
            recorded = [session["messages"] for line in file if "messages" in (session := json.loads(line))]
        for messages in recorded:
            for passes_prompt_back in (False, True):
                manager = CompactManager(CompactConfig("gpt-5", window, token_estimator=estimator))
                tally.sessions += 1
                tally.oversized += not replay(manager, messages, passes_prompt_back, window - 1500, tally)
                tally.compactions += manager.plan("s").step if manager.plan("s") else 0
        print(f"\n{window:,} tokens, up to {path.name}: {tally}", end="", flush=True)
    print()


def replay(manager: CompactManager, messages: list[dict], passes_prompt_back: bool, budget: int, tally: Tally) -> bool:
    """Replay one session. Return False if its newest message alone exceeds the budget."""
    shown: list[dict] = []
    for place, message in enumerate(messages):
        shown.append(message)
        following = messages[place + 1]["role"] if place + 1 < len(messages) else ""
        if message["role"] == "assistant" or following == "tool":
            continue  # the model is called once all its tool calls have results
        try:
            sent = manager.preflight("s", shown)
        except InsufficientBudget:
            return False
        tally.calls += 1
        decoded = [CHAT.decode(item, 0) for item in sent]
        assert manager.cfg.token_estimator.estimate(decoded, "gpt-5") <= budget
        assert not normalize(decoded, CHAT).is_changed
        assert sent[0] == messages[0] or messages[0]["role"] != "system"
        shown = list(sent) if passes_prompt_back else shown
    return True


@pytest.mark.req("P-TST-1")
@pytest.mark.timeout(3600)
def test_random_runs():
    """Every request of 1,000 random runs on small windows fits and is valid."""
    estimator = TiktokenEstimator()
    runs = int(os.environ.get("COMPACT_SOAK_RUNS", "1000"))
    near = requests = compacted = 0
    start = time.perf_counter()
    for run in range(runs):
        random_ = random.Random(run)
        window = random_.choice([2_000, 4_000, 8_000])
        manager = CompactManager(
            CompactConfig("gpt-5", window, policy=CompactPolicy(hard_cap_buffer=200), token_estimator=estimator)
        )
        history = [{"role": "system", "content": "Be careful."}]
        for number in range(15):
            history = manager.preflight("s", [*history, *agent_step(random_, number, 120)])
            used = manager.remember("s").tokens
            assert used <= window - 200
            assert not normalize([CHAT.decode(item, 0) for item in history], CHAT).is_changed
            requests += 1
            near += used > 0.75 * window
        compacted += manager.plan("s") is not None
        if (run + 1) % 100 == 0:
            print(f"\n{run + 1:,} runs", end="", flush=True)
    print(
        f"\nsoak: {runs:,} runs, {requests:,} requests, {near:,} above 75 % of the window, "
        f"{compacted:,} runs compacted, none over its budget, {time.perf_counter() - start:.0f} s"
    )
