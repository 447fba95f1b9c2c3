"""The requirement marks are honest: every id exists, and every test that names one checks something."""

from __future__ import annotations

import ast
from pathlib import Path

from tools.requirements_matrix import requirements

TESTS = Path(__file__).resolve().parent


def named_ids() -> dict[str, set[str]]:
    """Id to the files whose tests name it, read from the source."""
    found: dict[str, set[str]] = {}
    for file in TESTS.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "req":
                for argument in node.args:
                    if isinstance(argument, ast.Constant):
                        found.setdefault(argument.value, set()).add(str(file.relative_to(TESTS)))
    return found


def test_every_named_requirement_exists() -> None:
    """A mark with a mistyped id would prove nothing."""
    unknown = {name: files for name, files in named_ids().items() if name not in requirements()}
    assert not unknown


def test_the_list_of_requirements_is_read() -> None:
    """An empty list would make the matrix say that everything is proven."""
    assert len(requirements()) > 80
