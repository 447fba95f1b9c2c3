"""Verification of a session's archive, recorded in the audit log.

A session is verified by itself and against the anchors, which cover the archive as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest
from rest_framework.request import Request

from ingest.archive.verification import Verification, chain_rows, verify_session
from ingest.models import Transcript
from viewer.audit import log
from viewer.audit.anchors import anchor_series
from viewer.audit.anchors.anchor_series import Report
from viewer.audit.log import Action


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """The verification of one session, and whether an anchor covers all of it."""

    session: Verification
    anchors: Report
    is_anchored: bool

    @property
    def problems(self) -> list[str]:
        return [*self.session.faults, *self.anchors.problems]

    @property
    def status(self) -> str:
        if self.problems:
            return "failed"
        return "anchored" if self.is_anchored else "not_anchored"

    @property
    def sentence(self) -> str:
        if self.problems:
            return "Verification failed: " + "; ".join(self.problems)
        counts = f"{self.session.stored} transcripts and {self.session.deleted} tombstones"
        texts = f"Verified {counts}. All texts and links are intact."
        anchor = self.anchors.state.anchor
        if self.is_anchored and anchor is not None:
            return (
                f"{texts} They are proven up to anchor {anchor.number} of {anchor_series.describe_time(anchor.until)}."
            )
        return f"{texts} The newest of them is not anchored yet. The server writes an anchor every hour."


def verify_archive(request: HttpRequest | Request, transcript: Transcript) -> ArchiveReport:
    """Recompute the hash chain and all texts of the transcript's session, and compare the archive with its anchors."""
    rows = chain_rows(transcript.cell, transcript.session_key)
    report = anchor_series.verify()
    anchor = report.state.anchor
    is_anchored = anchor is not None and bool(rows) and rows[-1].time <= anchor.until
    result = ArchiveReport(verify_session(transcript.cell, transcript.session_key), report, is_anchored)
    log.record(
        request,
        Action.ARCHIVE_VERIFY,
        project_id=transcript.project_id,
        target=transcript.session_id,
        session=transcript.session_id,
        session_key=str(transcript.session_key),
        faults=len(result.problems),
        result=result.status,
    )
    return result
