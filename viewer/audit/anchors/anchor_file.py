"""The file of anchors in DATA_DIR: one signed JSON object per line, only appended.

A line is written with one call and is on disk before the function returns. Lines that cannot be read are reported and
never removed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils.dateparse import parse_datetime

from ingest.archive.anchor_root import Root
from ingest.archive.hash_chain import canonical
from viewer.audit import signing

VERSION = "ariadne-anchor/2"
# Enough for the newest anchors. The page reads no more.
_TAIL_BYTES = 64 * 1024


class DamagedAnchor(ValueError):
    """A line of the file that is not an anchor."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The extent of the archive and the audit log at a point in time."""

    number: int
    until: datetime
    root: Root
    audit_position: int
    audit_hash: str
    previous: str
    signature: bytes
    claim: dict[str, Any]  # everything that is signed

    @property
    def replaces(self) -> int:
        """The number of the last anchor before an administrator restarted the series with this one, or 0."""
        restart = self.claim.get("restart")
        number = restart.get("anchor") if isinstance(restart, dict) else None
        return number if type(number) is int else 0

    @property
    def is_signed(self) -> bool:
        return signing.is_ours(canonical(self.claim), self.signature)

    @property
    def line(self) -> bytes:
        signature = base64.b64encode(self.signature).decode()
        return canonical({**self.claim, "signature": signature})

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.line).hexdigest()


def sign(claim: dict[str, Any]) -> Anchor:
    """Return the anchor with these fields, signed with the server's key."""
    claim = {"version": VERSION, **claim, "public_key": signing.public_key()}
    return _from_claim(claim, signing.sign(canonical(claim)))


def parse(line: bytes) -> Anchor:
    """Return the anchor in a line, or raise DamagedAnchor."""
    try:
        claim = json.loads(line)
        signature = base64.b64decode(claim.pop("signature"), validate=True)
        if claim.get("version") != VERSION:
            raise DamagedAnchor("unknown version")
        return _from_claim(claim, signature)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, binascii.Error) as error:
        raise DamagedAnchor(str(error)) from None


def path() -> Path:
    return Path(settings.DATA_DIR) / "anchors.jsonl"


def read() -> tuple[list[Anchor], list[str]]:
    """Return all anchors, and a description of each line that cannot be read."""
    try:
        content = path().read_bytes()
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"The anchor file cannot be read: {error.strerror}."]
    return _parse_lines(content.split(b"\n"))


def read_last() -> Anchor | None:
    """Return the newest readable anchor. Reads only the end of the file."""
    try:
        with path().open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return None
    anchors, _ = _parse_lines(lines)
    return anchors[-1] if anchors else None


def append(anchor: Anchor) -> None:
    """Append an anchor and wait until it is on disk."""
    is_new = not path().exists()
    # A line that an interrupted write left behind stays as it is. The new anchor starts on its own line.
    start = b"" if is_new or _ends_with_newline() else b"\n"
    descriptor = os.open(path(), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        data = start + anchor.line + b"\n"
        if os.write(descriptor, data) != len(data):
            raise OSError("The disk is full. The anchor was not written.")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if is_new:
        _sync_folder()


def set_aside(last_number: int) -> tuple[str, str]:
    """Rename the file, which stays as evidence. Return its new name and its SHA-256, or two empty texts."""
    try:
        digest = hashlib.sha256(path().read_bytes()).hexdigest()
    except FileNotFoundError:
        return "", ""
    target = path().with_name(f"anchors-until-{last_number}-{digest[:8]}.jsonl")
    path().rename(target)
    _sync_folder()
    return target.name, digest


def _sync_folder() -> None:
    folder = os.open(path().parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _ends_with_newline() -> bool:
    with path().open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _parse_lines(lines: Iterable[bytes]) -> tuple[list[Anchor], list[str]]:
    anchors: list[Anchor] = []
    problems: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            anchors.append(parse(line))
        except DamagedAnchor:
            problems.append(f"Line {number} of the anchor file is damaged.")
    return anchors, problems


def _from_claim(claim: dict[str, Any], signature: bytes) -> Anchor:
    until = parse_datetime(claim["time"])
    if until is None or until.tzinfo is None:
        raise DamagedAnchor("invalid time")
    return Anchor(
        number=int(claim["number"]),
        until=until,
        root=Root(int(claim["links"]), str(claim["root"])),
        audit_position=int(claim["audit_position"]),
        audit_hash=str(claim["audit_hash"]),
        previous=str(claim["previous"]),
        signature=signature,
        claim=claim,
    )
