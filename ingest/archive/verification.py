"""Verify the integrity of archived transcripts.

Reads only. Recomputes all hashes and compares texts with their hashes, transcripts with their digests, links with each
other, and transcripts with links in both directions.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ingest.archive import hash_chain, transcripts
from ingest.archive.hash_chain import Link, format_time
from ingest.cells import cells_of, project_of
from ingest.models import ChainLink, Transcript


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of verifying one session's archive. It is intact if `faults` is empty."""

    session_key: uuid.UUID
    session_id: str
    project_id: int
    stored: int
    deleted: int
    head: str
    faults: tuple[str, ...]


def chain_rows(cell: int, key: uuid.UUID) -> list[ChainLink]:
    """Return the stored links of a session, in order."""
    return list(ChainLink.objects.filter(cell=cell, session_key=key).order_by("position"))


def to_link(row: ChainLink) -> Link:
    return Link(
        project=row.project_id,
        session=row.session_id,
        position=row.position,
        kind=row.kind,
        step=row.step,
        time=format_time(row.time),
        sha256=row.sha256,
        manifest=row.manifest,
        previous=row.previous,
    )


def verify_session(cell: int, key: uuid.UUID) -> Verification:
    """Verify all links of one session, and the text of each transcript that was not deleted."""
    rows = chain_rows(cell, key)
    transcripts_of_session = Transcript.objects.filter(cell=cell, session_key=key)
    existing = {transcript.step: transcript for transcript in transcripts_of_session}
    stored = {row.step: row for row in rows if row.kind == ChainLink.Kind.STORED}
    deleted_steps = {row.step for row in rows if row.kind == ChainLink.Kind.DELETED}
    faults = hash_chain.faults((to_link(row), row.chain) for row in rows)
    for step, row in sorted(stored.items()):
        faults += _step_faults(existing.get(step), row, is_deleted=step in deleted_steps)
    faults += [f"step {step} is not in the chain" for step in sorted(existing.keys() - stored.keys())]
    source = rows[0] if rows else next(iter(existing.values()), None)
    return Verification(
        session_key=key,
        session_id=source.session_id if source else "",
        project_id=project_of(cell),
        stored=len(stored) - len(deleted_steps),
        deleted=len(deleted_steps),
        head=rows[-1].chain if rows else "",
        faults=tuple(faults),
    )


def verify_all(project_ids: Iterable[int] | None = None) -> Iterator[Verification]:
    """Verify each session that has, or ever had, a transcript."""
    # All cells that have rows, also those of deleted projects. A list of cells could have been shortened.
    links, rows = ChainLink.objects.all(), Transcript.objects.all()
    if project_ids is not None:
        cells = cells_of(*project_ids)
        links, rows = links.filter(cell__in=cells), rows.filter(cell__in=cells)
    linked_keys = links.order_by().values_list("cell", "session_key")
    for cell, key in sorted(linked_keys.union(rows.order_by().values_list("cell", "session_key"))):
        yield verify_session(cell, key)


def _step_faults(transcript: Transcript | None, link: ChainLink, *, is_deleted: bool) -> list[str]:
    if is_deleted:
        return [] if transcript is None else [f"step {link.step} was deleted but still exists"]
    if transcript is None:
        return [f"step {link.step} is missing"]
    return _transcript_faults(transcript, link)


def _transcript_faults(transcript: Transcript, link: ChainLink) -> list[str]:
    step = transcript.step
    if (transcript.sha256, transcript.chain) != (link.sha256, link.chain):
        return [f"step {step} is not the transcript that was archived"]
    manifest = (link.manifest.get("messages"), link.manifest.get("redactions"))
    if (transcript.message_count, transcript.redactions) != manifest:
        return [f"step {step} does not match the manifest that was archived"]
    count = len(bytes(transcript.hashes)) // 32
    if count != transcript.message_count or (transcript.ids is not None and len(transcript.ids) != count):
        return [f"step {step} was changed: messages were added or removed"]
    digest = hashlib.sha256()
    try:
        for line in transcripts.lines(transcript):
            digest.update(line + b"\n")
    except KeyError as missing:
        return [f"step {step} has a message that is missing or was changed: {missing.args[0].hex()[:12]}…"]
    if digest.hexdigest() != link.sha256:
        return [f"step {step} was changed"]
    return []
