"""The state file of `compactctl watch`: how much of each log the server has.

There is one file per server and ingest key, so that logs sent to one project are not considered sent to another. The
key itself is not stored. Losing the file is harmless: the logs are imported again, and the server ignores what it has.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compact.delivery.endpoint import state_directory, without_credentials
from compact.importers.log_file import Position

_VERSION = 1


class WatchState:
    """Positions by path. `save` writes the file atomically."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._files: dict[str, Position] = _read(path) if path is not None else {}
        self._is_changed = False

    @classmethod
    def of_server(cls, url: str, key: str, directory: Path | None = None) -> WatchState:
        """Return the state for one server and key."""
        name = hashlib.sha256(f"{without_credentials(url)}\n{key}".encode()).hexdigest()[:16]
        return cls((directory or state_directory() / "watch") / f"{name}.json")

    def get(self, path: Path) -> Position:
        """Return the delivered part of a log."""
        return self._files.get(str(path), Position())

    def set(self, path: Path, position: Position) -> None:
        """Note that a log was delivered up to a position."""
        if self._files.get(str(path)) != position:
            self._files[str(path)] = position
            self._is_changed = True

    def save(self) -> None:
        """Write the file if something changed."""
        if self._path is None or not self._is_changed:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        files = {name: [item.size, item.line, item.head] for name, item in self._files.items()}
        temporary = self._path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps({"version": _VERSION, "files": files}))
        temporary.replace(self._path)
        self._is_changed = False


def _read(path: Path) -> dict[str, Position]:
    try:
        document: Any = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(document, Mapping) or document.get("version") != _VERSION:
        return {}
    files = document.get("files")
    rows = files.items() if isinstance(files, Mapping) else ()
    return {name: Position(*row) for name, row in rows if isinstance(row, list) and len(row) == 3}
