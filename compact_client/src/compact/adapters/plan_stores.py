"""Stores for plans, with optimistic concurrency.

A commit names the version it is based on. If another commit came first, it returns False and changes nothing. Every
committed plan stays readable.
"""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from urllib.parse import quote

from compact.adapters.durable_file import flush_folder, write_temporary
from compact.exceptions import CorruptData
from compact.planning.plan import CompactionPlan


class MemoryCompactionStore:
    """Plans in memory, as JSON, so that a plan that cannot be serialized fails here too."""

    def __init__(self) -> None:
        self._plans: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def get_current_plan(self, thread_id: str) -> tuple[CompactionPlan | None, int]:
        """Return the newest plan and its version, or None and 0."""
        with self._lock:
            plans = self._plans.get(thread_id, ())
            version = len(plans)
        return self.get_plan(thread_id, version), version

    def get_plan(self, thread_id: str, version: int) -> CompactionPlan | None:
        """Return the plan with this version, or None."""
        with self._lock:
            plans = self._plans.get(thread_id, ())
            text = plans[version - 1] if 1 <= version <= len(plans) else None
        return None if text is None else CompactionPlan.from_json(text)

    def commit_plan(self, thread_id: str, plan: CompactionPlan, expected_version: int) -> bool:
        """Store the plan as the next version. Return False if the newest version is not `expected_version`."""
        text = plan.to_json()
        with self._lock:
            plans = self._plans.setdefault(thread_id, [])
            if len(plans) != expected_version:
                return False
            plans.append(text)
        return True


class FileCompactionStore:
    """Plans in a directory, one file per version, shared by any number of processes.

    A version's file is created as a hard link, which fails if the name exists. No lock is needed.
    """

    def __init__(self, root: str | Path) -> None:
        self._root = Path(root)

    def get_current_plan(self, thread_id: str) -> tuple[CompactionPlan | None, int]:
        """Return the newest plan and its version, or None and 0."""
        version = self._latest(self._folder(thread_id))
        return self.get_plan(thread_id, version), version

    def get_plan(self, thread_id: str, version: int) -> CompactionPlan | None:
        """Return the plan with this version, or None."""
        try:
            text = (self._folder(thread_id) / f"{version:08d}.json").read_text()
        except FileNotFoundError:
            return None
        except UnicodeDecodeError as error:
            raise CorruptData(f"Plan {version} of {thread_id!r}", str(error), version=version) from error
        try:
            return CompactionPlan.from_json(text)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise CorruptData(f"Plan {version} of {thread_id!r}", repr(error), version=version) from error

    def commit_plan(self, thread_id: str, plan: CompactionPlan, expected_version: int) -> bool:
        """Store the plan as the next version. Return False if the newest version is not `expected_version`."""
        folder = self._folder(thread_id)
        if self._latest(folder) != expected_version:
            return False
        temporary = write_temporary(folder, plan.to_json())
        try:
            (folder / f"{expected_version + 1:08d}.json").hardlink_to(temporary)
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        flush_folder(folder)
        return True

    def _folder(self, thread_id: str) -> Path:
        name = quote(thread_id, safe="", errors="surrogatepass")
        # quote() does not escape ".", and a long id exceeds the limit for file names.
        if name.startswith(".") or len(name) > 120:
            name = hashlib.sha256(thread_id.encode("utf-8", "surrogatepass")).hexdigest()
        return self._root / name

    @staticmethod
    def _latest(folder: Path) -> int:
        return max((int(path.stem) for path in folder.glob("[0-9]*.json")), default=0)
