"""A thousand agent runs through the real library, each near its window, with every event sent to a real server.

    python -m tests.soak.compaction URL KEY RUNS REPORT

Writes a JSON report: how many runs there were, how many calls went out above three quarters of the window and how many
of them fitted, and the key of every span that was emitted.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path

from compact import (
    AriadneExporter,
    CallbackExporter,
    CompactConfig,
    CompactError,
    CompactManager,
    CompactPolicy,
    Message,
    MultiExporter,
    TiktokenEstimator,
    ToolCall,
)

WINDOW = 6_000
BUFFER = 500
TURNS = 10
MODEL = "gpt-4o"


def turn(random_: random.Random, number: int) -> list[Message]:
    """A question, a tool call with a result of very uneven length, an answer."""
    words = " ".join(f"item-{random_.randrange(10_000)}" for _ in range(random_.choice([5, 120, 400])))
    limit, call = random_.randrange(100, 999), f"call-{number}"
    return [
        Message("user", f"Turn {number}: the limit is {limit} EUR. Look at {words[:200]}"),
        Message("assistant", "", tool_calls=(ToolCall(call, "search", '{"q": "offers"}'),)),
        Message("tool", words, tool_call_id=call),
        Message("assistant", f"Decision {number}: take {words[:60]} because it is cheaper."),
    ]


def run(manager: CompactManager, estimator: TiktokenEstimator, name: str, tally: dict[str, int]) -> None:
    random_ = random.Random(name)
    history = [Message("system", "You compare offers. Never exceed the limit.")]
    for number in range(TURNS):
        history += turn(random_, number)
        before = estimator.estimate(history, MODEL)
        tally["calls"] += 1
        is_near = before > 0.75 * WINDOW
        tally["near"] += is_near
        try:
            prompt = manager.preflight(name, history)
        except CompactError as error:
            tally["failed"] += is_near
            sys.stderr.write(f"{name}: {type(error).__name__}: {error}\n")
            continue
        used = estimator.estimate(prompt, MODEL)
        tally["overflows"] += used > WINDOW
        tally["compacted"] += used < before
        # The agent goes on from what it was given, as agents do.
        history = list(prompt)


def main(url: str, key: str, runs: int, report: Path) -> None:
    emitted: set[tuple[str, str]] = set()
    estimator = TiktokenEstimator()
    with tempfile.TemporaryDirectory() as spool:
        sending = AriadneExporter(url, key, spool_dir=spool, max_backoff_s=1.0)
        noting = CallbackExporter(lambda event: emitted.add((event["trace_id"], event["span_id"])))
        manager = CompactManager(
            CompactConfig(
                model=MODEL,
                max_context_tokens=WINDOW,
                policy=CompactPolicy(hard_cap_buffer=BUFFER, keep_recent_turns=3, keep_tool_io_pairs=2),
                token_estimator=estimator,
                exporter=MultiExporter(noting, sending),
            )
        )
        tally = {"runs": runs, "calls": 0, "near": 0, "failed": 0, "overflows": 0, "compacted": 0}
        for number in range(runs):
            run(manager, estimator, f"soak-{report.stem}-{number}", tally)
        is_delivered = sending.flush(120.0)
        stats = sending.stats()
        sending.close()
    report.write_text(
        json.dumps({**tally, "delivered": is_delivered, "stats": stats, "keys": sorted(emitted)}), encoding="utf-8"
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
