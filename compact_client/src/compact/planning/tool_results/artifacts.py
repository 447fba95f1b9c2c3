"""Metadata of externalized content, and the access rule for reading it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

Sensitivity = Literal["public", "internal", "confidential", "restricted"]
_REQUIRED_PERMISSIONS = {"confidential": "artifact:read:confidential", "restricted": "artifact:read:restricted"}
_SENSITIVITIES: tuple[Sensitivity, ...] = get_args(Sensitivity)


def highest_sensitivity(levels: Iterable[Sensitivity]) -> Sensitivity:
    """Return the highest of some levels, or that of an artifact without one."""
    return max(levels, key=_SENSITIVITIES.index, default="internal")


@dataclass(frozen=True, slots=True)
class ArtifactMetadata:
    """Owner, sensitivity and lifetime of an artifact."""

    thread_id: str
    tenant_id: str | None = None
    created_at: str = ""
    ttl_seconds: int | None = None
    encryption_key_id: str | None = None
    sensitivity: Sensitivity = "internal"
    readers: tuple[str, ...] = ()
    """Requesters who may read it. Empty allows every requester who passes the tenant and sensitivity checks."""

    def has_expired(self, now: datetime) -> bool:
        if self.ttl_seconds is None or not self.created_at:
            return False
        created = datetime.fromisoformat(self.created_at)
        return now >= created + timedelta(seconds=self.ttl_seconds)


@dataclass(frozen=True, slots=True)
class SecurityContext:
    """Identity and permissions of a requester."""

    requester_id: str
    tenant_id: str | None = None
    permissions: frozenset[str] = frozenset()


def may_read(metadata: ArtifactMetadata, context: SecurityContext | None) -> bool:
    """True if the requester may read the content. Without a context, only unrestricted content is readable."""
    permission = _REQUIRED_PERMISSIONS.get(metadata.sensitivity)
    if context is None:
        return metadata.tenant_id is None and permission is None and not metadata.readers
    if metadata.tenant_id is not None and context.tenant_id != metadata.tenant_id:
        return False
    if permission is not None and permission not in context.permissions:
        return False
    return not metadata.readers or context.requester_id in metadata.readers


def artifact_id_for(content: str, metadata: ArtifactMetadata) -> str:
    """Return the content-addressed id of an artifact within its tenant and thread."""
    key = json.dumps([metadata.tenant_id, metadata.thread_id, content], ensure_ascii=True)
    return f"art-{hashlib.sha256(key.encode()).hexdigest()[:20]}"
