"""Stores for externalized content: in memory or in a directory.

An artifact's id is a hash of its content, so storing the same text twice creates one artifact. `retrieve` returns None
for requesters without permission, as if the artifact did not exist.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from compact.adapters.durable_file import flush_folder, write_temporary
from compact.exceptions import CorruptData
from compact.planning.tool_results.artifacts import ArtifactMetadata, SecurityContext, artifact_id_for, may_read


class Cipher(Protocol):
    """Encrypts content at rest with the key that the artifact names."""

    def encrypt(self, data: bytes, key_id: str) -> bytes: ...

    def decrypt(self, data: bytes, key_id: str) -> bytes: ...


def _utc_now() -> datetime:
    return datetime.now(UTC)


class MemoryArtifactStore:
    """Artifacts in memory."""

    def __init__(self, *, clock: Callable[[], datetime] = _utc_now) -> None:
        self._clock = clock
        self._items: dict[str, tuple[str, ArtifactMetadata]] = {}
        self._lock = threading.Lock()

    def store(self, content: str, metadata: ArtifactMetadata) -> str:
        """Store the content and return its artifact id."""
        artifact_id = artifact_id_for(content, metadata)
        if not metadata.created_at:
            metadata = replace(metadata, created_at=self._clock().isoformat())
        with self._lock:
            self._items[artifact_id] = (content, metadata)
        return artifact_id

    def get_metadata(self, artifact_id: str) -> ArtifactMetadata | None:
        """Return the metadata, or None if the artifact does not exist or has expired."""
        with self._lock:
            item = self._items.get(artifact_id)
            if item is None:
                return None
            _, metadata = item
            if metadata.has_expired(self._clock()):
                del self._items[artifact_id]
                return None
        return metadata

    def retrieve(self, artifact_id: str, requester_context: SecurityContext | None = None) -> str | None:
        """Return the content, or None if it does not exist or the requester may not read it."""
        metadata = self.get_metadata(artifact_id)
        if metadata is None or not may_read(metadata, requester_context):
            return None
        return self._items[artifact_id][0]


class FileArtifactStore:
    """Artifacts in a directory that only its owner can read. Files are written atomically."""

    def __init__(
        self,
        root: str | Path,
        *,
        cipher: Cipher | None = None,
        clock: Callable[[], datetime] = _utc_now,
    ) -> None:
        self._root = Path(root)
        self._cipher = cipher
        self._clock = clock

    def store(self, content: str, metadata: ArtifactMetadata) -> str:
        """Store the content and return its artifact id."""
        artifact_id = artifact_id_for(content, metadata)
        if not metadata.created_at:
            metadata = replace(metadata, created_at=self._clock().isoformat())
        raw = content.encode("utf-8", "surrogatepass")
        if metadata.encryption_key_id is not None:
            if self._cipher is None:
                raise ValueError(
                    f"The artifact needs key {metadata.encryption_key_id!r}, but the store has no cipher. "
                    "Pass one to FileArtifactStore."
                )
            raw = self._cipher.encrypt(raw, metadata.encryption_key_id)
        record = {"metadata": asdict(metadata), "content": base64.b64encode(raw).decode()}
        self._write(self._path(artifact_id), json.dumps(record))
        return artifact_id

    def get_metadata(self, artifact_id: str) -> ArtifactMetadata | None:
        """Return the metadata, or None if the artifact does not exist or has expired."""
        record = self._read(artifact_id)
        return record[0] if record else None

    def retrieve(self, artifact_id: str, requester_context: SecurityContext | None = None) -> str | None:
        """Return the content, or None if it does not exist or the requester may not read it."""
        record = self._read(artifact_id)
        if record is None or not may_read(record[0], requester_context):
            return None
        metadata, raw = record
        if metadata.encryption_key_id is not None:
            if self._cipher is None:
                return None
            raw = self._cipher.decrypt(raw, metadata.encryption_key_id)
        content = raw.decode("utf-8", "surrogatepass")
        if artifact_id_for(content, metadata) != artifact_id:
            raise CorruptData(f"Artifact {artifact_id}", "its content does not match its id")
        return content

    def _read(self, artifact_id: str) -> tuple[ArtifactMetadata, bytes] | None:
        if not artifact_id.startswith("art-") or not artifact_id[4:].isalnum():
            return None
        path = self._path(artifact_id)
        try:
            record: dict[str, Any] = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        except (ValueError, UnicodeDecodeError) as error:
            raise CorruptData(f"Artifact {artifact_id}", str(error)) from error
        try:
            values = {**record["metadata"], "readers": tuple(record["metadata"]["readers"])}
            metadata, raw = ArtifactMetadata(**values), base64.b64decode(record["content"])
        except (LookupError, TypeError, ValueError) as error:
            raise CorruptData(f"Artifact {artifact_id}", repr(error)) from error
        if metadata.has_expired(self._clock()):
            path.unlink(missing_ok=True)
            return None
        return metadata, raw

    def _path(self, artifact_id: str) -> Path:
        return self._root / artifact_id[4:6] / f"{artifact_id}.json"

    def _write(self, path: Path, text: str) -> None:
        write_temporary(path.parent, text).replace(path)
        flush_folder(path.parent)
