"""The audit bundle: one archived step with everything needed to check it, offline, years later.

A ZIP of `transcript.jsonl`, `summary.json`, `plan.json`, `ledger.json`, `chain.json`, a `manifest.json` that names the
SHA-256 of each, and `manifest.sig`, the server's Ed25519 signature over the manifest's bytes. `verify` reads nothing
but the bundle and, if given, the public key it must be signed with; hostile bundles cost it bounded time and memory.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compact import ed25519
from compact.messages import canonical_json

__all__ = ["FORMAT", "Check", "Report", "link_hash", "pack", "parse_public_key", "verify"]

FORMAT = "ariadne-bundle/1"
CHAIN_VERSION = "ariadne-chain/1"
PARTS = ("transcript.jsonl", "summary.json", "plan.json", "ledger.json", "chain.json")
MAX_BYTES = 512 * 1024 * 1024
_LINK_FIELDS = ("project", "session", "position", "kind", "step", "time", "sha256", "manifest", "previous")
_README = """An audit bundle of Ariadne. Check it with: compactctl verify <this file> --key <the server's public key>
By hand: manifest.sig is the base64 Ed25519 signature of manifest.json, which names the SHA-256 of every other file.
"""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Report:
    """What a bundle turned out to be; `ok` when every check was."""

    checks: tuple[Check, ...]
    manifest: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return bool(self.checks) and all(check.ok for check in self.checks)


def pack(parts: Mapping[str, bytes], manifest: Mapping[str, Any], sign: Callable[[bytes], bytes]) -> bytes:
    """A bundle of `parts`. `sign` returns the 64 bytes of a signature over the manifest it is given."""
    if set(parts) != set(PARTS):
        raise ValueError(f"a bundle holds exactly {', '.join(PARTS)}")
    files = {name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)} for name, data in parts.items()}
    text = canonical_json({**manifest, "format": FORMAT, "files": files})
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("README.txt", _README)
        archive.writestr("manifest.json", text)
        archive.writestr("manifest.sig", base64.b64encode(sign(text)))
        for name in PARTS:
            archive.writestr(name, parts[name])
    return out.getvalue()


def verify(bundle: bytes | str | Path, *, public_key: str | bytes | None = None) -> Report:
    """Check a bundle. With `public_key` it must be that key's; without, only its own claim is checked."""
    try:
        source = io.BytesIO(bundle) if isinstance(bundle, bytes) else Path(bundle).open("rb")  # noqa: SIM115
    except OSError as error:
        return Report((Check("file", False, str(error)),))
    with source:
        try:
            files = _read(source)
            manifest = json.loads(files["manifest.json"])
            if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
                return Report((Check("format", False, f"this is not a bundle of format {FORMAT}"),))
            return Report(tuple(_checks(files, manifest, public_key)), manifest)
        except (zipfile.BadZipFile, _Unreadable, RecursionError, ValueError, KeyError, TypeError) as error:
            return Report((Check("format", False, f"the bundle cannot be read: {error}"),))


def parse_public_key(key: str | bytes) -> bytes:
    """32 bytes from base64, hex, PEM, or the JSON that the server publishes."""
    if isinstance(key, bytes):
        if len(key) == 32:
            return key
        key = key.decode("ascii", "replace")
    text = key.strip()
    if text.startswith("{"):
        text = str(json.loads(text)["public_key"])
    if text.startswith("-----BEGIN PUBLIC KEY-----"):
        der = base64.b64decode("".join(text.splitlines()[1:-1]))
        if len(der) != 44:
            raise ValueError("the PEM does not hold an Ed25519 public key")
        return der[12:]
    for decode in (bytes.fromhex, lambda t: base64.b64decode(t, validate=True)):
        try:
            raw = decode(text)
        except (ValueError, binascii.Error):
            continue
        if len(raw) == 32:
            return raw
    raise ValueError("a public key is 32 bytes, in base64, hex or PEM")


def link_hash(link: Mapping[str, Any]) -> str:
    """The hash that the next link of a chain must carry as `previous`."""
    fields = {name: link[name] for name in _LINK_FIELDS}
    return hashlib.sha256(canonical_json({"version": CHAIN_VERSION, **fields})).hexdigest()


