"""Session logs of other agents as conversations, and as spans for the first screen of a viewer."""

from compact.importers.conversation import Conversation, Moment, UnreadableLog, read_conversation
from compact.importers.spans import spans_of

__all__ = ["Conversation", "Moment", "UnreadableLog", "read_conversation", "spans_of"]
