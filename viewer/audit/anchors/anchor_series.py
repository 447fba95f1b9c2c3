"""Anchors: signed fingerprints of the archive and the audit log, stored outside the database.

A hash chain proves that nothing inside it changed, but not that its end is complete, and someone with access to the
database can compute it again. An anchor records in a signed file how much there was. Each anchor continues the previous
one, so a new anchor never confirms a change of what an earlier anchor covers.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from ingest import metrics
from ingest.archive import anchor_root
from ingest.archive.hash_chain import format_time
from ingest.archive.link_clock import anchor_time
from ingest.clock_tolerance import latest_time
from ingest.models import AnchorMark
from ingest.storage.database.job_lock import try_lock
from viewer.audit import log
from viewer.audit.anchors import anchor_file, external_anchors
from viewer.audit.anchors.anchor_file import Anchor
from viewer.audit.log import Action, Origin
from viewer.models import AuditEntry
from viewer.numbers import format_count

_log = logging.getLogger("ariadne.anchors")
_MAX_LISTED = 20
_JOB = "viewer anchors"
_LOCK = f"SELECT pg_advisory_xact_lock(hashtext('{_JOB}'))"


class NothingToRestart(Exception):
    """The anchors match the database, so there is no reason for a new series."""


@dataclass(frozen=True, slots=True)
class AnchorState:
    """The newest anchor, and how much came after it."""

    anchor: Anchor | None
    entries_after: int
    links_after: int
    restarted: Anchor | None = None
    """The first anchor of the file, if an administrator restarted the series with it."""
    external: list[external_anchors.Status] = field(default_factory=list)

    @property
    def sentence(self) -> str:
        if self.anchor is None:
            return "Not anchored yet. Until the first anchor, removing entries at the end goes unnoticed."
        since = f"{self.pending} after it are not anchored yet." if self.entries_after or self.links_after else ""
        return f"Anchor {self.anchor.number} of {describe_time(self.anchor.until)}. {since}".strip()

    @property
    def pending(self) -> str:
        entries = "entry" if self.entries_after == 1 else "entries"
        return f"{self.entries_after:,} audit {entries} and {format_count(self.links_after, 'transcript link')}"


@dataclass(frozen=True, slots=True)
class Report:
    """Result of a verification: what is wrong, and up to which anchor the rest is proven."""

    problems: list[str]
    state: AnchorState

    @property
    def status(self) -> str:
        if self.problems:
            return "failed"
        return "anchored" if self.state.anchor else "not_anchored"

    @property
    def sentence(self) -> str:
        if self.problems:
            return "Verification failed. " + " ".join(self.problems)
        anchor = self.state.anchor
        if anchor is None:
            return f"Entries are intact and in order. {self.state.sentence}"
        first = self.state.restarted
        restarted = f"An administrator restarted the series with anchor {first.number}. " if first else ""
        verified = f"Verified up to anchor {anchor.number} of {describe_time(anchor.until)}."
        return f"{verified} {restarted}{self._pending}".strip()

    @property
    def _pending(self) -> str:
        state = self.state
        if not state.entries_after and not state.links_after:
            return ""
        return f"{state.pending} after it are intact, but not anchored yet."


def write() -> Anchor:
    """Append an anchor of everything that exists now, and publish it to the configured services."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_LOCK)
        anchor = _append(cursor)
    # After the commit, because a slow service must not hold the lock.
    _publish(anchor)
    return anchor


