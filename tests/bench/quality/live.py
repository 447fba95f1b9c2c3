"""Measure what a running agent finds in its prompt: every call of a session, one manager, default settings.

The facts that the next message of the assistant mentions and that an earlier message contained are looked up in the
prompt of that call. The other measures compact a whole history at once, so they do not see how a session that grows
from call to call divides its window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from compact import CallbackExporter, CompactConfig, CompactManager, CompactPolicy, InsufficientBudget
from compact.reading.entities import TYPE_WEIGHTS, find_entities

from tests.bench.quality.cases import load_sessions, message_text, spoken_text
from tests.bench.quality.score import positions
from tests.bench.quality.systems import MODEL

MAX_CALLS = 70
WINDOWS = {"tau": (2_500,), "entire": (4_000, 8_000), "aider": (4_000, 8_000), "openhands": (4_000, 8_000)}
_MIN_WEIGHT = 2.0  # of the facts of a session, for a share that means something


@dataclass
class Run:
    """The calls of one session, and the weight of the facts that they needed after its first compaction."""

    window: int
    calls: int = 0
    compactions: int = 0
    shown: float = 0.0
    needed: float = 0.0


def live_table(*, every: int = 1) -> str:
    """Return a table with the share of needed facts that the prompts contain, and the compactions per 100 calls."""
    jobs = [(session, window) for file, sizes in WINDOWS.items() for session, window in _jobs(file, sizes)]
    runs = [run for run in (_run(*job) for job in jobs[::every]) if run.compactions]
    rows = ["window  sessions  facts in the prompt, %  compactions per 100 calls"]
    for window in sorted({run.window for run in runs}):
        group = [run for run in runs if run.window == window]
        shares = [run.shown / run.needed for run in group if run.needed >= _MIN_WEIGHT]
        rate = 100 * sum(run.compactions for run in group) / sum(run.calls for run in group)
        rows.append(f"{window:6,}  {len(group):8}  {100 * sum(shares) / len(shares):22.1f}  {rate:25.1f}")
    return "\n".join(rows)


def _jobs(file: str, sizes: tuple[int, ...]) -> Iterator[tuple[dict[str, Any], int]]:
    for session in load_sessions(file).values():
        for window in sizes:
            yield session, window


def _run(session: dict[str, Any], window: int) -> Run:
    run = Run(window)
    names: list[str] = []
    config = CompactConfig(
        model=MODEL,
        max_context_tokens=window,
        exporter=CallbackExporter(lambda event: names.append(event["event"])),
        policy=CompactPolicy(hard_cap_buffer=0, floor="newest"),
    )
    manager = CompactManager(config)
    messages, known, read = session["messages"], dict[str, str](), 0
    instructions = "\n".join(message_text(message) for message in messages if message["role"] == "system").lower()
    for position in [at for at, message in enumerate(messages) if at and message["role"] == "assistant"][:MAX_CALLS]:
        for message in messages[read:position]:
            known |= _facts(message)
        read = position
        try:
            prompt = manager.preflight(session["id"], messages[:position])
        except InsufficientBudget:
            break
        run.calls += 1
        run.compactions = names.count("compact.pruned_messages")
        if run.compactions:
            text = "\n".join(message_text(message) for message in prompt).lower()
            for key, kind in _facts(messages[position]).items():
                if key in known and key not in instructions:
                    run.needed += TYPE_WEIGHTS[kind]
                    run.shown += TYPE_WEIGHTS[kind] * bool(positions(key, text))
    return run


def _facts(message: dict[str, Any]) -> dict[str, Any]:
    return {key: kind for line in spoken_text(message).split("\n") for key, kind in find_entities(line)}
