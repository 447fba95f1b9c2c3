"""Requirement → tests → result, from running the tests that name a requirement.

An id counts as proven when every test that names it passed and at least one of them asserts something.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
_ROW = re.compile(r"^\| ([PCSDRK]-[A-Z]+-\d+) \| (.+) \|$", re.MULTILINE)
_CHECKS = {"raises", "fail", "expect", "warns"}


def requirements() -> dict[str, str]:
    """Id to promise, as docs/REQUIREMENTS.md lists them."""
    return dict(_ROW.findall((ROOT / "docs" / "REQUIREMENTS.md").read_text()))


def asserts(function: object) -> bool:
    """Whether the test's own body checks anything: an assert, `pytest.raises`, or a call of something named for it."""
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
    """A pytest plugin that keeps the tests with a requirement and notes how each ended."""

    def __init__(self) -> None:
        self.results: dict[str, dict[str, str]] = defaultdict(dict)
        self.hollow: list[str] = []

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        named = [item for item in items if item.get_closest_marker("req")]
        config.hook.pytest_deselected(items=[item for item in items if item not in named])
        items[:] = named
        for item in named:
            ids = [name for mark in item.iter_markers("req") for name in mark.args]
            item.user_properties.append(("req", ids))
            if not asserts(item.obj):  # type: ignore[attr-defined]
                self.hollow.append(item.nodeid)

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
    pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", "--no-summary", *sys.argv[1:]], plugins=[matrix])
    known = requirements()
    proven = 0
    lines = []
    for name, promise in known.items():
        tests = matrix.results.get(name, {})
        good = bool(tests) and set(tests.values()) == {"passed"} and not set(tests) <= set(matrix.hollow)
        proven += good
        lines.append(f"{'✓' if good else '✗' if tests else '·'} {name:<10} {promise}")
        lines += [f"      {outcome:<7} {test}" for test, outcome in sorted(tests.items())]
    unknown = sorted(set(matrix.results) - set(known))
    lines += [f"! {name} is named by a test but not in docs/REQUIREMENTS.md" for name in unknown]
    lines += [f"! {test} names a requirement and asserts nothing" for test in sorted(matrix.hollow)]
    lines.append(f"\n{proven} of {len(known)} requirements proven")
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    return int(bool(unknown or matrix.hollow or proven < len(known)))


if __name__ == "__main__":
    sys.exit(main())
