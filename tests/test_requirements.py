"""Each requirement has a test, or is listed as not proven yet."""

from __future__ import annotations

import ast
from pathlib import Path

from tools.requirements_matrix import gaps, requirements, waiting_list

TESTS = Path(__file__).resolve().parent


def marked_ids() -> dict[str, set[str]]:
    """Return the requirement ids used in tests, with the files that use them."""
    files: dict[str, set[str]] = {}
    for file in TESTS.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "req":
                for argument in node.args:
                    if isinstance(argument, ast.Constant):
                        files.setdefault(argument.value, set()).add(str(file.relative_to(TESTS)))
    return files


def test_each_requirement_has_a_test_or_is_listed() -> None:
    """A gap, a misspelled id, and a listed requirement that has a test by now fail here."""
    assert gaps(marked_ids()) == []


def test_gaps_are_found() -> None:
    """A requirement without a test, a listed one with a test, and a test of no requirement."""
    waiting, *_ = waiting_list()
    tested = requirements().keys() - waiting_list().keys() - {"P-BUD-1"} | {waiting, "X-NO-1"}
    assert [line.split()[0] for line in gaps(tested)] == ["P-BUD-1", waiting, "X-NO-1"]


def test_requirements_are_parsed() -> None:
    """The parser finds the requirements. With an empty list the matrix would report that all are proven."""
    assert len(requirements()) > 80
