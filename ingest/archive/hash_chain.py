"""Canonical JSON, and the hash that ties one step of a session's archive to the step before it.

Pure. Whoever knows the last hash of a chain can tell whether any earlier link was removed, changed or moved.
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
    """The one spelling of a JSON value: sorted keys, no spaces, UTF-8; half a surrogate pair becomes U+FFFD."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def spell(moment: datetime) -> str:
    """The one spelling of a time: UTC, microseconds, Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True, slots=True)
class Link:
    """One event of an archive: a transcript stored, or deleted. `manifest` counts redactions and never quotes them."""

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
        fields = {name: getattr(self, name) for name in self.__slots__}
        return hashlib.sha256(canonical({"version": VERSION, **fields})).hexdigest()


def faults(links: Iterable[tuple[Link, str]]) -> list[str]:
    """What is wrong with the links of one session, read in order of position; nothing when they are whole."""
    found: list[str] = []
    previous, expected = "", 0
    for link, stored_hash in links:
        if link.position != expected:
            found.append(f"link {expected} is missing" if link.position > expected else f"link {link.position} moved")
        elif link.previous != previous:
            found.append(f"link {link.position} (step {link.step}) does not follow the one before it")
        if link.hash() != stored_hash:
            found.append(f"link {link.position} (step {link.step}) was changed")
        previous, expected = stored_hash, link.position + 1
    return found
