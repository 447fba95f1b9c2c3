"""Notify readers of commits through the channel layer.

A notification has no content, only a pointer. Each commit sends one per cell, to one group:

    {"type": "spans.committed", "cell": 1024, "project": 1, "seq": 4711, "sessions": ["<uuid>", …]}

`seq` is the highest sequence number of the commit. Within a cell, numbers increase in commit order. Notifications
may be lost or duplicated, so readers fetch everything after the last number they saw. `sessions` has at most
`MAX_SESSIONS` entries, and `"more": true` is set if there are more.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable

from channels.layers import get_channel_layer

from ingest.cells import project_of
from ingest.outage import Outage

logger = logging.getLogger("ariadne.ingest")

GROUP = "ingest.commits"
MESSAGE_TYPE = "spans.committed"
MAX_SESSIONS = 200
# Shared by those who send to the channel layer and those who listen.
channel_layer = Outage(
    logger, "channel_layer", "Redis does not answer. Check REDIS_URL. Until then, open pages are up to a second late"
)


async def publish(cell: int, seq: int, session_keys: Iterable[uuid.UUID]) -> bool:
    """Send one notification. Return False if the channel layer failed, in which case readers poll."""
    keys = [str(key) for key in session_keys]
    notification = {
        "type": MESSAGE_TYPE,
        "cell": cell,
        "project": project_of(cell),
        "seq": seq,
        "sessions": keys[:MAX_SESSIONS],
    }
    if len(keys) > MAX_SESSIONS:
        notification["more"] = True
    layer = get_channel_layer()
    if layer is None:
        return False
    try:
        await layer.group_send(GROUP, notification)
    except Exception as error:
        channel_layer.fail("commits", error)
        return False
    channel_layer.succeed("commits")
    return True
