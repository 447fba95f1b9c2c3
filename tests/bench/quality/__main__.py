"""Print the comparison: `python -m tests.bench.quality [--every 5] [--systems ours,luhn] [--drift|--live]`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.bench.quality.cases import Case, load_cases
from tests.bench.quality.drift import drift_table
from tests.bench.quality.live import live_table
from tests.bench.quality.score import problems, score
from tests.bench.quality.systems import SYSTEMS, System, count

MEASURES = ("FUR", "FUR-LR", "GFUR", "KEY", "constraints", "decisions", "open items", "replay")


@dataclass
class Outcome:
    """The result of one system for one case: the applicable measures and the CPU time."""

    is_held_out: bool
    ratios: dict[str, float] = field(default_factory=lambda: dict.fromkeys(MEASURES, 0.0))
    is_valid: bool = False
    fill: float = 0.0
    cpu_s: float = 0.0


@dataclass(frozen=True)
class Row:
    """The result of one system: the means over all cases, the share of valid prompts, and the line to print."""

    means: dict[str, float]
    valid: float
    line: str


def header() -> str:
    return f"{'system':32}{' '.join(f'{column[:6]:>6}' for column in MEASURES)}  valid  fill  ms cpu"


def outcomes(name: str, system: System, *, every: int) -> list[Outcome]:
    """Run the system on every n-th case. An error counts as an invalid prompt that keeps nothing."""
    return [_outcome(name, system, case) for case in list(load_cases())[::every]]


def _outcome(name: str, system: System, case: Case) -> Outcome:
    outcome = Outcome(case.is_held_out)
    label = f"  {name}: {case.session['id']} B={case.budget} r={case.ratio}"
    started = time.process_time()
    try:
        messages = system(case)
    except Exception as error:
        print(f"{label}: {type(error).__name__}: {error}"[:160])
        return outcome
    outcome.cpu_s = time.process_time() - started
    reasons = problems(case, messages, count)
    outcome.is_valid = not reasons
    if reasons and name.startswith("ours"):
        print(f"{label}: {', '.join(reasons)}")
    outcome.fill = sum(count(str(message.get("content"))) for message in messages) / case.budget
    result = score(case, messages)
    outcome.ratios = {column: result.ratio(column) for column in MEASURES if result.wanted[column]}
    return outcome


def row(name: str, results: Sequence[Outcome]) -> Row:
    """Summarize outcomes: means in percent, validity, share of the budget used, and CPU milliseconds."""
    means = {column: _mean([item.ratios[column] for item in results if column in item.ratios]) for column in MEASURES}
    valid = _mean([item.is_valid for item in results])
    cells = " ".join(f"{100 * mean:6.1f}" for mean in means.values())
    fill, cpu_s = _mean([item.fill for item in results]), _mean([item.cpu_s for item in results])
    return Row(means, valid, f"{name:32}{cells} {100 * valid:6.1f} {fill:5.2f} {1000 * cpu_s:7.1f}")


def rows(name: str, *, every: int) -> dict[str, Row]:
    """Return the rows of one system: all cases and, for this library, also the tuned and held-out halves."""
    results = outcomes(name, SYSTEMS[name], every=every)
    table = {name: row(name, results)}
    if name.startswith("ours"):
        for half, is_held_out in (("tuned", False), ("held out", True)):
            label = f"{name}, {half}"
            table[label] = row(label, [item for item in results if item.is_held_out is is_held_out])
    return table


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--systems", default="")
    parser.add_argument("--drift", action="store_true")
    parser.add_argument("--live", action="store_true")
    options = parser.parse_args()
    if options.drift:
        print(drift_table(every=options.every))
        return
    if options.live:
        print(live_table(every=options.every))
        return
    print(header(), flush=True)
    for name in SYSTEMS:
        if not options.systems or any(part in name for part in options.systems.split(",")):
            for result in rows(name, every=options.every).values():
                print(result.line, flush=True)


if __name__ == "__main__":
    main()
