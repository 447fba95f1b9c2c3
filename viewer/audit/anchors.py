"""Anchors: signed fingerprints of the archive and the audit log, stored outside the database.

A hash chain proves that nothing inside it changed, but not that its end is complete. An anchor records in a signed
file how much there was, so that rewriting the database would also require forging a signature.
"""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from ingest.archive.hash_chain import canonical, format_time
from ingest.models import ChainLink
from viewer.audit import signing
from viewer.models import AuditEntry

# A link gets its time before its transaction commits. Anchors leave out links that may not be visible yet.
_COMMIT_MARGIN = timedelta(minutes=1)


def file() -> Path:
    return Path(settings.DATA_DIR) / "anchors.jsonl"


def write() -> dict[str, Any]:
    """Append an anchor of the current archive, linked to the previous anchor."""
    until = timezone.now() - _COMMIT_MARGIN
    last = AuditEntry.objects.filter(at__lte=until).order_by("-position").first()
    count, root = _fingerprint(until)
    anchors = read()
    anchor = {
        "time": format_time(until),
        "links": count,
        "root": root,
        "audit_position": last.position if last else -1,
        "audit_hash": last.hash if last else "",
        "previous": hashlib.sha256(canonical(anchors[-1])).hexdigest() if anchors else "",
        "public_key": signing.public_key(),
    }
    signed = {**anchor, "signature": base64.b64encode(signing.sign(canonical(anchor))).decode()}
    with file().open("ab") as out:
        out.write(canonical(signed) + b"\n")
    return signed


def read() -> list[dict[str, Any]]:
    if not file().exists():
        return []
    return [json.loads(line) for line in file().read_bytes().splitlines() if line.strip()]


def find_problems() -> list[str]:
    """Check the signatures and links of all anchors, and compare the newest with the database."""
    anchors = read()
    problems: list[str] = []
    previous = ""
    for number, anchor in enumerate(anchors):
        claim = {name: value for name, value in anchor.items() if name != "signature"}
        if not signing.is_ours(canonical(claim), base64.b64decode(anchor.get("signature", ""))):
            problems.append(f"Anchor {number} is not signed by this server.")
        if anchor.get("previous") != previous:
            problems.append(f"Anchor {number} does not link to the previous anchor.")
        previous = hashlib.sha256(canonical(anchor)).hexdigest()
    return problems + _compare_with_database(anchors[-1]) if anchors else problems


def _compare_with_database(anchor: dict[str, Any]) -> list[str]:
    problems = []
    until = parse_datetime(anchor["time"])
    assert until is not None
    if _fingerprint(until) != (anchor["links"], anchor["root"]):
        problems.append(f"The archive no longer matches the anchor of {anchor['time']}.")
    position = anchor["audit_position"]
    if position >= 0 and not AuditEntry.objects.filter(position=position, hash=anchor["audit_hash"]).exists():
        problems.append(f"Audit entry {position} no longer matches the anchor of {anchor['time']}.")
    return problems


def _fingerprint(until: datetime) -> tuple[int, str]:
    """Return the number of chain links and the hash of all of them."""
    digest, count = hashlib.sha256(), 0
    rows = ChainLink.objects.filter(time__lte=until).order_by("session_key", "position")
    for key, position, chain in rows.values_list("session_key", "position", "chain").iterator(chunk_size=5000):
        digest.update(f"{key} {position} {chain}\n".encode())
        count += 1
    return count, digest.hexdigest()
