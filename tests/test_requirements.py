"""Requirement marks refer to requirements that exist."""

from __future__ import annotations

import ast
from pathlib import Path

from tools.requirements_matrix import requirements

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


def test_every_marked_requirement_exists() -> None:
    """A misspelled id in a mark fails here."""
    unknown = {name: where for name, where in marked_ids().items() if name not in requirements()}
    assert not unknown


def test_requirements_are_parsed() -> None:
    """The parser finds the requirements. With an empty list the matrix would report that all are proven."""
    assert len(requirements()) > 80
