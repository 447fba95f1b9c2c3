"""`make test-matrix` tests every extra, and says what it leaves out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import version_matrix

ROOT = Path(__file__).resolve().parents[2]


def test_every_extra_has_tests_of_its_own() -> None:
    """Only these have what they import in its environment."""
    extras = version_matrix._extras()
    assert set(version_matrix.TESTS) <= set(extras)
    files = {entry for name in extras for entry in version_matrix.tests_of(name) if entry.startswith("tests/")}
    assert [entry for entry in files if not (ROOT / entry).exists()] == []
    assert set(version_matrix.tests_of("all")) == files


@pytest.mark.req("A-PRO-2")
def test_every_extra_is_tested_with_its_oldest_and_newest_version() -> None:
    """The oldest version is a lower bound, which can be pinned."""
    extras = version_matrix._extras()
    combinations = version_matrix.combine([*extras, "all"], extras, ["3.11", "3.13"])
    assert {(extra, age) for extra, age, _ in combinations} >= {
        (x, age) for x in extras for age in ("oldest", "newest")
    }
    assert ("all", "newest", "3.13") in combinations
    assert [entry for entries in extras.values() for entry in entries if ">=" not in entry] == []


def test_a_python_that_is_not_installed_is_listed() -> None:
    outcome = version_matrix.Outcome("cli", "oldest", "3.11", "rich 13.0.0", "passed: 2 passed")
    assert "| all, newest | | 3.14 | SKIPPED: not installed |" in version_matrix.table([outcome], ["3.14"])


def test_interpreters_are_found_without_pyenv(monkeypatch, tmp_path) -> None:
    """The search path is enough."""
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "missing"))
    monkeypatch.setenv("PATH", str(tmp_path))
    version = ".".join(map(str, sys.version_info[:2]))
    assert list(version_matrix.find_interpreters()) == [version]
