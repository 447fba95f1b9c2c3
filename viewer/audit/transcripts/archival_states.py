"""States of transcripts: queued by an agent, stored in this archive, or failed.

An agent reports `queued` and later `stored` or `failed`. The archive itself is the proof, so a transcript that it has
is stored, whatever the last event says.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.utils import timezone

from ingest.cells import cells_of, project_of
from ingest.models import Session, Transcript
from ingest.storage.payloads import decode_data
from viewer.kinds import ARCHIVAL

STORED, QUEUED, FAILED = "stored", "queued", "failed"
_DAYS = 14
_MAX_EVENTS = 500

_RECENT = """
SELECT session_key, session.session_id, cell, coalesce(span.ended_at, span.started_at), data
FROM ingest_span span JOIN ingest_session session USING (cell, session_key)
WHERE span.kind = %s AND span.cell = ANY(%s) AND session.cell = ANY(%s) AND span.session_day >= %s
ORDER BY span.seq DESC LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class Archival:
    """The last known state of one transcript."""

    state: str
    step: int
    sha256: str
    adapter: str = ""
    error: str = ""
    session_id: str = ""
    session_key: uuid.UUID | None = None
    project_id: int = 0
    at: datetime | None = None


def unstored_transcripts(projects: Iterable[int], *, now: datetime | None = None) -> list[Archival]:
    """Return the transcripts of the last two weeks that agents queued or could not archive, newest first."""
    since, cells = (now or timezone.now()) - timedelta(days=_DAYS), cells_of(*projects)
    with connection.cursor() as cursor:
        cursor.execute(_RECENT, [ARCHIVAL, cells, cells, since.date(), _MAX_EVENTS])
        rows = cursor.fetchall()
    latest: dict[tuple[uuid.UUID, str], Archival] = {}
    for key, session_id, cell, at, data in rows:
        archival = read_archival(
            decode_data(data), session_id=session_id, session_key=key, project_id=project_of(cell), at=at
        )
        name = (key, archival.sha256 or f"step {archival.step}")
        # Rows are newest first. An older final state still wins over `queued`, because events may arrive in any order.
        if name not in latest or latest[name].state == QUEUED != archival.state:
            latest[name] = archival
    waiting = [archival for archival in latest.values() if archival.state != STORED]
    keys = {archival.session_key for archival in waiting if archival.session_key}
    stored = set(
        Transcript.objects.filter(cell__in=cells, session_key__in=keys).values_list("session_key", "sent_sha256")
    )
    return [archival for archival in waiting if (archival.session_key, archival.sha256) not in stored]


def compaction_archival(
    session: Session, events: Sequence[Mapping[str, Any]]
) -> tuple[Archival | None, Transcript | None]:
    """Return the state of one compaction's transcript, from its archival events in order, and the transcript."""
    if not events:
        return None, None
    archivals = [read_archival(event) for event in events]
    final = [archival for archival in archivals if archival.state != QUEUED]
    archival = (final or archivals)[-1]
    rows = Transcript.objects.filter(cell=session.cell, session_key=session.session_key)
    rows = rows.filter(sent_sha256=archival.sha256) if archival.sha256 else rows.filter(step=archival.step)
    return archival, rows.order_by("-step").first()


def read_archival(data: Mapping[str, Any], **fields: Any) -> Archival:
    """Read an archival event. Clients without states sent it only after the transcript was stored."""
    step = data.get("step")
    return Archival(
        state=str(data.get("state") or STORED),
        step=step if isinstance(step, int) else 0,
        sha256=str(data.get("sha256") or ""),
        adapter=str(data.get("storage_adapter") or ""),
        error=str(data.get("error") or ""),
        **fields,
    )
