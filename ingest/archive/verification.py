"""Is the archive what it was? Recompute every digest and every link, and say what does not fit.

Reads only. Trusts nothing but the hashes: texts against their names, transcripts against their digests, links against
each other, and rows against links in both directions.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ingest.archive import hash_chain, transcripts
from ingest.archive.hash_chain import Link, spell
from ingest.models import ChainLink, Transcript


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found in one session's archive; whole when `faults` is empty."""

    session_key: uuid.UUID
    session_id: str
    project_id: int
    stored: int
    deleted: int
    head: str
    faults: tuple[str, ...]


def links_of(key: uuid.UUID) -> list[ChainLink]:
    return list(ChainLink.objects.filter(session_key=key).order_by("position"))


def as_link(row: ChainLink) -> Link:
    return Link(
        project=row.project_id,
        session=row.session_id,
        position=row.position,
        kind=row.kind,
        step=row.step,
        time=spell(row.time),
        sha256=row.sha256,
        manifest=row.manifest,
        previous=row.previous,
    )


def check_session(key: uuid.UUID) -> Finding:
    """Every link of one session, and the text of every transcript that was not deleted."""
    rows = links_of(key)
    kept = {t.step: t for t in Transcript.objects.filter(session_key=key).order_by("step")}
    faults = hash_chain.faults((as_link(row), row.chain) for row in rows)
    stored = {row.step: row for row in rows if row.kind == ChainLink.Kind.STORED}
    deleted = {row.step for row in rows if row.kind == ChainLink.Kind.DELETED}
    for step, row in sorted(stored.items()):
        if step in deleted:
            if step in kept:
                faults.append(f"step {step} was deleted and is there")
        elif step not in kept:
            faults.append(f"step {step} is missing")
        else:
            faults += _check_transcript(kept[step], row)
    faults += [f"step {step} is not in the chain" for step in sorted(kept.keys() - stored.keys())]
    some = rows[0] if rows else next(iter(kept.values()), None)
    return Finding(
        session_key=key,
        session_id=some.session_id if some else "",
        project_id=some.project_id if some else 0,
        stored=len(stored) - len(deleted),
        deleted=len(deleted),
        head=rows[-1].chain if rows else "",
        faults=tuple(faults),
    )


def check_all(project_ids: Iterable[int] | None = None) -> Iterator[Finding]:
    """Every session that has, or ever had, a transcript."""
    links, rows = ChainLink.objects.all(), Transcript.objects.all()
    if project_ids is not None:
        projects = list(project_ids)
        links, rows = links.filter(project_id__in=projects), rows.filter(project_id__in=projects)
    named = links.order_by().values_list("session_key", flat=True)
    keys = named.union(rows.order_by().values_list("session_key", flat=True))
    for key in sorted(keys):
        yield check_session(key)


def _check_transcript(transcript: Transcript, link: ChainLink) -> list[str]:
    step = transcript.step
    if (transcript.sha256, transcript.chain) != (link.sha256, link.chain):
        return [f"step {step} is not the transcript that was archived"]
    manifest = (link.manifest.get("messages"), link.manifest.get("redactions"))
    if (transcript.message_count, transcript.redactions) != manifest:
        return [f"step {step} does not carry the manifest that was archived"]
    count = len(bytes(transcript.hashes)) // 32
    if count != transcript.message_count or (transcript.ids is not None and len(transcript.ids) != count):
        return [f"step {step} was changed: it has lost or gained a message"]
    digest = hashlib.sha256()
    try:
        for line in transcripts.lines(transcript):
            digest.update(line + b"\n")
    except KeyError as missing:
        return [f"step {step} has lost the text {missing.args[0].hex()[:12]}…, or it was changed"]
    if digest.hexdigest() != link.sha256:
        return [f"step {step} was changed"]
    return []
