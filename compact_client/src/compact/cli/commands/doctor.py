"""The doctor command: check the installation, the settings and the connection to the server."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx

from compact.cli import exit_codes, output
from compact.config.sources import resolve, unknown_variables
from compact.delivery.endpoint import server_url, spool_directory, without_credentials
from compact.estimators import TiktokenEstimator
from compact.exceptions import ConfigError
from compact.messages import Message

# Optional modules and the extra that installs each.
_EXTRAS = {
    "agents": "agents", "langchain": "langchain", "langgraph": "langgraph", "pydantic_ai": "pydantic-ai",
    "anthropic": "anthropic",
    "opentelemetry.sdk": "otlp", "boto3": "s3", "rich": "cli", "websockets": "cli", "shtab": "cli",
    "re2": "patterns", "cryptography": "verify",
}  # fmt: skip
_COLORS = {"ok": "green", "missing": "dim", "note": "yellow", "problem": "bold red"}
_TIMEOUT_S = 2.0
_MAX_SKEW_S = 5.0

# Subject, state and detail.
Finding = tuple[str, str, str]


def doctor(options: argparse.Namespace) -> int:
    """Run every check and print one row per finding."""
    findings = [
        *_check_packages(),
        *_check_token_counting(),
        *_check_settings(options.config),
        *_check_spool(options.url),
        *_check_server(options.url, options.key),
    ]
    is_ok = not any(state == "problem" for _, state, _ in findings)
    if options.json:
        rows = [dict(zip(("what", "state", "detail"), finding, strict=True)) for finding in findings]
        output.document({"ok": is_ok, "findings": rows})
    elif output.has_tables():
        cells = [(output.style(state, _COLORS[state]), subject, detail) for subject, state, detail in findings]
        output.table("", ("", "what", "detail"), cells)
    else:
        # Doctor reports missing packages, so it must not need one.
        for subject, state, detail in findings:
            sys.stdout.write(f"{state:<8} {subject}: {detail}\n")
    return exit_codes.OK if is_ok else exit_codes.FAILED


def _check_packages() -> Iterator[Finding]:
    try:
        own_version = version("compact-client")
    except PackageNotFoundError:
        own_version = "source tree"
    yield "compact-client", "ok", f"{own_version}, Python {sys.version.split()[0]}"
    for module, extra in _EXTRAS.items():
        # find_spec imports the parent of a dotted name, so look for the parent first.
        if find_spec(module.partition(".")[0]) is not None and find_spec(module) is not None:
            yield module, "ok", "installed"
        else:
            yield module, "missing", f"optional: pip install 'compact-client[{extra}]'"


def _check_token_counting() -> Iterator[Finding]:
    try:
        tokens = TiktokenEstimator().estimate([Message("user", "hello")], "gpt-5")
    except Exception as error:
        yield "token counting", "problem", f"{type(error).__name__}: {error}"
    else:
        yield "token counting", "ok", f"works offline ({tokens} tokens for a one-word message)"


def _check_settings(path: str | None) -> Iterator[Finding]:
    try:
        resolved = resolve(path)
    except ConfigError as error:
        yield "settings", "problem", str(error)
        return
    sources = sorted({source.partition(" ")[0] for source in resolved.sources.values()}) or ["defaults"]
    yield "settings", "ok", f"from {', '.join(sources)}"
    for name, message in unknown_variables(os.environ):
        yield name, "note", message
    if not resolved.settings.redaction.enabled:
        yield "redaction", "note", "disabled: secrets are sent to the exporter and the archive"
    if resolved.settings.storage.adapter == "fs":
        folder = Path(resolved.settings.storage.path)
        parent = next(parent for parent in folder.absolute().parents if parent.exists())
        is_writable = os.access(parent, os.W_OK)
        detail = f"{folder} in {parent}" if is_writable else f"no permission to write {folder} in {parent}"
        yield "archive", "ok" if is_writable else "problem", detail


def _check_spool(url: str | None) -> Iterator[Finding]:
    folder = spool_directory("", server_url(url, "/ingest"))
    files = list(folder.glob("*.spool")) if folder is not None and folder.is_dir() else []
    size = sum(file.stat().st_size for file in files)
    if size:
        yield "spool", "note", f"{size:,} bytes of unsent events in {folder}. The next process sends them."
    else:
        yield "spool", "ok", "no unsent events"


def _check_server(given_url: str | None, given_key: str | None) -> Iterator[Finding]:
    url = server_url(given_url, "")
    address = without_credentials(url)
    try:
        response = httpx.get(f"{url}/readyz", timeout=_TIMEOUT_S)
    except httpx.HTTPError as error:
        yield "server", "problem", f"{address} is unreachable: {_explain(error)} Events are kept on disk."
        return
    readiness = _readiness(response)
    status = response.status_code
    if readiness is None:
        yield (
            "server",
            "problem",
            f"{address}/readyz returned {status}, but not from an Ariadne server. Events are kept on disk. "
            "Set ARIADNE_URL to the address that opens the Ariadne pages, without a path.",
        )
        return
    if status == 200:
        yield "server", "ok", f"{address} is ready, version {readiness.get('version', 'unknown')}"
    else:
        failing = [name for name in ("database", "channel_layer") if readiness.get(name) != "ok"]
        yield "server", "problem", f"{address} is not ready ({', '.join(failing)}). Events are kept on disk."
    yield from _check_clock(readiness.get("time"))
    key = given_key or os.environ.get("ARIADNE_API_KEY")
    if key:
        yield _check_key(url, key)
    else:
        yield "ingest key", "note", "not set. Set ARIADNE_API_KEY or use --key."


def _explain(error: httpx.HTTPError) -> str:
    """Return the reason of a failed connection and what to do about it."""
    text = str(error).lower()
    if isinstance(error, httpx.TimeoutException):
        return f"no answer within {_TIMEOUT_S:.0f} s. Check firewalls and proxies."
    if "name or service not known" in text or "getaddrinfo" in text or "name resolution" in text:
        return "the host name cannot be resolved. Check the spelling of ARIADNE_URL."
    if "certificate" in text or "ssl" in text:
        return f"the TLS connection failed ({error}). Check http:// or https:// and the certificate."
    if "refused" in text:
        return "nothing listens there. Start the server with `make up`, or check the port."
    return f"{type(error).__name__}."


def _readiness(response: httpx.Response) -> dict[str, Any] | None:
    """Return the body of `/readyz`, or None if another kind of server answered."""
    try:
        body = response.json()
    except ValueError:
        return None
    return body if isinstance(body, dict) and "ready" in body else None


def _check_clock(server_time: object) -> Iterator[Finding]:
    """Compare the clocks. A large difference puts events at the wrong place of the timeline."""
    try:
        skew_s = (datetime.now(UTC) - datetime.fromisoformat(str(server_time))).total_seconds()
    except (TypeError, ValueError):
        return
    if abs(skew_s) > _MAX_SKEW_S:
        direction = "ahead of" if skew_s > 0 else "behind"
        detail = f"this machine is {abs(skew_s):,.0f} s {direction} the server. Synchronize the clocks."
        yield "clock", "problem", detail
    else:
        yield "clock", "ok", f"agrees with the server within {_MAX_SKEW_S:.0f} s"


def _check_key(url: str, key: str) -> Finding:
    headers = {"Authorization": f"Bearer {key}"}
    try:
        # An empty batch stores nothing, and the server checks the key before it reads the batch.
        response = httpx.post(f"{url}/ingest", json={"batch": []}, headers=headers, timeout=_TIMEOUT_S)
    except httpx.HTTPError as error:
        return "ingest key", "problem", f"the request failed: {_explain(error)}"
    if response.status_code in (401, 403):
        return (
            "ingest key",
            "problem",
            f"{key[:8]}… was rejected ({response.status_code}). It is revoked, or of another server, or an API token. "
            f"Create an ingest key at {without_credentials(url)}/keys/.",
        )
    return "ingest key", "ok", f"{key[:8]}… is accepted by the server"
