"""Run the JavaScript tests with `node --test`."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tools.nodejs import node

ROOT = Path(__file__).resolve().parent.parent.parent


def test_javascript_tests_pass() -> None:
    tests = [str(path) for path in sorted((ROOT / "tests" / "javascript").glob("*.test.mjs"))]
    assert tests
    result = subprocess.run([*node(), "--test", *tests], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
