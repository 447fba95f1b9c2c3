"""The pure modules of the pages, tested where they run: `node --test` over tests/javascript."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tools.nodejs import node

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_pure_modules_do_what_their_tests_say() -> None:
    tests = [str(path) for path in sorted((ROOT / "tests" / "javascript").glob("*.test.mjs"))]
    assert tests
    ran = subprocess.run([*node(), "--test", *tests], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
