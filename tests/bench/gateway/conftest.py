"""The scripted provider of `load.py`, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    command = [sys.executable, str(Path(__file__).with_name("load.py")), "provider"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    process.kill()
    process.communicate()
