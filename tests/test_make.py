"""`make test` from the outside, with a stand-in for the interpreter that plays the results of pytest."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
# The first run of pytest ends with $FIRST, the run of the tests that failed with $SECOND.
PYTHON = """#!/bin/sh
case "$*" in
  *--last-failed*) echo "output of the second run"; exit $SECOND ;;
  *"-m pytest"*) echo "output of the first run: $*"; exit $FIRST ;;
esac
"""


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A folder that make takes for a complete virtual environment."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text(PYTHON)
    (tmp_path / "bin" / "python").chmod(0o755)
    for name in (".runtime", ".dev"):
        (tmp_path / name).touch()
    return tmp_path


def make_test(environment: Path, *arguments: str, first: int, second: int = 0, ci: str = "") -> tuple[bool, str]:
    """Return whether `make test` succeeded, and its output."""
    result = subprocess.run(
        ["make", "test", f"VENV={environment}", "PYTEST_ARGS=tests/x.py", *arguments],
        cwd=ROOT,
        env={**os.environ, "FIRST": str(first), "SECOND": str(second), "CI": ci},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return result.returncode == 0, result.stdout


@pytest.mark.parametrize(("ci", "is_green"), [("", True), ("true", False)])
def test_a_second_attempt_is_for_people(environment: Path, ci: str, is_green: bool) -> None:
    """On CI, a test that passes only on its second run fails the target. Both outputs are printed."""
    succeeded, output = make_test(environment, first=1, second=0, ci=ci)
    assert succeeded == is_green
    assert "output of the first run" in output
    assert "output of the second run" in output


@pytest.mark.parametrize("ci", ["", "true"])
def test_green_runs_once(environment: Path, ci: str) -> None:
    succeeded, output = make_test(environment, first=0, ci=ci)
    assert succeeded
    assert "second" not in output


@pytest.mark.parametrize("ci", ["", "true"])
@pytest.mark.parametrize(("first", "second"), [(1, 1), (2, 0), (5, 0), (137, 0)])
def test_failures_fail(environment: Path, first: int, second: int, ci: str) -> None:
    """Tests that fail twice, errors of the collection, an empty selection and a killed run are failures."""
    succeeded, _output = make_test(environment, first=first, second=second, ci=ci)
    assert not succeeded


def test_a_seed_reaches_pytest(environment: Path) -> None:
    _succeeded, output = make_test(environment, "SEED=42", first=0)
    assert "--seed 42" in output


def test_the_same_seed_gives_the_same_order() -> None:
    """Another seed gives another order. The tests of a file stay together."""

    def order(seed: str) -> list[str]:
        command = ["tests/viewer/test_numbers.py", "tests/test_data_folder.py", "--collect-only", "-q"]
        result = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--seed", seed, *command],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        return [line for line in result.stdout.splitlines() if "::" in line]

    orders = [order(seed) for seed in ("1", "1", "2")]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])
    files = [line.partition("::")[0] for line in orders[0]]
    assert sum(left != right for left, right in itertools.pairwise(files)) == 1


def test_pre_commit_runs_targets_of_make() -> None:
    """One definition of the checks. Local hooks need no network."""
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        assert hook["language"] == "system"
        assert subprocess.run([*hook["entry"].split(), "--dry-run"], cwd=ROOT, check=False).returncode == 0
