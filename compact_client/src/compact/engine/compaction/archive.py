"""Archive the transcript before a compaction, and the summary after it.

Only redacted copies are archived. If the archive fails and the configuration requires it, nothing is compacted in
this turn.
"""

from __future__ import annotations

import inspect
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from compact import events
from compact.delivery.stderr import say
from compact.engine.effects import Steps
from compact.exceptions import CompactError
from compact.messages import Message, RedactedText

if TYPE_CHECKING:
    from compact.engine.compaction.compaction import Compaction


class ArchiveFailed(CompactError):
    """The transcript could not be archived, so nothing may be compacted."""


def archive_transcript(compaction: Compaction) -> Steps[None]:
    """Save the session's whole history. Raise `ArchiveFailed` if that fails and is required."""
    engine, session, storage = compaction.engine, compaction.session, compaction.engine.cfg.storage
    if storage is None or compaction.archived_step:
        # A compaction that runs again, for example without a failing store, has the same transcript.
        compaction.step = max(compaction.step, compaction.archived_step)
        return
    session.redaction.update(session.history)
    transcript = [session.redaction.mask(message) for message in session.view]
    counts: Counter[str] = Counter()
    for message in session.view:
        counts.update(session.redaction.counts(message))
    event = events.ArchivalEvent(
        session_id=session.session_id,
        state="stored",
        step=compaction.step,
        storage_adapter=engine.storage_name,
        message_count=len(transcript),
        redactions=dict(counts),
    )
    options = {"step": compaction.step} if _accepts_step(storage.save_transcript) else {}
    try:
        receipt = yield lambda: storage.save_transcript(session.session_id, transcript, **options)
    except Exception as error:
        reason = session.redaction.text(str(error))
        compaction.check.emit(replace(event, state="failed", error=reason), is_error=True)
        if engine.cfg.archive_required:
            raise ArchiveFailed(f"The transcript could not be archived: {reason}") from error
        _warn(compaction, reason)
        return
    event = event.add_receipt(receipt)
    # The archive may have transcripts of an earlier process. The steps of this session continue after them.
    compaction.archived_step = compaction.step = max(compaction.step, event.step)
    compaction.check.emit(event)
    if event.state == "queued":
        engine.archival_results.wait(compaction.check, event)


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
        _warn(compaction, session.redaction.text(str(error)))


def _warn(compaction: Compaction, reason: RedactedText) -> None:
    message = f"archive failed: {reason}"
    say("Ariadne", message)
    compaction.check.emit(events.WarningEvent(severity="high", code="archive_failed", message=message))


def _accepts_step(save: Any) -> bool:
    try:
        parameters = inspect.signature(save).parameters
    except (TypeError, ValueError):
        return False
    return "step" in parameters or any(item.kind is item.VAR_KEYWORD for item in parameters.values())
