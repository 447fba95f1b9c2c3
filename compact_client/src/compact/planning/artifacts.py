"""Externalized content: its metadata, and the rule that decides who may read it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

Sensitivity = Literal["public", "internal", "confidential", "restricted"]
# Reading these needs the permission of the same name.
_GUARDED = {"confidential": "artifact:read:confidential", "restricted": "artifact:read:restricted"}


@dataclass(frozen=True, slots=True)
class ArtifactMetadata:
    """Whose content it is, how sensitive, and how long it lives."""

    thread_id: str
    tenant_id: str | None = None
    created_at: str = ""
    ttl_seconds: int | None = None
    encryption_key_id: str | None = None
    sensitivity: Sensitivity = "internal"
    readers: tuple[str, ...] = ()
    """Requesters who may read it; empty means anyone whom tenant and sensitivity allow."""

    def has_expired(self, now: datetime) -> bool:
        if self.ttl_seconds is None or not self.created_at:
            return False
        created = datetime.fromisoformat(self.created_at)
        return now >= created + timedelta(seconds=self.ttl_seconds)


@dataclass(frozen=True, slots=True)
class SecurityContext:
    """Who asks."""

    requester_id: str
    tenant_id: str | None = None
    permissions: frozenset[str] = frozenset()


def may_read(metadata: ArtifactMetadata, context: SecurityContext | None) -> bool:
    """Whether the requester may have the content."""
    permission = _GUARDED.get(metadata.sensitivity)
    if context is None:
        return metadata.tenant_id is None and permission is None and not metadata.readers
    if metadata.tenant_id is not None and context.tenant_id != metadata.tenant_id:
        return False
    if permission is not None and permission not in context.permissions:
        return False
    return not metadata.readers or context.requester_id in metadata.readers


def artifact_id_for(content: str, metadata: ArtifactMetadata) -> str:
    """The name of a content within its tenant and thread."""
    key = json.dumps([metadata.tenant_id, metadata.thread_id, content], ensure_ascii=True)
    return f"art-{hashlib.sha256(key.encode()).hexdigest()[:20]}"