def restart(origin: Origin, reason: str) -> Anchor:
    """Start a new series after a backup was restored intentionally. The reason is in the audit log, which is anchored.

    The old file is renamed and never deleted. The first anchor of the new series says which one it replaces, and
    verification reports that from then on. Raises `NothingToRestart` if the anchors match the database.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_LOCK)
        report = verify()
        if not report.problems:
            raise NothingToRestart
        mark = AnchorMark.objects.order_by("-number").first()
        last = report.state.anchor
        numbers = (last.number if last else 0, mark.number if mark else 0, external_anchors.last_number())
        name, digest = anchor_file.set_aside(max(numbers))
        log.record(
            origin,
            Action.ANCHOR_RESTART,
            target=f"anchor {max(numbers) + 1}",
            reason=reason,
            problems=report.problems[:_MAX_LISTED],
            file=name,
            sha256=digest,
        )
        anchor = _append(cursor, restart={"anchor": max(numbers), "file_sha256": digest})
    _publish(anchor)
    return anchor


def write_if_due(interval: timedelta) -> Anchor | None:
    """Append an anchor unless the newest one is younger than `interval`. One of many processes does it."""
    with transaction.atomic(), connection.cursor() as cursor:
        # Read the file under the lock, because another process may have written while this one waited.
        if not try_lock(cursor, _JOB) or not _is_due(anchor_file.read_last(), interval):
            return None
        anchor = _append(cursor)
    _publish(anchor)
    return anchor


def _is_due(last: Anchor | None, interval: timedelta) -> bool:
    if last is None:
        return True
    if last.until > latest_time():
        # The clock was ahead. Later anchors continue its time, so it does not tell how old this one is.
        return _has_changed(read_state())
    return timezone.now() - last.until >= interval


def _has_changed(state: AnchorState) -> bool:
    """True if anything was added since the newest anchor, or if there is none."""
    return state.anchor is None or bool(state.entries_after or state.links_after)


def write_if_changed() -> Anchor | None:
    """Append an anchor if anything was added since the newest one. Called when the server stops."""
    return write() if _has_changed(read_state()) else None


def _publish(anchor: Anchor) -> None:
    metrics.anchors.inc()
    _log.info("anchor number=%d links=%d audit=%d", anchor.number, anchor.root.count, anchor.audit_position)
    external_anchors.publish([anchor])


def _append(cursor: object, restart: dict[str, Any] | None = None) -> Anchor:
    until = anchor_time(cursor)
    entry = AuditEntry.objects.order_by("-position").first()
    anchors, _ = anchor_file.read()
    last = anchors[-1] if anchors else None
    mark = AnchorMark.objects.order_by("-number").first()
    root = anchor_root.root_at(until, start=last.root if last else None, after=last.until if last else None)
    anchor = anchor_file.sign(
        {
            "number": 1
            + (restart["anchor"] if restart else max(last.number if last else 0, mark.number if mark else 0)),
            "time": format_time(until),
            "links": root.count,
            "root": root.hash,
            "audit_position": entry.position if entry else -1,
            "audit_hash": entry.hash if entry else "",
            "previous": last.hash if last else "",
            **({"restart": restart} if restart else {}),
        }
    )
    # First the file, then the mark: if the process ends in between, an anchor without a mark is no problem, but a mark
    # without its anchor would look like a removed one.
    anchor_file.append(anchor)
    AnchorMark.objects.all().delete()
    AnchorMark.objects.create(number=anchor.number, until=until, hash=anchor.hash)
    return anchor


def read_state() -> AnchorState:
    """Return the newest anchor without checking it, for pages."""
    last = anchor_file.read_last()
    return _state([last] if last else [])


def verify() -> Report:
    """Recompute the audit log, and compare it and the archive with all anchors and their external copies."""
    anchors, damaged = anchor_file.read()
    checks = (
        _signature_problems,
        _order_problems,
        _audit_problems,
        _archive_problems,
        external_anchors.find_problems,
    )
    problems = [problem for check in checks for problem in check(anchors)]
    return Report([*log.find_problems(), *damaged, *problems], _state(anchors))


def _state(anchors: list[Anchor]) -> AnchorState:
    anchor = anchors[-1] if anchors else None
    restarted = anchors[0] if anchors and anchors[0].replaces else None
    position = anchor.audit_position if anchor else -1
    entries_after = AuditEntry.objects.filter(position__gt=position).count()
    links_after = anchor_root.count_after(anchor.until if anchor else None)
    return AnchorState(anchor, entries_after, links_after, restarted, external_anchors.statuses())


def _signature_problems(anchors: list[Anchor]) -> list[str]:
    return [f"Anchor {anchor.number} is not signed by this server." for anchor in anchors if not anchor.is_signed]


def _order_problems(anchors: list[Anchor]) -> list[str]:
    """Check that no anchor was removed, exchanged or added: in the middle, and at the end."""
    problems = []
    previous: Anchor | None = None
    for anchor in anchors:
        expected = previous.hash if previous else ""
        if anchor.previous != expected:
            problems.append(f"Anchor {anchor.number} does not link to the previous anchor in the file.")
        previous = anchor
    mark = AnchorMark.objects.order_by("-number").first()
    last = anchors[-1].number if anchors else 0
    if mark is not None and mark.number > last:
        text = f"Anchors {last + 1} to {mark.number} are" if mark.number > last + 1 else f"Anchor {mark.number} is"
        problems.append(f"{text} missing from the anchor file. The newest was written at {describe_time(mark.until)}.")
    return problems


def _audit_problems(anchors: list[Anchor]) -> list[str]:
    """Check that each anchored audit entry still exists."""
    positions = {anchor.audit_position for anchor in anchors if anchor.audit_position >= 0}
    hashes = dict(AuditEntry.objects.filter(position__in=positions).values_list("position", "hash"))
    return [
        f"Audit entry {anchor.audit_position} does not match anchor {anchor.number} of {describe_time(anchor.until)}. "
        "The log was cut, rewritten, or restored from an older backup."
        for anchor in anchors
        if anchor.audit_position >= 0 and hashes.get(anchor.audit_position) != anchor.audit_hash
    ][:1]


def _archive_problems(anchors: list[Anchor]) -> list[str]:
    """Check that the archive still contains what each anchor covers. Later anchors repeat the first problem."""
    in_order = sorted(anchors, key=lambda anchor: anchor.until)
    roots = anchor_root.roots_at([anchor.until for anchor in in_order])
    for anchor, root in zip(in_order, roots, strict=True):
        if root != anchor.root:
            return [
                f"The archive does not match anchor {anchor.number} of {describe_time(anchor.until)}: it has "
                f"{root.count:,} links and the anchor {anchor.root.count:,}. Links were removed, changed, or restored "
                "from an older backup."
            ]
    return []


def describe_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
