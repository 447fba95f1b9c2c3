"""Notify readers of commits through the channel layer.

A notification has no content, only a pointer. Each commit sends one per project, to one group:

    {"type": "spans.committed", "project": 1, "seq": 4711, "sessions": ["<uuid>", …]}

`seq` is the highest sequence number of the commit. Within a project, numbers increase in commit order. Notifications
may be lost or duplicated, so readers fetch everything after the last number they saw. `sessions` has at most
`MAX_SESSIONS` entries, and `"more": true` is set if there are more.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable

from channels.layers import get_channel_layer

logger = logging.getLogger("ariadne.ingest")

GROUP = "ingest.commits"
MESSAGE_TYPE = "spans.committed"
MAX_SESSIONS = 200


async def publish(project_id: int, seq: int, session_keys: Iterable[uuid.UUID]) -> bool:
    """Send one notification. Return False if the channel layer failed, in which case readers poll."""
    keys = [str(key) for key in session_keys]
    notification = {"type": MESSAGE_TYPE, "project": project_id, "seq": seq, "sessions": keys[:MAX_SESSIONS]}
    if len(keys) > MAX_SESSIONS:
        notification["more"] = True
    layer = get_channel_layer()
    if layer is None:
        return False
    try:
        await layer.group_send(GROUP, notification)
    except Exception as error:
        logger.warning("notification_failed error=%s", type(error).__name__)
        return False
    return True
