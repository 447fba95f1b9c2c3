"""The fingerprint of the archive at a point in time: a hash over all links in the order of their times.

Each fingerprint continues the previous one, so that an hourly anchor reads only new links, and one pass over all links
checks every anchor.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from ingest.models import ChainLink

_CHUNK_ROWS = 5_000


@dataclass(frozen=True, slots=True)
class Root:
    """The number of links and the hash over them."""

    count: int = 0
    hash: str = ""

    def append(self, key: object, position: int, chain: str) -> Root:
        text = f"{self.hash}\n{key} {position} {chain}"
        return Root(self.count + 1, hashlib.sha256(text.encode()).hexdigest())


def root_at(until: datetime, *, start: Root | None = None, after: datetime | None = None) -> Root:
    """Return the fingerprint of all links up to `until`, continued from `start`, the fingerprint at `after`."""
    root = start or Root()
    for _, key, position, chain in _links(until, after):
        root = root.append(key, position, chain)
    return root


def roots_at(times: Iterable[datetime]) -> Iterator[Root]:
    """Yield the fingerprint at each of `times`, which are ascending, in one pass over the links."""
    moments = list(times)
    if not moments:
        return
    links = _links(moments[-1], None)
    root, link = Root(), next(links, None)
    for moment in moments:
        while link is not None and link[0] <= moment:
            root, link = root.append(*link[1:]), next(links, None)
        yield root


def count_after(moment: datetime | None) -> int:
    """Return the number of links that are newer than `moment`."""
    links = ChainLink.objects.all()
    return links.filter(time__gt=moment).count() if moment else links.count()


def _links(until: datetime, after: datetime | None) -> Iterator[tuple[datetime, object, int, str]]:
    rows = ChainLink.objects.filter(time__lte=until).order_by("time", "session_key", "position")
    if after is not None:
        rows = rows.filter(time__gt=after)
    return rows.values_list("time", "session_key", "position", "chain").iterator(chunk_size=_CHUNK_ROWS)
