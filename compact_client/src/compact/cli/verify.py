"""verify and config: does what is stored match its hash, do the settings make sense."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compact import bundle
from compact.adapters.fs import SUMS
from compact.cli import exit_codes, extras, output
from compact.exceptions import ConfigError


def verify(options: argparse.Namespace) -> int:
    checks: list[dict[str, Any]] = []
    key = _key(options.key)
    for name in options.paths:
        path = Path(name)
        if path.is_dir():
            found = list(_archive(path))
            checks += found or [_check(path, "archive", False, f"no {SUMS} below this directory")]
        elif path.suffix == ".zip" or path.is_file():
            extras.require("cryptography", extra="verify")
            report = bundle.verify(path, public_key=key)
            checks += [_check(path, check.name, check.ok, check.detail) for check in report.checks]
        else:
            raise exit_codes.Stop(exit_codes.UNREADABLE, f"{path} does not exist")
    is_good = all(check["ok"] for check in checks)
    if options.json:
        output.document({"ok": is_good, "checks": checks})
    else:
        rows = [
            (
                output.styled("ok", "green") if c["ok"] else output.styled("WRONG", "bold red"),
                c["check"],
                c["path"],
                c["detail"],
            )
            for c in checks
        ]
        output.table("", ("", "check", "path", "detail"), rows)
    return exit_codes.OK if is_good else exit_codes.FAILED


def _check(path: Path, name: str, ok: bool, detail: str) -> dict[str, Any]:
    return {"path": str(path), "check": name, "ok": ok, "detail": detail}


def _archive(root: Path) -> Iterator[dict[str, Any]]:
    """Every file against SHA256SUMS, and against what the events of the session said when it was archived."""
    for sums in sorted(root.rglob(SUMS)):
        folder = sums.parent
        listed = (line.partition("  ") for line in sums.read_text().splitlines())
        known = {name: digest for digest, _, name in listed if name}
        claimed = dict(_claims(folder / "events.jsonl"))
        for name, digest in known.items():
            file = folder / name
            if not file.is_file():
                yield _check(file, "sha256", False, "the file is missing")
                continue
            actual = hashlib.sha256(file.read_bytes()).hexdigest()
            yield _check(file, "sha256", actual == digest, actual[:16] if actual == digest else f"is {actual[:16]}…")
            if name in claimed and claimed[name] != actual:
                yield _check(file, "event", False, "compact.archival recorded another hash")
        for file in sorted(folder.glob("transcript-pre-compact-*.jsonl")):
            if file.name not in known:
                yield _check(file, "sha256", False, f"not listed in {SUMS}")


def _claims(events: Path) -> Iterator[tuple[str, str]]:
    if not events.is_file():
        return
    for line in events.read_text().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        properties = event.get("properties") or {}
        if event.get("event") == "compact.archival" and properties.get("path") and properties.get("sha256"):
            yield Path(properties["path"]).name, properties["sha256"]


def _key(given: str | None) -> str | None:
    if given and Path(given).is_file():
        return Path(given).read_text().strip()
    return given


def config(options: argparse.Namespace) -> int:
    from compact.config.factory import build
    from compact.config.settings import paths, resolve, unknown_variables, value_at, variable_of

    strangers = unknown_variables(os.environ)
    try:
        resolved = resolve(options.config or options.file)
        if options.action == "check":
            build(resolved.settings)
    except ConfigError as error:
        if options.json:
            output.document({"ok": False, "problems": str(error).splitlines(), "unknown_variables": strangers})
            return exit_codes.FAILED
        raise
    rows = [
        (path, _shown(value_at(resolved.settings, path)), resolved.sources.get(path, "default"), variable_of(path))
        for path, _, _ in paths()
    ]
    if options.json:
        names = ("setting", "value", "source", "variable")
        listed = [dict(zip(names, row, strict=True)) for row in rows]
        output.document({"ok": True, "unknown_variables": strangers, "settings": listed})
    elif options.action == "show":
        output.table("", ("setting", "value", "from", "variable"), rows)
    else:
        output.console().print("the settings are fine", style="green")
    if strangers and not options.json:
        output.console(to_stderr=True).print(f"no setting is called {', '.join(strangers)}", style="yellow")
    return exit_codes.OK


def _shown(value: Any) -> str:
    # A secret shows as asterisks: pydantic's own text for it.
    return ", ".join(map(str, value)) if isinstance(value, tuple) else "–" if value is None else str(value)
