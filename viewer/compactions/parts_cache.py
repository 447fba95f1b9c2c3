"""Keep the parts of compaction pages that were opened lately, in the memory of the process.

Most of a page depends only on the spans of its compaction, whose versions are part of the key. A new version is another
key, and the old one is dropped when room is needed. Content has an entry of its own: a reader without the right to view
payloads never touches it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TypeVar
from uuid import UUID

import msgspec
import zstandard

from ingest.models import Session
from viewer.compactions import queries
from viewer.compactions.lineage import previous_summary
from viewer.compactions.page_parts import ContentParts, PublicParts, Sources, all_lines, build
from viewer.sessions.checks import Check
from viewer.sessions.queries import checks as session_checks

# A compaction of 3,000 messages takes 0.2 MB.
_MAX_BYTES = 32_000_000
Parts = TypeVar("Parts", PublicParts, ContentParts)
#: Project, session, number, versions of the spans, sizes of the prompt, whether they are corrected.
Key = tuple[int, UUID, int, tuple[tuple[str, int], ...], tuple[int, int | None], bool]


class PartsCache:
    """Encoded parts by key, up to a total size. Those that were not used for longest are dropped first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bodies: OrderedDict[tuple[type, Key], bytes] = OrderedDict()
        self._lock = threading.Lock()  # each request has a thread of its own
        self.total_bytes = 0

    def get(self, key: Key, parts: type[Parts]) -> Parts | None:
        with self._lock:
            body = self._bodies.get((parts, key))
            if body is None:
                return None
            self._bodies.move_to_end((parts, key))
        return msgspec.json.decode(zstandard.decompress(body), type=parts)

    def add(self, key: Key, parts: PublicParts | ContentParts) -> None:
        # msgspec does not encode Django's SafeString. A slice of it is an ordinary string.
        body = zstandard.compress(msgspec.json.encode(parts, enc_hook=lambda html: html[:]))
        with self._lock:
            self.total_bytes += len(body) - len(self._bodies.pop((type(parts), key), b""))
            self._bodies[type(parts), key] = body
            while self.total_bytes > self._max_bytes:
                self.total_bytes -= len(self._bodies.popitem(last=False)[1])

    def clear(self) -> None:
        with self._lock:
            self._bodies.clear()
            self.total_bytes = 0


cache = PartsCache(_MAX_BYTES)


def read_parts(
    session: Session, compactions: Sequence[Check], number: int, *, has_content: bool
) -> tuple[PublicParts, ContentParts | None]:
    """Return the parts of compaction `number` of a session. Readers without the right get no content."""
    key = _key(session, number, _sources(compactions, number))
    public = cache.get(key, PublicParts)
    content = cache.get(key, ContentParts) if has_content else None
    if public is None or (has_content and content is None):
        public, content = _compute(session, number)
    return public, content if has_content else None


def read_all_lines(session: Session, compactions: Sequence[Check], number: int) -> str:
    """Return all lines of a summary as HTML. Those of a very long one are not kept."""
    sources = _sources(compactions, number)
    return all_lines(sources, queries.payloads(session, list(sources)))


def _compute(session: Session, number: int) -> tuple[PublicParts, ContentParts]:
    """Compute the parts of a compaction and keep them. They do not depend on who asks for them."""
    sources = _sources(session_checks(session).compactions(), number)
    spans = list(sources)
    public, content = build(sources, queries.payloads(session, spans) if spans else {})
    # Payloads that cannot be read now may be readable later: from a backup, or by a newer version of the server.
    if not public.unreadable:
        key = _key(session, number, sources)
        cache.add(key, public)
        cache.add(key, content)
    return public, content


def _sources(compactions: Sequence[Check], number: int) -> Sources:
    return Sources.of(number, compactions[number - 1], previous_summary(compactions, number))


def _key(session: Session, number: int, sources: Sources) -> Key:
    versions = tuple((span.key, span.seq) for span in sources)
    return session.project_id, session.session_key, number, versions, sources.sizes, sources.is_corrected
