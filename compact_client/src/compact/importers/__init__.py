"""Session logs of other agents, read as conversations with their compactions, and as events for the server."""

from compact.importers.conversation import Conversation
from compact.importers.ingest_events import ingest_events
from compact.importers.reader import UnreadableLog, read_conversation, read_log
from compact.ledgers.foreign_compaction import Compaction, LogMessage
from compact.ledgers.inferred_ledger import UNDISCLOSED, InferredLedger, infer_ledger
from compact.recording import RecordedSpan

__all__ = [
    "UNDISCLOSED",
    "Compaction",
    "Conversation",
    "InferredLedger",
    "LogMessage",
    "RecordedSpan",
    "UnreadableLog",
    "infer_ledger",
    "ingest_events",
    "read_conversation",
    "read_log",
]
