"""Fingerprints of the archive and the audit log, kept outside the database.

A chain proves that nothing inside it changed, not that its end was not cut off. An anchor remembers, signed and in a
file of its own, how much there was: whoever rewrites the database must also forge a signature.
"""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from ingest.archive.hash_chain import canonical, format_time
from ingest.models import ChainLink
from viewer.audit import signing
from viewer.models import AuditEntry

# A link carries the time at which it was made, and is seen once its transaction commits: leave room between the two.
_SETTLED = timedelta(minutes=1)


def file() -> Path:
    return Path(settings.DATA_DIR) / "anchors.jsonl"


def write() -> dict[str, Any]:
    """Remember the archive as it stands, each anchor tied to the one before it."""
    until = timezone.now() - _SETTLED
    last = AuditEntry.objects.filter(at__lte=until).order_by("-position").first()
    count, root = _root(until)
    known = read()
    anchor = {
        "time": format_time(until),
        "links": count,
        "root": root,
        "audit_position": last.position if last else -1,
        "audit_hash": last.hash if last else "",
        "previous": hashlib.sha256(canonical(known[-1])).hexdigest() if known else "",
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


def faults() -> list[str]:
    """What the newest anchor remembers and the database no longer holds."""
    known = read()
    found: list[str] = []
    previous = ""
    for number, anchor in enumerate(known):
        claim = {name: value for name, value in anchor.items() if name != "signature"}
        if not signing.is_ours(canonical(claim), base64.b64decode(anchor.get("signature", ""))):
            found.append(f"anchor {number} is not signed by this server")
        if anchor.get("previous") != previous:
            found.append(f"anchor {number} does not follow the one before it")
        previous = hashlib.sha256(canonical(anchor)).hexdigest()
    if not known:
        return found
    newest = known[-1]
    until = parse_datetime(newest["time"])
    assert until is not None
    if _root(until) != (newest["links"], newest["root"]):
        found.append(f"the archive no longer holds what it held on {newest['time']}")
    position = newest["audit_position"]
    if position >= 0 and not AuditEntry.objects.filter(position=position, hash=newest["audit_hash"]).exists():
        found.append(f"the audit log no longer holds line {position} as it was on {newest['time']}")
    return found


def _root(until: Any) -> tuple[int, str]:
    digest, count = hashlib.sha256(), 0
    rows = ChainLink.objects.filter(time__lte=until).order_by("session_key", "position")
    for key, position, chain in rows.values_list("session_key", "position", "chain").iterator(chunk_size=5000):
        digest.update(f"{key} {position} {chain}\n".encode())
        count += 1
    return count, digest.hexdigest()
