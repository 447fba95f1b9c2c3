"""Archive the transcript before anything is pruned, and the summary after.

What is archived is a redacted copy. If the transcript cannot be archived and the caller requires it, nothing is
pruned that turn.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from compact import events
from compact.delivery.stderr import say
from compact.engine.effects import Steps
from compact.engine.ledger import redact_ahead, redacted
from compact.exceptions import CompactError
from compact.messages import Message

if TYPE_CHECKING:
    from compact.engine.job import Job


class ArchiveFailed(CompactError):
    """The transcript could not be archived, so nothing may be pruned."""


def archive_transcript(job: Job, step: int) -> Steps[None]:
    """Save the session's whole history, redacted; raises `ArchiveFailed` if that is required and fails."""
    if job.storage is None:
        return
    counts: Counter[str] = Counter()
    transcript: list[Message] = []
    redact_ahead(job.session, job.outbound, job.session.view)
    for message in job.session.view:
        clean, found = redacted(job.session, job.outbound, message)
        counts.update(found)
        transcript.append(clean)
    save = job.storage.save_transcript
    extra = {"step": step} if _takes_step(save) else {}
    try:
        where = yield lambda: save(job.session.session_id, transcript, **extra)
    except Exception as error:
        if job.is_archive_required:
            raise ArchiveFailed(f"the transcript could not be archived: {error}") from error
        _warn(job, error)
        return
    job.check.emit(
        events.ArchivalEvent(
            session_id=job.session.session_id,
            step=step,
            storage_adapter=getattr(job.storage, "name", None) or type(job.storage).__name__,
            message_count=len(transcript),
            redactions=dict(counts),
            **_place(where),
        )
    )


def archive_summary(job: Job, step: int) -> Steps[None]:
    """Save the new summary; a failure is reported and nothing more, for the history is already safe."""
    plan = job.session.plan
    if job.storage is None or plan is None or not plan.summary_text:
        return
    summary = job.outbound.redact_message(Message("assistant", plan.summary_text, id=plan.summary_id))
    try:
        yield lambda: job.storage.save_summary(job.session.session_id, summary, step)
    except Exception as error:
        _warn(job, error)


def _warn(job: Job, error: Exception) -> None:
    say("Ariadne", f"archive failed: {error}")
    job.check.emit(events.WarningEvent(severity="high", code="archive_failed", message=f"archive failed: {error}"))


def _takes_step(save: Any) -> bool:
    try:
        parameters = inspect.signature(save).parameters
    except (TypeError, ValueError):
        return False
    return "step" in parameters or any(item.kind is item.VAR_KEYWORD for item in parameters.values())


def _place(where: Any) -> dict[str, Any]:
    """Where it lies, also by the names of document 002."""
    if not isinstance(where, Mapping):
        where = {"path": str(where)} if where is not None else {}
    place = {key: where[key] for key in ("path", "key", "id", "sha256") if key in where}
    if "path" in place:
        place["file_path"] = place["path"]
    if "key" in place:
        place["S3_key"] = place["key"]
    return place
