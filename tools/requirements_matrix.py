"""Print the requirements matrix: each requirement, its tests and their results.

A requirement is proven if all tests marked with its id pass and at least one of them asserts something.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "REQUIREMENTS.md"
_ROW = re.compile(r"^\| ([PCSDRKA]-[A-Z]+-\d+) \| (.+) \|$", re.MULTILINE)
_NOT_PROVEN = "## Not proven yet"
_CHECKS = {"raises", "fail", "expect", "warns"}


def requirements() -> dict[str, str]:
    """Return the requirement texts of docs/REQUIREMENTS.md by id."""
    return dict(_ROW.findall(PAGE.read_text().partition(_NOT_PROVEN)[0]))


def waiting_list() -> dict[str, str]:
    """Return what the requirements without a test wait for, by id."""
    return dict(_ROW.findall(PAGE.read_text().partition(_NOT_PROVEN)[2]))


def gaps(tested: Collection[str]) -> list[str]:
    """Return a line for each requirement whose place in the list of unproven ones is wrong, given those with tests."""
    listed, known = waiting_list(), requirements()
    lines = [
        f"{name} has no test and is not listed as not proven yet" for name in known if name not in {*tested, *listed}
    ]
    lines += [f"{name} has a test, but is listed as not proven yet" for name in listed if name in tested]
    lines += [f"{name} is listed as not proven yet, but is no requirement" for name in listed if name not in known]
    lines += [f"{name} is used by a test, but is no requirement" for name in sorted(tested) if name not in known]
    return lines


def asserts(function: object) -> bool:
    """Return True if the test body contains an assert, `pytest.raises` or a call of a checking function."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))  # type: ignore[arg-type]
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in _CHECKS or name.startswith(("assert_", "check_")):
                return True
    return False


class Matrix:
    """A pytest plugin that runs only the tests marked with a requirement and records their results."""

    def __init__(self) -> None:
        self.results: dict[str, dict[str, str]] = defaultdict(dict)
        self.without_assert: list[str] = []

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        marked = [item for item in items if item.get_closest_marker("req")]
        config.hook.pytest_deselected(items=[item for item in items if item not in marked])
        items[:] = marked
        for item in marked:
            ids = [name for mark in item.iter_markers("req") for name in mark.args]
            item.user_properties.append(("req", ids))
            if not asserts(item.obj):  # type: ignore[attr-defined]
                self.without_assert.append(item.nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        for key, ids in report.user_properties:
            if key != "req":
                continue
            for name in ids:
                before = self.results[name].get(report.nodeid, "")
                if report.failed:
                    self.results[name][report.nodeid] = "failed"
                elif before != "failed" and (report.when == "call" or report.skipped):
                    self.results[name][report.nodeid] = report.outcome


def main() -> int:
    matrix = Matrix()
    tests = sys.argv[1:] or ["tests", "--ignore=tests/bench", "--ignore=tests/soak"]
    pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", "--no-summary", *tests], plugins=[matrix])
    known, listed = requirements(), waiting_list()
    proven = 0
    lines = []
    for name, text in known.items():
        results = matrix.results.get(name, {})
        is_proven = (
            bool(results) and set(results.values()) == {"passed"} and not set(results) <= set(matrix.without_assert)
        )
        proven += is_proven
        lines.append(f"{'✓' if is_proven else '✗' if results else '·'} {name:<10} {text}")
        lines += [f"      {outcome:<7} {test}" for test, outcome in sorted(results.items())]
        lines += [f"      planned {listed[name]}"] if name in listed else []
    faults = gaps(matrix.results)
    faults += [f"{test} is marked with a requirement but asserts nothing" for test in sorted(matrix.without_assert)]
    lines += [f"! {fault}" for fault in faults]
    lines.append(f"\n{proven} of {len(known)} requirements proven, {len(listed)} not proven yet")
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    return int(bool(faults) or proven < len(known) - len(listed))


if __name__ == "__main__":
    sys.exit(main())
