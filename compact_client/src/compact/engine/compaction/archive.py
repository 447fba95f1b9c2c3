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
from compact.delivery.stderr import log_problem
from compact.engine.effects import Steps
from compact.engine.session import Session
from compact.exceptions import CompactError
from compact.messages import Message, RedactedText
from compact.planning.plan import CompactionPlan

if TYPE_CHECKING:
    from compact.engine.engine import Engine


class ArchiveFailed(CompactError):
    """The transcript could not be archived, so nothing may be compacted."""


class TranscriptArchive:
    """The archive of one compaction. A transcript is saved once, also if the compaction runs again."""

    def __init__(self, engine: Engine, session: Session, check: events.CheckSpan) -> None:
        self._engine = engine
        self._session = session
        self._check = check
        self._storage = engine.cfg.storage
        self._step = 0
        """The step under which the transcript is archived, 0 before that."""

    def save_transcript(self, step: int) -> Steps[int]:
        """Save the session's whole history. Return the step under which it is archived, which may be later.

        Raise `ArchiveFailed` if that fails and is required.
        """
        engine, session, storage = self._engine, self._session, self._storage
        if storage is None or self._step:
            return max(step, self._step)
        session.redaction.update(session.history)
        transcript = [session.redaction.mask(message) for message in session.view]
        counts: Counter[str] = Counter()
        for message in session.view:
            counts.update(session.redaction.counts(message))
        event = events.ArchivalEvent(
            session_id=session.session_id,
            state="stored",
            step=step,
            storage_adapter=engine.storage_name,
            message_count=len(transcript),
            redactions=dict(counts),
        )
        options = {"step": step} if _accepts_step(storage.save_transcript) else {}
        try:
            receipt = yield lambda: storage.save_transcript(session.session_id, transcript, **options)
        except Exception as error:
            reason = session.redaction.text(str(error))
            self._check.emit(replace(event, state="failed", error=reason), is_error=True)
            if engine.cfg.archive_required:
                raise ArchiveFailed(f"The transcript could not be archived: {reason}") from error
            self._warn(reason)
            return step
        event = event.add_receipt(receipt)
        # The archive may have transcripts of an earlier process. The steps of this session continue after them.
        self._step = max(step, event.step)
        self._check.emit(event)
        if event.state == "queued":
            engine.archival_results.wait(self._check, event)
        return self._step

    def save_summary(self, plan: CompactionPlan) -> Steps[None]:
        """Save the new summary. A failure is only reported, because the history is already archived."""
        session, storage = self._session, self._storage
        if storage is None or not plan.summary_text:
            return
        summary = session.redaction.mask(Message("assistant", plan.summary_text, id=plan.summary_id))
        try:
            yield lambda: storage.save_summary(session.session_id, summary, plan.step)
        except Exception as error:
            self._warn(session.redaction.text(str(error)))

    def _warn(self, reason: RedactedText) -> None:
        message = f"archive failed: {reason}"
        log_problem("Ariadne", message)
        self._check.emit(events.WarningEvent(severity="high", code="archive_failed", message=message))


def _accepts_step(save: Any) -> bool:
    try:
        parameters = inspect.signature(save).parameters
    except (TypeError, ValueError):
        return False
    return "step" in parameters or any(item.kind is item.VAR_KEYWORD for item in parameters.values())
