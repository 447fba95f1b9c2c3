"""Canonical JSON, and the hash chain that links the steps of a session's archive.

Pure. The last hash of a chain is enough to detect that an earlier link was removed, changed or moved.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

VERSION = "ariadne-chain/1"


def canonical(value: Any) -> bytes:
    """Encode JSON with sorted keys and without spaces, in UTF-8. Lone surrogates become U+FFFD."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def format_time(moment: datetime) -> str:
    """Format a time for hashing: UTC with microseconds, ending in Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True, slots=True)
class Link:
    """A transcript that was stored or deleted. `manifest` has the number of redactions, never the secrets."""

    project: int
    session: str
    position: int
    kind: str
    step: int
    time: str
    sha256: str
    manifest: Mapping[str, Any]
    previous: str

    def hash(self) -> str:
        """Return the SHA-256 of the link, which includes the hash of the previous one."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return hashlib.sha256(canonical({"version": VERSION, **fields})).hexdigest()


def faults(links: Iterable[tuple[Link, str]]) -> list[str]:
    """Check the links of one session, in order of position, and return a description of each fault."""
    descriptions: list[str] = []
    previous, expected = "", 0
    for link, stored_hash in links:
        if link.position != expected:
            is_gap = link.position > expected
            descriptions.append(f"link {expected} is missing" if is_gap else f"link {link.position} is out of order")
        elif link.previous != previous:
            descriptions.append(f"link {link.position} (step {link.step}) does not follow the previous link")
        if link.hash() != stored_hash:
            descriptions.append(f"link {link.position} (step {link.step}) was changed")
        previous, expected = stored_hash, link.position + 1
    return descriptions
