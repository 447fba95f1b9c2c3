"""The state of sessions on disk, from which the next recorder of the same user continues them.

An agent that is started again for each prompt has another gateway each time. A file has what the recorder keeps of one
session: redacted blocks, and keyed hashes of its credentials. It is private, carries a code that only this user's key
gives, and is removed after a week. Losing it costs one comparison: the next prompt is then the first that was seen.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import io
import os
import pickle
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import MethodType
from typing import Any

from compact.agents.agent import Agent, Wire
from compact.agents.registry import BY_NAME
from compact.delivery.endpoint import configured_url, state_directory, without_credentials
from compact.delivery.stderr import log_problem
from compact.gateway.recorder.prompt import PromptReader
from compact.gateway.recorder.protocols import PROTOCOLS
from compact.gateway.recorder.sessions import Session
from compact.gateway.user_key import user_key
from compact.redaction.log_content import LogRedactor

MAX_AGE_S = 7 * 24 * 3600.0
MAX_FILES = 200
MAX_BYTES = 64 * 1024 * 1024
_MAX_FILE_BYTES = 16 * 1024 * 1024
_INTERVAL_S = 60.0
_MAX_SAVE_S = 2.0
"""The longest time that the last save takes. The relay waits for the recorder when it stops."""
_MAX_IDLE_SAVE_S = 0.05
"""The longest time that another save takes, beside the one file that it writes in any case."""
_HEAD = b"ariadne session 1\n"
_CODE_BYTES = 32
_LEVEL = 1
_PROTOCOLS = tuple(map(type, PROTOCOLS.values()))
_SAFE = {("builtins", "set"), ("builtins", "frozenset"), ("collections", "OrderedDict")}


class SessionFiles:
    """The files of one user for one server."""

    def __init__(self, directory: Path, *, key: bytes, server: str = "") -> None:
        self._directory = directory
        self._key = hmac.digest(key, b"session files", "sha256")
        self._server = server
        self._saved: dict[str, float] = {}
        self._has_failed = False
        self._prune()

    @classmethod
    def of_user(cls) -> SessionFiles:
        """Return those in the state directory of this user."""
        server = without_credentials(configured_url())
        return cls(state_directory() / "gateway" / "sessions", key=user_key(), server=server)

    def save_idle(self, sessions: Iterable[Session]) -> None:
        """Write sessions that have changed and wait for their user, each at most once per minute."""
        now = time.monotonic()
        waiting = (
            session
            for session in sessions
            if not session.open_calls and now - self._saved.get(session.id, -_INTERVAL_S) >= _INTERVAL_S
        )
        self._save(waiting, max_s=_MAX_IDLE_SAVE_S)

    def save_all(self, sessions: Iterable[Session]) -> None:
        """Write all sessions that have changed. One that ends within a request is forgotten: its answer is missing."""
        listed = list(sessions)
        for session in listed:
            if session.open_calls:
                with contextlib.suppress(OSError):
                    self._path(session.agent.name if session.agent else "", session.id).unlink(missing_ok=True)
        self._save((session for session in reversed(listed) if not session.open_calls), max_s=_MAX_SAVE_S)

    def load(self, agent: str, session_id: str) -> Session | None:
        """Return a session that an earlier recorder has written, if it can be read."""
        path = self._path(agent, session_id)
        try:
            status = path.stat()
            if status.st_uid != os.getuid() or time.time() - status.st_mtime > MAX_AGE_S:
                return None
            data = path.read_bytes()
        except OSError:
            return None
        try:
            return _decode(data, self._key)
        except Exception as error:  # A damaged pickle raises anything.
            log_problem("Ariadne", f"Set {path} aside, because it cannot be read: {error or type(error).__name__}")
            with contextlib.suppress(OSError):
                path.replace(path.with_suffix(".unreadable"))
            return None

    def _save(self, sessions: Iterable[Session], *, max_s: float) -> None:
        deadline = time.monotonic() + max_s
        count = 0
        for session in sessions:
            # A session without a name is found by its content, which would need all files in memory.
            if session.is_changed and session.is_named and time.monotonic() < deadline:
                self._write(session)
                count += 1
        if count:
            self._prune()

    def _write(self, session: Session) -> None:
        session.is_changed = False
        self._saved[session.id] = time.monotonic()
        path = self._path(session.agent.name if session.agent else "", session.id)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        try:
            data = _encode(session, self._key)
            if len(data) > _MAX_FILE_BYTES:
                path.unlink(missing_ok=True)
                return
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._directory.chmod(0o700)
            temporary.unlink(missing_ok=True)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as file:  # noqa: PTH123  (a descriptor)
                file.write(data)
            temporary.replace(path)
        except (OSError, pickle.PicklingError, TypeError, AttributeError) as error:
            if not self._has_failed:
                self._has_failed = True
                log_problem("Ariadne", f"Cannot write {path}: {type(error).__name__}. A restart will lose its prompt.")

    def _prune(self) -> None:
        """Remove files that are too old, and the oldest of too many."""
        size = 0
        for count, (path, status) in enumerate(self._newest_first(), 1):
            size += status.st_size
            if count > MAX_FILES or size > MAX_BYTES or time.time() - status.st_mtime > MAX_AGE_S:
                with contextlib.suppress(OSError):
                    path.unlink()

    def _newest_first(self) -> Iterator[tuple[Path, os.stat_result]]:
        files = []
        with contextlib.suppress(OSError):
            for path in self._directory.iterdir():
                with contextlib.suppress(OSError):
                    files.append((path, path.stat()))
        yield from sorted(files, key=lambda item: item[1].st_mtime, reverse=True)

    def _path(self, agent: str, session_id: str) -> Path:
        # Another server does not have the earlier requests, which later ones refer to.
        name = hashlib.sha256("\n".join((self._server, agent, session_id)).encode()).hexdigest()[:32]
        return self._directory / f"{name}.session"


def _encode(session: Session, key: bytes) -> bytes:
    buffer = io.BytesIO()
    pickler = _Pickler(buffer)
    with session.unpacked() as content:
        pickler.dump((session.id, session.agent, session.credentials, session.tails, session.tokens, content))
    layouts = {f"{kind.__module__}.{kind.__qualname__}": _layout(kind) for kind in pickler.kinds}
    data = zlib.compress(pickle.dumps((layouts, buffer.getvalue())), _LEVEL)
    return _HEAD + hmac.digest(key, data, "sha256") + data


def _decode(data: bytes, key: bytes) -> Session:
    if not data.startswith(_HEAD):
        raise ValueError("Another version has written it.")
    start = len(_HEAD) + _CODE_BYTES
    if not hmac.compare_digest(hmac.digest(key, data[start:], "sha256"), data[len(_HEAD) : start]):
        raise ValueError("It is damaged, or another user has written it.")
    # The code shows that this user has written it, so it is safe to unpickle.
    layouts, state = pickle.loads(zlib.decompress(data[start:]))  # noqa: S301
    unpickler = _Unpickler(io.BytesIO(state), layouts)
    session_id, agent, credentials, tails, tokens, content = unpickler.load()
    return Session.restored(session_id, agent, credentials, tails, tokens, content, unpickler.redactor)


class _Pickler(pickle.Pickler):
    """Writes what sessions share by name, and no reader: it can be built from the blocks."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.kinds: set[type] = set()

    def persistent_id(self, obj: Any) -> tuple[str, str] | None:
        if isinstance(obj, Agent):
            return "agent", obj.name
        if isinstance(obj, Wire):
            return "wire", next(agent.name for agent in BY_NAME.values() if agent.wire is obj)
        if isinstance(obj, _PROTOCOLS):
            return "protocol", str(obj.name)  # type: ignore[attr-defined]
        if isinstance(obj, MethodType) and isinstance(obj.__self__, LogRedactor):
            return "redact", ""
        return ("reader", "") if isinstance(obj, PromptReader) else None

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, type) and type(obj).__module__.startswith("compact."):
            self.kinds.add(type(obj))
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    """Reads objects of this package only, whose classes have not changed."""

    def __init__(self, file: io.BytesIO, layouts: dict[str, str]) -> None:
        super().__init__(file)
        self.redactor = LogRedactor()
        self._layouts = layouts

    def persistent_load(self, pid: Any) -> Any:
        kind, name = pid
        match kind:
            case "agent":
                return BY_NAME[name]
            case "wire":
                return BY_NAME[name].wire
            case "protocol":
                return PROTOCOLS[name]
            case "redact":
                return self.redactor.redact
            case _:
                return None

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _SAFE and not module.startswith("compact."):
            raise pickle.UnpicklingError(f"It refers to {module}.")
        value = super().find_class(module, name)
        if isinstance(value, type) and self._layouts.get(f"{module}.{name}", _layout(value)) != _layout(value):
            raise pickle.UnpicklingError("Another version has written it.")
        return value


def _layout(kind: type) -> str:
    """Return a digest of the names in the constructor of a class, which has all its attributes."""
    code = getattr(getattr(kind, "__init__", None), "__code__", None)
    names = (*code.co_varnames, *code.co_names) if code is not None else tuple(getattr(kind, "_fields", ()))
    return hashlib.sha256(" ".join(names).encode()).hexdigest()[:16]