class _Unreadable(Exception):
    """Not a bundle, or one made to do harm."""


def _read(source: Any) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    left = MAX_BYTES
    wanted = {"README.txt", "manifest.json", "manifest.sig", *PARTS}
    with zipfile.ZipFile(source) as archive:
        for entry in archive.infolist():
            if entry.filename not in wanted or entry.filename in files:
                raise _Unreadable(f"unexpected file {entry.filename!r}")
            # The directory may lie about sizes: read no more than is left, whatever it says.
            with archive.open(entry) as stream:
                data = stream.read(left + 1)
            if len(data) > left:
                raise _Unreadable(f"more than {MAX_BYTES:,} bytes unpacked")
            left -= len(data)
            files[entry.filename] = data
    return files


def _checks(files: Mapping[str, bytes], manifest: Mapping[str, Any], pinned: str | bytes | None) -> Iterator[Check]:
    yield _signature(files, manifest, pinned)
    yield _files(files, manifest)
    links: list[dict[str, Any]] = json.loads(files["chain.json"])["links"]
    yield _chain(links)
    own = [link for link in links if link["step"] == manifest["step"] and link["kind"] == "stored"]
    yield _membership(own, manifest)
    yield _transcript(files["transcript.jsonl"], own, manifest)


def _signature(files: Mapping[str, bytes], manifest: Mapping[str, Any], pinned: str | bytes | None) -> Check:
    claimed = parse_public_key(str(manifest["public_key"]))
    expected = claimed if pinned is None else parse_public_key(pinned)
    signature = base64.b64decode(files["manifest.sig"])
    if not ed25519.verify(expected, files["manifest.json"], signature):
        if expected != claimed and ed25519.verify(claimed, files["manifest.json"], signature):
            return Check("signature", False, "signed, but with another key than the one given")
        return Check("signature", False, "the signature does not fit the manifest")
    known = "the key given" if pinned is not None else "its own key; give --key to know whose that is"
    return Check("signature", True, f"signed with {known}")


def _files(files: Mapping[str, bytes], manifest: Mapping[str, Any]) -> Check:
    listed = manifest["files"]
    for name in PARTS:
        if name not in files or name not in listed:
            return Check("files", False, f"{name} is missing")
        if hashlib.sha256(files[name]).hexdigest() != listed[name]["sha256"]:
            return Check("files", False, f"{name} was changed")
    return Check("files", True, f"{len(PARTS)} files have the digests that were signed")


def _chain(links: list[dict[str, Any]]) -> Check:
    previous = ""
    for number, link in enumerate(links):
        if link["position"] != number or link["previous"] != previous:
            return Check("chain", False, f"link {number} does not follow the one before it")
        if link_hash(link) != link["chain"]:
            return Check("chain", False, f"link {number} (step {link['step']}) was changed")
        previous = link["chain"]
    return Check("chain", True, f"{len(links)} links follow one another")


def _membership(own: list[dict[str, Any]], manifest: Mapping[str, Any]) -> Check:
    archived = manifest["archived_sha256"]
    if [link["sha256"] for link in own] == [archived] and own[0]["session"] == manifest["session"]:
        return Check("step", True, f"step {manifest['step']} is in the chain, received {own[0]['time']}")
    return Check("step", False, f"step {manifest['step']} is not in the chain with the digest {archived}")


def _transcript(text: bytes, own: list[dict[str, Any]], manifest: Mapping[str, Any]) -> Check:
    count = text.count(b"\n")
    if count != own[0]["manifest"]["messages"] if own else True:
        return Check("transcript", False, f"{count} messages, not as many as were archived")
    if hashlib.sha256(text).hexdigest() == manifest["archived_sha256"]:
        return Check("transcript", True, f"{count} messages, exactly as archived")
    again = manifest.get("redacted_on_export")
    if again:
        rules = ", ".join(f"{rule} {number}" for rule, number in sorted(again.items()))
        return Check("transcript", True, f"{count} messages, archived text redacted further on export ({rules})")
    return Check("transcript", False, "the transcript is not the one that was archived")
