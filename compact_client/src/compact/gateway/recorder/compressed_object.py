"""Compress objects in memory that are not needed now, such as the prompt of a session that waits for its user.

The bytes never leave the process. Objects that are shared, such as protocols and compiled rules, are not copied.
"""

from __future__ import annotations

import io
import pickle
import zlib
from typing import Any

_LEVEL = 1


class Packed:
    """A compressed object. `shared` are the types whose instances are kept as they are."""

    __slots__ = ("_data", "_references")

    def __init__(self, value: Any, shared: tuple[type, ...]) -> None:
        self._references: list[Any] = []
        buffer = io.BytesIO()
        _Pickler(buffer, self._references, shared).dump(value)
        self._data = zlib.compress(buffer.getbuffer(), _LEVEL)

    def __len__(self) -> int:
        return len(self._data)

    def unpack(self) -> Any:
        """Return a copy of the object."""
        return _Unpickler(io.BytesIO(zlib.decompress(self._data)), self._references).load()


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, references: list[Any], shared: tuple[type, ...]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._list = references
        self._shared = shared

    def persistent_id(self, obj: Any) -> int | None:
        if not isinstance(obj, self._shared):
            return None
        self._list.append(obj)
        return len(self._list) - 1


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, references: list[Any]) -> None:
        super().__init__(file)
        self._list = references

    def persistent_load(self, pid: Any) -> Any:
        return self._list[pid]
