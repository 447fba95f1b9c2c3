"""The verify command: check archives and audit bundles against their hashes and signatures."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compact import bundle
from compact.adapters.checksums import SUMS
from compact.cli import exit_codes, extras, output
from compact.events import ArchivalEvent


def verify(options: argparse.Namespace) -> int:
    """Verify every path and print one row per check."""
    key = _read_key(options.key)
    checks = [check for name in options.paths for check in _checks(Path(name), key)]
    is_ok = all(check["ok"] for check in checks)
    if options.json:
        output.document({"ok": is_ok, "checks": checks})
    else:
        rows = [(_state(check), check["check"], check["path"], check["detail"]) for check in checks]
        output.table("", ("", "check", "path", "detail"), rows)
    return exit_codes.OK if is_ok else exit_codes.FAILED


def _read_key(value: str | None) -> str | None:
    """Return the key itself, or the content of the file it names."""
    if value and Path(value).is_file():
        return Path(value).read_text().strip()
    return value


def _checks(path: Path, key: str | None) -> list[dict[str, Any]]:
    if path.is_dir():
        return list(_archive_checks(path)) or [_check(path, "archive", False, f"No {SUMS} in this directory.")]
    if path.suffix != ".zip" and not path.is_file():
        raise exit_codes.Stop(exit_codes.UNREADABLE, f"{path} does not exist.")
    extras.require("cryptography", extra="verify")
    report = bundle.verify(path, public_key=key)
    return [_check(path, check.name, check.ok, check.detail) for check in report.checks]


def _check(path: Path, name: str, ok: bool, detail: str) -> dict[str, Any]:
    return {"path": str(path), "check": name, "ok": ok, "detail": detail}


def _state(check: dict[str, Any]) -> Any:
    return output.style("ok", "green") if check["ok"] else output.style("FAILED", "bold red")


def _archive_checks(root: Path) -> Iterator[dict[str, Any]]:
    for sums in sorted(root.rglob(SUMS)):
        yield from _session_checks(sums)


def _session_checks(sums: Path) -> Iterator[dict[str, Any]]:
    """Check the files of one session against its SHA256SUMS and against the hashes in its events."""
    folder = sums.parent
    lines = (line.partition("  ") for line in sums.read_text().splitlines())
    listed = {name: digest for digest, _, name in lines if name}
    recorded = dict(_recorded_hashes(folder / "events.jsonl"))
    for name, digest in listed.items():
        file = folder / name
        if not file.is_file():
            yield _check(file, "sha256", False, "The file is missing.")
            continue
        actual = hashlib.sha256(file.read_bytes()).hexdigest()
        is_same = actual == digest
        yield _check(file, "sha256", is_same, actual[:16] if is_same else f"The SHA-256 is {actual[:16]}….")
        if name in recorded and recorded[name] != actual:
            yield _check(file, "event", False, f"{ArchivalEvent.name} recorded a different SHA-256.")
    for file in sorted(folder.glob("transcript-pre-compact-*.jsonl")):
        if file.name not in listed:
            yield _check(file, "sha256", False, f"The file is not listed in {SUMS}.")


def _recorded_hashes(events: Path) -> Iterator[tuple[str, str]]:
    """Yield the file name and the SHA-256 of each archival event."""
    if not events.is_file():
        return
    for line in events.read_text().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        properties = event.get("properties") or {}
        if event.get("event") == ArchivalEvent.name and properties.get("path") and properties.get("sha256"):
            yield Path(properties["path"]).name, properties["sha256"]
