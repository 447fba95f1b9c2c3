"""Tell the readers that something was committed: a pointer, never content.

One notice for each project of a commit, to one group of the channel layer:

    {"type": "spans.committed", "project": 1, "seq": 4711, "sessions": ["<uuid>", …]}

`seq` is the highest sequence number of the commit in that project; within a project, numbers rise in the order of
commits. A notice may be lost or come twice: whoever reads takes everything after the last number it saw. `sessions` is
cut at `MAX_SESSIONS`, then `"more": true` is set.
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
    """Send one notice; a channel layer that is away costs readers a second, and the writer nothing."""
    keys = [str(key) for key in session_keys]
    notice = {"type": MESSAGE_TYPE, "project": project_id, "seq": seq, "sessions": keys[:MAX_SESSIONS]}
    if len(keys) > MAX_SESSIONS:
        notice["more"] = True
    layer = get_channel_layer()
    if layer is None:
        return False
    try:
        await layer.group_send(GROUP, notice)
    except Exception as error:
        logger.warning("notice_not_sent error=%s", type(error).__name__)
        return False
    return True
