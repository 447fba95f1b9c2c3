"""Record the session of an agent, from any source, and turn it into events for the server."""

from compact.recording.recorder import SessionRecorder
from compact.recording.session_events import ArchiveTranscript, SessionEvents
from compact.recording.spans import RecordedSpan, SessionLink
from compact.recording.thread import Thread

__all__ = ["ArchiveTranscript", "RecordedSpan", "SessionEvents", "SessionLink", "SessionRecorder", "Thread"]
