"""Print the table: `python -m tests.bench.quality [--every 5] [--systems ours,luhn] [--drift]`."""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from dataclasses import dataclass

from tests.bench.quality.cases import load_cases
from tests.bench.quality.drift import drift_table
from tests.bench.quality.score import problems, score
from tests.bench.quality.systems import SYSTEMS, System, count

MEASURES = ("FUR", "FUR-LR", "GFUR", "KEY", "constraints", "decisions", "open items", "replay")


@dataclass(frozen=True)
class Row:
    """One system: means over the cases, the share of valid prompts, and the line to print."""

    means: dict[str, float]
    valid: float
    line: str


def header() -> str:
    return f"{'system':26}{' '.join(f'{column[:6]:>6}' for column in MEASURES)}  valid  fill   ms cpu"


def measure(name: str, system: System, *, every: int) -> Row:
    """Means over every n-th case in percent, validity, share of the budget used, milliseconds of CPU."""
    totals: dict[str, list[float]] = defaultdict(list)
    valid = total = 0
    filled: list[float] = []
    spent: list[float] = []
    for case in list(load_cases())[::every]:
        total += 1
        started = time.process_time()
        try:
            messages = system(case)
        except Exception as error:
            print(
                f"  {name}: {case.session['id']} B={case.budget} r={case.ratio}: {type(error).__name__}: {error}"[:160]
            )
            for column in MEASURES:
                totals[column].append(0.0)
            continue
        spent.append(time.process_time() - started)
        found = problems(case, messages, count)
        valid += not found
        if found and name == "ours":
            print(f"  {name}: {case.session['id']} B={case.budget} r={case.ratio}: {', '.join(found)}")
        filled.append(sum(count(str(message.get("content"))) for message in messages) / case.budget)
        result = score(case, messages)
        for column in MEASURES:
            if result.wanted[column]:
                totals[column].append(result.ratio(column))
    means = {column: _mean(totals[column]) for column in MEASURES}
    cells = " ".join(f"{100 * mean:6.1f}" for mean in means.values())
    line = f"{name:26}{cells} {100 * valid / total:6.1f} {_mean(filled):5.2f} {1000 * _mean(spent):7.1f}"
    return Row(means, valid / total, line)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--systems", default="")
    parser.add_argument("--drift", action="store_true")
    options = parser.parse_args()
    if options.drift:
        print(drift_table(every=options.every))
        return
    names = [
        name for name in SYSTEMS if not options.systems or any(part in name for part in options.systems.split(","))
    ]
    print(header(), flush=True)
    for name in names:
        print(measure(name, SYSTEMS[name], every=options.every).line, flush=True)


if __name__ == "__main__":
    main()
