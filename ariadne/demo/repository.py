"""The repositories that the coding agents of the demo work in: files that are read, searched, edited and tested.

The outputs of tools come from the files, so a diff, a search result or a later read is what a real agent would get.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path

from ariadne.demo.script import Step

_FOLDER = Path(__file__).parent / "repositories"
_TEST = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)
_STATEMENT = re.compile(r"^\s*(?![#\"'\s)\]}])\S", re.MULTILINE)


class Repository:
    """A copy of the files of one repository. Its methods return the tool calls of an agent with their outputs."""

    def __init__(self, name: str) -> None:
        root = _FOLDER / name
        files = sorted(path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc")
        self._files = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in files}

    def __getitem__(self, path: str) -> str:
        """Return the present text of a file."""
        return self._files[path]

    def read(self, path: str, *, says: str = "") -> Step:
        return Step("read_file", {"path": path}, self._files[path], 0.2, says=says)

    def search(self, pattern: str, *, says: str = "") -> Step:
        """Search all files, like `grep -rn`."""
        hits = [
            f"{path}:{number}:{line}"
            for path, text in self._files.items()
            for number, line in enumerate(text.splitlines(), start=1)
            if re.search(pattern, line)
        ]
        return Step("grep", {"pattern": pattern, "path": "."}, "\n".join(hits) or "no matches", 0.3, says=says)

    def edit(self, path: str, old: str, new: str, *, says: str = "") -> Step:
        """Replace a text that occurs once."""
        before = self._files[path]
        if before.count(old) != 1:
            raise ValueError(f"{path} has {before.count(old)} times: {old}")
        self._files[path] = after = before.replace(old, new)
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), f"a/{path}", f"b/{path}", lineterm="")
        return Step("edit_file", {"path": path, "old": old, "new": new}, "\n".join(lines), 0.2, says=says)

    def create(self, path: str, text: str, *, says: str = "") -> Step:
        self._files[path] = text
        output = f"Created {path} ({len(text.splitlines())} lines)."
        return Step("create_file", {"path": path, "text": text}, output, 0.2, says=says)

    def run_tests(self, *, failures: Mapping[str, str] | None = None, says: str = "") -> Step:
        """Run all tests with coverage. `failures` has the traceback of each test that fails, by its name."""
        failures = failures or {}
        command = "pytest -v --cov"
        tests = [
            (path, name)
            for path, text in self._files.items()
            for name in _TEST.findall(text)
            if path.startswith("tests/")
        ]
        lines = [f"collected {len(tests)} items", ""]
        for number, (path, name) in enumerate(tests, start=1):
            result = "FAILED" if name in failures else "PASSED"
            lines.append(f"{path}::{name} {result:<8} [{100 * number // len(tests):3d}%]")
        for name, traceback in failures.items():
            lines += ["", f"____ {name} ____", "", traceback]
        lines += ["", *self._coverage(), "", _summary(tests, failures)]
        return Step("run_tests", {"command": command}, "\n".join(lines), 1.6, is_error=bool(failures), says=says)

    def _coverage(self) -> list[str]:
        lines = [f"{'Name':<40} Stmts   Miss  Cover", "-" * 60]
        for path, text in self._files.items():
            if path.endswith(".py") and not path.startswith("tests/"):
                count = len(_STATEMENT.findall(text))
                missed = sum(text.count(word) for word in ("except", "raise", "log."))
                lines.append(f"{path:<40} {count:5d} {missed:6d}   {100 * (count - missed) // max(count, 1):3d}%")
        return lines


def _summary(tests: list[tuple[str, str]], failures: Mapping[str, str]) -> str:
    seconds = 0.7 + 0.31 * len(tests)
    counts = f"{len(failures)} failed, " if failures else ""
    return f"==== {counts}{len(tests) - len(failures)} passed in {seconds:.2f}s ===="
