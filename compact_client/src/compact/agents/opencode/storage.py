"""The sessions of opencode on disk: rows of a SQLite database, or one JSON file per message and part in older versions.

Neither has one file per session, so a session of the database is named by a path below it, `opencode.db/<id>.json`,
and a session in files by its own file, `storage/session/<project>/<id>.json`. The database is opened for reading only.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compact.agents.agent import Status
from compact.agents.log_records import LogRecord, SkippedLine, parse_line

_TIMEOUT_S = 2.0
_RECENT_S = 86_400.0  # A prompt that started earlier is answered by now.
_UNREADABLE = "unreadable.json"
_MAX_DEPTH = 20  # of sub-agents
# Before 3.43, SQLite can only count characters.
_SIZE = "octet_length(data)" if sqlite3.sqlite_version_info >= (3, 43) else "length(data)"
_ROWS = f"""
    SELECT session_id, time_updated, {_SIZE} AS size FROM message
    UNION ALL SELECT session_id, time_updated, {_SIZE} FROM part
    UNION ALL SELECT id, time_updated, 0 FROM session
"""  # noqa: S608 - constants


@dataclass(frozen=True, slots=True)
class _Index:
    """The sessions of a database, and the state of its files when they were read."""

    state: list[tuple[int, int]]
    statuses: dict[str, Status]
    touched: dict[str, int]
    """The time of the last prompt of each session, in milliseconds."""


_known: dict[Path, _Index] = {}


def is_storage(path: Path) -> bool:
    """Return True for a database of opencode."""
    return path.suffix == ".db"


def is_session(path: Path) -> bool:
    """Return True if a path names a session in opencode's storage."""
    if path.suffix != ".json":
        return False
    return is_storage(path.parent) or path.parts[-4:-2] == ("storage", "session")


def find_sessions(root: Path) -> Iterator[Path]:
    """Yield the sessions below opencode's data directory. Files that were copied to a database are not read."""
    names = set()
    for database in sorted(root.glob("opencode*.db")):
        for path in sessions_of(database):
            names.add(path.name)
            yield path
    for path in root.glob("storage/session/*/*.json"):
        if path.name not in names:
            yield path


def sessions_of(database: Path) -> list[Path]:
    """Return the sessions in a database. If it cannot be read, they are one path, whose reader says why."""
    try:
        state = _state(database)
        known = _known.get(database)
        if known is None or known.state != state:
            _known[database] = known = _read_index(database, state, known)
    except FileNotFoundError:
        return []  # A session was deleted in the meantime. The next search sees the others.
    except OSError:
        return [database / _UNREADABLE]
    return [database / f"{name}.json" for name in known.statuses]


def status_of(path: Path) -> Status:
    """Return the size and the last change of a session. Raise `OSError` if it is gone."""
    if not is_storage(path.parent):
        statuses = [file.stat() for file in _files(path)]
        return sum(item.st_size for item in statuses), max(item.st_mtime_ns for item in statuses)
    if path.name == _UNREADABLE:
        return 0, path.parent.stat().st_mtime_ns
    known = _known.get(path.parent)
    if known is not None and known.state == _state(path.parent) and path.stem in known.statuses:
        return known.statuses[path.stem]
    return _read_status(path)


def _read_status(path: Path) -> Status:
    query = f"SELECT MAX(time_updated), SUM(size) FROM ({_ROWS}) WHERE session_id = ?"  # noqa: S608 - constants
    ((changed, size),) = _query(path.parent, query, path.stem)
    if changed is None:
        raise FileNotFoundError(f"{path.parent} has no session {path.stem}.")
    return size, changed * 1_000_000


def directory_of(path: Path) -> str | None:
    """Return the directory that a session worked in."""
    if is_storage(path.parent):
        rows = _query(path.parent, "SELECT directory FROM session WHERE id = ?", path.stem)
        return str(rows[0][0]) if rows else None
    try:
        directory = parse_line(path.read_bytes()).get("directory")
    except (ValueError, AttributeError):
        return None
    return directory if isinstance(directory, str) else None


def read_session(path: Path) -> Iterator[LogRecord | SkippedLine]:
    """Yield the session, then its messages with their parts, oldest first. A piece that is not valid is reported."""
    read = _read_rows if is_storage(path.parent) else _read_files
    yield from read(path)


def _read_rows(path: Path) -> Iterator[LogRecord | SkippedLine]:
    database, name = path.parent, path.stem
    rows = _query(
        database, "SELECT id, parent_id, directory, title, version, time_created FROM session WHERE id = ?", name
    )
    if not rows:
        raise FileNotFoundError(f"{database} has no session {name}.")
    keys = ("id", "parentID", "directory", "title", "version")
    info = {**dict(zip(keys, rows[0], strict=False)), "time": {"created": rows[0][5]}}
    info["rootID"] = _root(name, info["parentID"], lambda parent: _parent_in(database, parent))
    messages = _query(database, "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id", name)
    pieces: dict[str, list[tuple[str, bytes]]] = {}
    for message_id, part_id, data in _query(
        database, "SELECT message_id, id, data FROM part WHERE session_id = ? ORDER BY message_id, id", name
    ):
        pieces.setdefault(message_id, []).append((part_id, data.encode()))
    yield from _records(info, b"", [(key, data.encode(), pieces.get(key, [])) for key, data in messages])
    if not messages and _has_new_rows(database, name):
        yield SkippedLine(1, 1, "belongs to a session of opencode's table session_message, which is not supported")


