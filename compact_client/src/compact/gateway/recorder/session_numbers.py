"""The numbers of sessions, which survive a restart of the recorder: turns, compactions and the name of the last call.

The file has ids and counts, and nothing of a conversation. Losing it is harmless: turns start from 1 again.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compact.delivery.endpoint import state_directory
from compact.delivery.stderr import log_problem
from compact.recording import SessionRecorder, Thread

_MAX_THREADS = 5_000
_VERSION = 1


class SessionNumbers:
    """Numbers by session and agent. Without a path they are kept in memory."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._is_changed = False
        self._numbers: OrderedDict[str, dict[str, Any]] = _read(path)

    @classmethod
    def of_user(cls) -> SessionNumbers:
        """Return those in the state directory of this user."""
        return cls(state_directory() / "gateway" / "sessions.json")

    def restore(self, session_id: str, thread: Thread) -> bool:
        """Continue the numbers of a conversation. Return True if it was seen before."""
        known = self._numbers.get(_name(session_id, thread.key))
        if known is None:
            return False
        thread.earlier_turns, thread.earlier_compactions = known["turns"], known["compactions"]
        thread.earlier_call = known["call"]
        return True

    def are_those_of(self, session_id: str, threads: Sequence[Thread]) -> bool:
        """Return True if no conversation has had a later call than these."""
        known = {thread.key: self._numbers.get(_name(session_id, thread.key)) for thread in threads}
        return all(known[thread.key] in (None, _numbers_of(thread)) for thread in threads)

    def note(self, recorder: SessionRecorder, thread: Thread) -> None:
        """Remember the numbers of a conversation after a request."""
        name = _name(str(recorder.session_id), thread.key)
        self._numbers[name] = _numbers_of(thread)
        self._numbers.move_to_end(name)
        self._is_changed = True
        while len(self._numbers) > _MAX_THREADS:
            self._numbers.popitem(last=False)

    def save(self) -> None:
        """Write the file, if something has changed."""
        if self._path is None or not self._is_changed:
            return
        self._is_changed = False
        temporary = self._path.with_suffix(f".{os.getpid()}.tmp")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            temporary.write_text(json.dumps({"version": _VERSION, "threads": self._numbers}))
            temporary.replace(self._path)
        except OSError as error:
            log_problem("Ariadne", f"Cannot write {self._path}: {error.strerror}. Turns may be numbered again.")


def _numbers_of(thread: Thread) -> dict[str, Any]:
    return {"turns": thread.turn_count, "compactions": thread.compaction_count, "call": thread.last_call}


def _name(session_id: str, agent_id: str) -> str:
    return f"{session_id}/{agent_id}"


def _read(path: Path | None) -> OrderedDict[str, dict[str, Any]]:
    try:
        value = json.loads(path.read_text()) if path is not None else {}
        threads = value.get("threads", {}) if value.get("version") == _VERSION else {}
        return OrderedDict(
            (
                str(name),
                {"turns": int(item["turns"]), "compactions": int(item["compactions"]), "call": str(item["call"])},
            )
            for name, item in threads.items()
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return OrderedDict()
