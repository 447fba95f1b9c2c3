"""doctor: is everything here, does it work, and if not, what to do."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from compact.cli import exit_codes, output
from compact.delivery.endpoint import server_url, spool_directory, without_credentials
from compact.exceptions import ConfigError

_EXTRAS = {
    "agents": "agents", "langchain": "langchain", "pydantic_ai": "pydantic-ai", "anthropic": "anthropic",
    "opentelemetry.sdk": "otlp", "boto3": "s3", "rich": "cli", "websockets": "cli",
    "ahocorasick_rs": "fast", "cryptography": "verify",
}  # fmt: skip
Finding = tuple[str, str, str]


def doctor(options: argparse.Namespace) -> int:
    findings = [*_python(), *_tokens(), *_settings(options), *_spool(options), *_server(options)]
    is_good = not any(state == "problem" for _, state, _ in findings)
    if options.json:
        named = [dict(zip(("what", "state", "detail"), finding, strict=True)) for finding in findings]
        output.document({"ok": is_good, "findings": named})
    else:
        colors = {"ok": "green", "missing": "dim", "note": "yellow", "problem": "bold red"}
        rows = [(output.styled(state, colors[state]), what, detail) for what, state, detail in findings]
        output.table("", ("", "what", "detail"), rows)
    return exit_codes.OK if is_good else exit_codes.FAILED


def _python() -> Iterator[Finding]:
    try:
        own = version("compact-client")
    except PackageNotFoundError:
        own = "from a source tree"
    yield "compact-client", "ok", f"{own}, Python {sys.version.split()[0]}"
    for module, extra in _EXTRAS.items():
        is_there = find_spec(module.split(".", maxsplit=1)[0]) is not None and find_spec(module) is not None
        note = "installed" if is_there else f"pip install 'compact-client[{extra}]' to use it"
        yield module, "ok" if is_there else "missing", note


def _tokens() -> Iterator[Finding]:
    from compact.estimators import TiktokenEstimator
    from compact.messages import Message

    try:
        counted = TiktokenEstimator().estimate([Message("user", "hello")], "gpt-5")
    except Exception as error:
        yield "token counting", "problem", f"{type(error).__name__}: {error}"
    else:
        yield "token counting", "ok", f"works without a network ({counted} tokens for one hello)"


def _settings(options: argparse.Namespace) -> Iterator[Finding]:
    from compact.config.settings import resolve, unknown_variables

    try:
        resolved = resolve(options.config)
    except ConfigError as error:
        yield "settings", "problem", str(error)
        return
    places = sorted({source.split(" ", maxsplit=1)[0] for source in resolved.sources.values()}) or ["defaults"]
    yield "settings", "ok", f"from {', '.join(places)}"
    for name in unknown_variables(os.environ):
        yield name, "note", "sets nothing: mistyped?"
    if not resolved.settings.redaction.enabled:
        yield "redaction", "note", "switched off: secrets leave this process"
    if resolved.settings.storage.adapter == "fs":
        parent = next(p for p in Path(resolved.settings.storage.path).absolute().parents if p.exists())
        is_writable = os.access(parent, os.W_OK)
        yield "archive", "ok" if is_writable else "problem", f"{resolved.settings.storage.path} below {parent}"


def _spool(options: argparse.Namespace) -> Iterator[Finding]:
    folder = spool_directory("", server_url(options.url, "/ingest"))
    waiting = list(folder.glob("*.spool")) if folder is not None and folder.is_dir() else []
    size = sum(file.stat().st_size for file in waiting)
    if size:
        yield "spool", "note", f"{size:,} bytes wait in {folder} for the server; the next process sends them"
    else:
        yield "spool", "ok", "nothing waits"


def _server(options: argparse.Namespace) -> Iterator[Finding]:
    import httpx

    url = server_url(options.url, "")
    shown = without_credentials(url)
    try:
        ready = httpx.get(f"{url}/readyz", timeout=2.0)
    except httpx.HTTPError as error:
        yield "server", "note", f"{shown} cannot be reached ({type(error).__name__}); events would wait on disk"
        return
    yield "server", "ok" if ready.status_code == 200 else "problem", f"{shown}/readyz answers {ready.status_code}"
    key = options.key or os.environ.get("ARIADNE_API_KEY")
    if not key:
        yield "ingest key", "note", "none: set ARIADNE_API_KEY"
        return
    yield _ingest(httpx, url, key)


def _ingest(httpx: Any, url: str, key: str) -> Finding:
    try:
        # An empty batch stores nothing, and a wrong key is refused before it is read.
        answer = httpx.post(
            f"{url}/ingest", json={"batch": []}, headers={"Authorization": f"Bearer {key}"}, timeout=2.0
        )
    except httpx.HTTPError as error:
        return "ingest key", "problem", f"{type(error).__name__}"
    if answer.status_code in (401, 403):
        return "ingest key", "problem", f"refused ({answer.status_code}): make a new one in the server"
    return "ingest key", "ok", "the server takes it"
