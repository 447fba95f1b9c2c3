"""Plans by thread, with optimistic versions.

A commit says which version it was made from. If another was committed first it returns False, changes nothing and
loses nothing; every committed plan can be read again.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from pathlib import Path
from urllib.parse import quote

from compact.planning.plan import CompactionPlan


class MemoryCompactionStore:
    """Plans of this process; kept as JSON, so that only what can be stored is ever committed."""

    def __init__(self) -> None:
        self._plans: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def get_current_plan(self, thread_id: str) -> tuple[CompactionPlan | None, int]:
        """The newest plan and its version; None and 0 while there is none."""
        with self._lock:
            plans = self._plans.get(thread_id, ())
            version = len(plans)
        return self.get_plan(thread_id, version), version

    def get_plan(self, thread_id: str, version: int) -> CompactionPlan | None:
        """The plan that a version was."""
        with self._lock:
            plans = self._plans.get(thread_id, ())
            text = plans[version - 1] if 1 <= version <= len(plans) else None
        return None if text is None else CompactionPlan.from_json(text)

    def commit_plan(self, thread_id: str, plan: CompactionPlan, expected_version: int) -> bool:
        text = plan.to_json()
        with self._lock:
            plans = self._plans.setdefault(thread_id, [])
            if len(plans) != expected_version:
                return False
            plans.append(text)
        return True


class FileCompactionStore:
    """Plans in a directory, one file a version, safe with any number of processes.

    A version's file is linked into place, which the file system refuses if the name is taken: whoever is second
    is told so, without locks.
    """

    def __init__(self, root: str | Path) -> None:
        self._root = Path(root)

    def get_current_plan(self, thread_id: str) -> tuple[CompactionPlan | None, int]:
        """The newest plan and its version; None and 0 while there is none."""
        version = self._latest(self._folder(thread_id))
        return self.get_plan(thread_id, version), version

    def get_plan(self, thread_id: str, version: int) -> CompactionPlan | None:
        """The plan that a version was."""
        try:
            text = (self._folder(thread_id) / f"{version:08d}.json").read_text()
        except FileNotFoundError:
            return None
        return CompactionPlan.from_json(text)

    def commit_plan(self, thread_id: str, plan: CompactionPlan, expected_version: int) -> bool:
        folder = self._folder(thread_id)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._latest(folder) != expected_version:
            return False
        descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=".new-")
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(plan.to_json())
            try:
                (folder / f"{expected_version + 1:08d}.json").hardlink_to(temporary)
            except FileExistsError:
                return False
        finally:
            Path(temporary).unlink()
        return True

    def _folder(self, thread_id: str) -> Path:
        name = quote(thread_id, safe="", errors="surrogatepass")
        # "." is never quoted, and a long id would not fit a file name.
        if name.startswith(".") or len(name) > 120:
            name = hashlib.sha256(thread_id.encode("utf-8", "surrogatepass")).hexdigest()
        return self._root / name

    @staticmethod
    def _latest(folder: Path) -> int:
        return max((int(path.stem) for path in folder.glob("[0-9]*.json")), default=0)
