"""The promises of docs/SECURITY.md and the faults of docs/SCALING.md name tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECURITY = (ROOT / "docs" / "SECURITY.md").read_text()
SCALING = (ROOT / "docs" / "SCALING.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", SECURITY + SCALING)


@pytest.mark.req("P-DOC-1")
def test_every_named_test_exists():
    assert len(NAMED) >= 25
    for file, name in NAMED:
        tree = ast.parse((ROOT / file).read_text())
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert not name or name in functions, f"{file}::{name}"


@pytest.mark.req("P-DOC-1")
def test_every_promise_names_its_test():
    section = SECURITY.partition("## Promises and their tests")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith("| promise")]
    assert len(rows) >= 20
    assert all(re.search(r"`tests/[\w/]+\.py::\w+`", row) for row in rows)


@pytest.mark.req("P-DOC-1")
def test_every_fault_names_its_test():
    table = SCALING.partition("| fault | what happens | test |\n|---|---|---|\n")[2].partition("\n\n")[0]
    rows = table.splitlines()
    assert len(rows) >= 12
    assert [row for row in rows if not re.search(r"`tests/[\w/]+\.py::\w+`", row)] == []
