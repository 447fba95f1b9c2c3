"""Session logs of other agents, read as conversations and as events for the server."""

from compact.importers.conversation import Conversation, LogSpan
from compact.importers.ingest_events import ingest_events
from compact.importers.reader import UnreadableLog, read_conversation

__all__ = ["Conversation", "LogSpan", "UnreadableLog", "ingest_events", "read_conversation"]
