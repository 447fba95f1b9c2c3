"""Notify the open pages of a session that its comments changed.

A notification has no content. Pages then read the thread again, with the rights of their reader. A lost notification is
made up for by the next regular refresh.
"""

from __future__ import annotations

from uuid import UUID

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction

from ingest.storage.notifications import GROUP, channel_layer

MESSAGE_TYPE = "comments.changed"


def publish(project_id: int, session_key: UUID) -> None:
    """Send a notification to all web processes after the transaction."""
    transaction.on_commit(lambda: _send(project_id, session_key))


def _send(project_id: int, session_key: UUID) -> None:
    layer = get_channel_layer()
    if layer is None:
        return
    message = {"type": MESSAGE_TYPE, "project": project_id, "session": str(session_key)}
    try:
        async_to_sync(layer.group_send)(GROUP, message)
    except Exception as error:
        channel_layer.fail("comments", error)
    else:
        channel_layer.succeed("comments")
