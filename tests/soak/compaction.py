"""Run many agents near their context window through the library, and send their events to a real server.

    python -m tests.soak.compaction URL KEY RUNS REPORT

Writes a JSON report with the number of runs, of calls above 75 % of the window, of failures and overflows, and with the
keys of all emitted spans.
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
    """Return a question, a tool call with a result of random length, and an answer."""
    words = " ".join(f"item-{random_.randrange(10_000)}" for _ in range(random_.choice([5, 120, 400])))
    limit, call = random_.randrange(100, 999), f"call-{number}"
    return [
        Message("user", f"Turn {number}: the limit is {limit} EUR. Look at {words[:200]}"),
        Message("assistant", "", tool_calls=(ToolCall(call, "search", '{"q": "offers"}'),)),
        Message("tool", words, tool_call_id=call),
        Message("assistant", f"Decision {number}: take {words[:60]} because it is cheaper."),
    ]


def run(manager: CompactManager, estimator: TiktokenEstimator, name: str, counts: dict[str, int]) -> None:
    random_ = random.Random(name)
    history = [Message("system", "You compare offers. Never exceed the limit.")]
    for number in range(TURNS):
        history += turn(random_, number)
        before = estimator.estimate(history, MODEL)
        counts["calls"] += 1
        is_near = before > 0.75 * WINDOW
        counts["near"] += is_near
        try:
            prompt = manager.preflight(name, history)
        except CompactError as error:
            counts["failed"] += is_near
            sys.stderr.write(f"{name}: {type(error).__name__}: {error}\n")
            continue
        used = estimator.estimate(prompt, MODEL)
        counts["overflows"] += used > WINDOW
        counts["compacted"] += used < before
        # Continue from the compacted prompt, as agents do.
        history = list(prompt)


def main(url: str, key: str, runs: int, report: Path) -> None:
    emitted: set[tuple[str, str]] = set()
    estimator = TiktokenEstimator()
    with tempfile.TemporaryDirectory() as spool:
        ariadne = AriadneExporter(url, key, spool_dir=spool, max_backoff_s=1.0)
        recorder = CallbackExporter(lambda event: emitted.add((event["trace_id"], event["span_id"])))
        manager = CompactManager(
            CompactConfig(
                model=MODEL,
                max_context_tokens=WINDOW,
                policy=CompactPolicy(hard_cap_buffer=BUFFER, keep_recent_turns=3, keep_tool_io_pairs=2),
                token_estimator=estimator,
                exporter=MultiExporter(recorder, ariadne),
            )
        )
        counts = {"runs": runs, "calls": 0, "near": 0, "failed": 0, "overflows": 0, "compacted": 0}
        for number in range(runs):
            run(manager, estimator, f"soak-{report.stem}-{number}", counts)
        is_delivered = ariadne.flush(120.0)
        stats = ariadne.stats()
        ariadne.close()
    report.write_text(
        json.dumps({**counts, "delivered": is_delivered, "stats": stats, "keys": sorted(emitted)}), encoding="utf-8"
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
