"""Verification of a session's archive, recorded in the audit log."""

from __future__ import annotations

from django.http import HttpRequest
from rest_framework.request import Request

from ingest.archive.verification import Verification, verify_session
from ingest.models import Transcript
from viewer.audit import log
from viewer.audit.log import Action


def verify_archive(request: HttpRequest | Request, transcript: Transcript) -> Verification:
    """Recompute the hash chain and all texts of the transcript's session."""
    result = verify_session(transcript.session_key)
    log.record(
        request,
        Action.ARCHIVE_VERIFY,
        project_id=transcript.project_id,
        target=transcript.session_id,
        faults=len(result.faults),
    )
    return result
