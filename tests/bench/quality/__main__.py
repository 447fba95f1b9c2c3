"""Print the table: `python -m tests.bench.quality [--every 5] [--systems ours,luhn] [--drift]`."""

from __future__ import annotations

import argparse
import time
from collections import defaultdict

from tests.bench.quality.cases import load_cases
from tests.bench.quality.drift import drift_table
from tests.bench.quality.score import problems, score
from tests.bench.quality.systems import SYSTEMS, System, count

MEASURES = ("FUR", "FUR-LR", "GFUR", "KEY", "constraints", "decisions", "open items", "replay")


def measure(name: str, system: System, *, every: int) -> str:
    """One row: means over the cases in percent, validity, share of the budget used, milliseconds of CPU."""
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
    cells = [
        f"{100 * sum(values) / len(values):6.1f}" if (values := totals[column]) else "     -" for column in MEASURES
    ]
    return (
        f"{name:26}{' '.join(cells)} {100 * valid / total:6.1f} {sum(filled) / max(1, len(filled)):5.2f} "
        f"{1000 * sum(spent) / max(1, len(spent)):7.1f}"
    )


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
    print(f"{'system':26}{' '.join(f'{column[:6]:>6}' for column in MEASURES)}  valid  fill   ms cpu", flush=True)
    for name in names:
        print(measure(name, SYSTEMS[name], every=options.every), flush=True)


if __name__ == "__main__":
    main()
