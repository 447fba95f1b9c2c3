"""Run the JavaScript tests with `node --test`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tools.nodejs import node
from viewer.kinds import browser_table

ROOT = Path(__file__).resolve().parent.parent.parent


def test_javascript_tests_pass() -> None:
    tests = [str(path) for path in sorted((ROOT / "tests" / "javascript").glob("*.test.mjs"))]
    assert tests
    command = [*node(), "--import", str(ROOT / "tests" / "javascript" / "page.mjs"), "--test", *tests]
    # Modules read the table of kinds from their page.
    environment = {**os.environ, "SPAN_KINDS": json.dumps(browser_table())}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
