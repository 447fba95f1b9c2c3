"""The events of a conversation that was read as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compact.importers.conversation import Conversation
from compact.recording import ArchiveTranscript, SessionEvents, SessionRecorder


def ingest_events(
    conversation: Conversation,
    *,
    session_id: str,
    window_tokens: int | None = None,
    archive: ArchiveTranscript | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the events for `POST /ingest`: a trace, a root span, and the spans of the log in order."""
    recorder = SessionRecorder(conversation.source, conversation.format or "anthropic")
    recorder.model, recorder.window_tokens = conversation.model, conversation.window_tokens
    recorder.cwd, recorder.version, recorder.link = conversation.cwd, conversation.version, conversation.link
    for span in conversation.spans:
        recorder.note_time(span.started_at)
        recorder.note_time(span.ended_at)
    session = SessionEvents(recorder, session_id=session_id, window_tokens=window_tokens)
    yield from session.session_events()
    for span in conversation.spans:
        yield from session.span_events(span, archive=archive)