def _read_files(path: Path) -> Iterator[LogRecord | SkippedLine]:
    raw = path.read_bytes()
    try:
        info = parse_line(raw)
    except (ValueError, RecursionError):
        yield SkippedLine(1, 0, "is incomplete", is_incomplete=True)
        return
    if not isinstance(info, dict):
        return
    info["rootID"] = _root(path.stem, info.get("parentID"), lambda parent: _parent_in_files(path, parent))
    messages = []
    for file in _message_files(path):
        parts = [(part.stem, part.read_bytes()) for part in _part_files(path, file.stem)]
        messages.append((file.stem, file.read_bytes(), parts))
    yield from _records(info, raw, messages)


def _records(
    info: dict[str, Any], raw: bytes, messages: list[tuple[str, bytes, list[tuple[str, bytes]]]]
) -> Iterator[LogRecord | SkippedLine]:
    """Yield the records of a session. Their ends add up to its size."""
    end = len(raw)
    yield LogRecord({"info": info, "messageIDs": [name for name, _, _ in messages]}, raw, 1, end)
    for line, (name, data, pieces) in enumerate(messages, 2):
        end += len(data) + sum(len(piece) for _, piece in pieces)
        values, problems = [], []
        for key, piece in [(name, data), *pieces]:
            try:
                values.append({**parse_line(piece), "id": key})
            except (ValueError, TypeError, RecursionError) as error:
                problems.append(SkippedLine(line, end, f"has {key}, which is not valid JSON ({type(error).__name__})"))
        if values and values[0]["id"] == name:
            whole = b"\n".join([data, *(piece for _, piece in pieces)])
            yield LogRecord({"info": values[0], "parts": values[1:]}, whole, line, end)
        yield from problems


def _root(name: str, parent: Any, parent_of: Any) -> str:
    """Return the session that a sub-agent works for, directly or through others."""
    for _ in range(_MAX_DEPTH):
        if not isinstance(parent, str):
            break
        name, parent = parent, parent_of(parent)
    return name


def _parent_in(database: Path, name: str) -> Any:
    rows = _query(database, "SELECT parent_id FROM session WHERE id = ?", name)
    return rows[0][0] if rows else None


def _parent_in_files(path: Path, name: str) -> Any:
    try:
        return json.loads((path.parent / f"{name}.json").read_bytes()).get("parentID")
    except (OSError, ValueError, AttributeError):
        return None


def _has_new_rows(database: Path, name: str) -> bool:
    tables = _query(database, "SELECT name FROM sqlite_master WHERE name = 'session_message'")
    return bool(tables and _query(database, "SELECT 1 FROM session_message WHERE session_id = ? LIMIT 1", name))


def _read_index(database: Path, state: list[tuple[int, int]], known: _Index | None) -> _Index:
    """Read all sessions the first time, and then only those with a prompt in the last day: that takes milliseconds."""
    touched = dict(_query(database, "SELECT id, time_updated FROM session"))
    if known is None:
        query = f"SELECT session_id, MAX(time_updated), SUM(size) FROM ({_ROWS}) GROUP BY session_id"  # noqa: S608 - constants
        statuses = {name: (size, changed * 1_000_000) for name, changed, size in _query(database, query)}
        return _Index(state, statuses, touched)
    settled = {name for name, at in touched.items() if known.touched.get(name) == at < (time.time() - _RECENT_S) * 1000}
    statuses = {
        name: known.statuses[name] if name in settled else _read_status(database / f"{name}.json") for name in touched
    }
    return _Index(state, statuses, touched)


def _query(database: Path, query: str, *values: Any) -> list[tuple[Any, ...]]:
    address = f"{database.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=_TIMEOUT_S)) as connection:
            return connection.execute(query, values).fetchall()
    except sqlite3.Error as error:
        raise OSError(f"{database}: {error}") from error


def _state(database: Path) -> list[tuple[int, int]]:
    """Return what changes when opencode writes to a database."""
    files = [database, database.with_name(f"{database.name}-wal")]
    statuses: Iterable[os.stat_result] = [file.stat() for file in files if file.exists()]
    return [(item.st_mtime_ns, item.st_size) for item in statuses]


def _files(path: Path) -> Iterator[Path]:
    yield path
    for file in _message_files(path):
        yield file
        yield from _part_files(path, file.stem)


def _message_files(path: Path) -> list[Path]:
    # Names begin with a counter that grows with time.
    return sorted((path.parents[2] / "message" / path.stem).glob("*.json"))


def _part_files(path: Path, message: str) -> list[Path]:
    return sorted((path.parents[2] / "part" / message).glob("*.json"))
