"""Archive the transcript before a compaction, and the summary after it.

Only redacted copies are archived. If the archive fails and the configuration requires it, nothing is compacted in
this turn.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from compact import events
from compact.delivery.stderr import say
from compact.engine.effects import Steps
from compact.exceptions import CompactError
from compact.messages import Message

if TYPE_CHECKING:
    from compact.engine.compaction.compaction import Compaction


class ArchiveFailed(CompactError):
    """The transcript could not be archived, so nothing may be compacted."""


def archive_transcript(compaction: Compaction) -> Steps[None]:
    """Save the session's whole history. Raise `ArchiveFailed` if that fails and is required."""
    engine, session, storage = compaction.engine, compaction.session, compaction.engine.cfg.storage
    if storage is None:
        return
    session.redaction.update(session.history)
    transcript = [session.redaction.mask(message) for message in session.view]
    counts: Counter[str] = Counter()
    for message in session.view:
        counts.update(session.redaction.counts(message))
    options = {"step": compaction.step} if _accepts_step(storage.save_transcript) else {}
    try:
        location = yield lambda: storage.save_transcript(session.session_id, transcript, **options)
    except Exception as error:
        if engine.cfg.archive_required:
            raise ArchiveFailed(f"The transcript could not be archived: {error}") from error
        _warn(compaction, error)
        return
    compaction.check.emit(
        events.ArchivalEvent(
            session_id=session.session_id,
            step=compaction.step,
            storage_adapter=getattr(storage, "name", None) or type(storage).__name__,
            message_count=len(transcript),
            redactions=dict(counts),
            **_location_properties(location),
        )
    )


def archive_summary(compaction: Compaction) -> Steps[None]:
    """Save the new summary. A failure is only reported, because the history is already archived."""
    session, storage = compaction.session, compaction.engine.cfg.storage
    plan = session.plan
    if storage is None or plan is None or not plan.summary_text:
        return
    summary = session.redaction.mask(Message("assistant", plan.summary_text, id=plan.summary_id))
    try:
        yield lambda: storage.save_summary(session.session_id, summary, compaction.step)
    except Exception as error:
        _warn(compaction, error)


def _warn(compaction: Compaction, error: Exception) -> None:
    message = f"archive failed: {error}"
    say("Ariadne", message)
    compaction.check.emit(events.WarningEvent(severity="high", code="archive_failed", message=message))


def _accepts_step(save: Any) -> bool:
    try:
        parameters = inspect.signature(save).parameters
    except (TypeError, ValueError):
        return False
    return "step" in parameters or any(item.kind is item.VAR_KEYWORD for item in parameters.values())


def _location_properties(location: Any) -> dict[str, Any]:
    """Return where the transcript is stored. A path and a key also get the names that document 002 uses."""
    if not isinstance(location, Mapping):
        location = {"path": str(location)} if location is not None else {}
    properties = {key: location[key] for key in ("path", "key", "id", "sha256") if key in location}
    if "path" in properties:
        properties["file_path"] = properties["path"]
    if "key" in properties:
        properties["S3_key"] = properties["key"]
    return properties
