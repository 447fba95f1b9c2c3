"""Audit bundles: one archived step with everything needed to verify it offline.

A bundle is a ZIP of `transcript.jsonl`, `summary.json`, `plan.json`, `ledger.json` and `chain.json`, a `manifest.json`
with the SHA-256 of each, and `manifest.sig`, the server's Ed25519 signature of the manifest. `verify` reads only the
bundle and, if given, the expected public key. It needs bounded time and memory, even for a malicious bundle.
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

from compact.exceptions import CompactError
from compact.messages import canonical_json

__all__ = ["FORMAT", "Check", "Report", "link_hash", "pack", "parse_public_key", "verify"]

FORMAT = "ariadne-bundle/1"
CHAIN_VERSION = "ariadne-chain/1"
PARTS = ("transcript.jsonl", "summary.json", "plan.json", "ledger.json", "chain.json")
MAX_BYTES = 512 * 1024 * 1024
# The files that are parsed. The others are only hashed, in pieces.
_PARSED = {"manifest.json", "manifest.sig", "chain.json"}
_MAX_PARSED_BYTES = 16 * 1024 * 1024
_PIECE_BYTES = 1024 * 1024
_LINK_FIELDS = ("project", "session", "position", "kind", "step", "time", "sha256", "manifest", "previous")
_README = """This is an Ariadne audit bundle. Verify it: compactctl verify <this file> --key <the server's public key>
To verify it without compactctl: manifest.sig is the base64 Ed25519 signature of manifest.json, and manifest.json
lists the SHA-256 of every other file.
"""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Report:
    """The results of all checks of a bundle."""

    checks: tuple[Check, ...]
    manifest: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True if every check passed."""
        return bool(self.checks) and all(check.ok for check in self.checks)


def pack(parts: Mapping[str, bytes], manifest: Mapping[str, Any], sign: Callable[[bytes], bytes]) -> bytes:
    """Return a bundle of `parts`. `sign` returns the 64-byte signature of the manifest it receives."""
    if set(parts) != set(PARTS):
        raise ValueError(f"A bundle must contain exactly {', '.join(PARTS)}.")
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
    """Verify a bundle. Without `public_key`, the signature is checked only against the key in the bundle itself.

    Needs the package `cryptography` (`pip install 'compact-client[verify]'`).
    """
    try:
        source = io.BytesIO(bundle) if isinstance(bundle, bytes) else Path(bundle).open("rb")  # noqa: SIM115
    except OSError as error:
        return Report((Check("file", False, str(error)),))
    with source:
        try:
            files = _read(source)
            manifest = json.loads(files["manifest.json"].data)
            if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
                return Report((Check("format", False, f"Not a bundle in the format {FORMAT}."),))
            return Report(tuple(_checks(files, manifest, public_key)), manifest)
        except (zipfile.BadZipFile, _UnreadableBundle, RecursionError, ValueError, KeyError, TypeError) as error:
            return Report((Check("format", False, f"Cannot read the bundle: {error}"),))


def parse_public_key(key: str | bytes) -> bytes:
    """Return the 32 bytes of a key in base64, hex, PEM, or the JSON that the server publishes."""
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
            raise ValueError(f"The PEM contains {len(der)} bytes. An Ed25519 public key has 44.")
        return der[12:]
    for decode in (bytes.fromhex, lambda encoded: base64.b64decode(encoded, validate=True)):
        try:
            raw = decode(text)
        except (ValueError, binascii.Error):
            continue
        if len(raw) == 32:
            return raw
    raise ValueError("Not a public key. Expected 32 bytes in base64, hex or PEM.")


def link_hash(link: Mapping[str, Any]) -> str:
    """Return the hash that the next link of a chain must contain as `previous`."""
    fields = {name: link[name] for name in _LINK_FIELDS}
    return hashlib.sha256(canonical_json({"version": CHAIN_VERSION, **fields})).hexdigest()


class _UnreadableBundle(Exception):
    """The file is not a bundle, or a malicious one."""


@dataclass(frozen=True, slots=True)
class _File:
    """The facts of a file that the checks need. `data` is empty unless the file is parsed."""

    sha256: str
    line_count: int
    data: bytes


def _read(source: Any) -> dict[str, _File]:
    files: dict[str, _File] = {}
    remaining = MAX_BYTES
    allowed = {"README.txt", "manifest.json", "manifest.sig", *PARTS}
    with zipfile.ZipFile(source) as archive:
        for entry in archive.infolist():
            if entry.filename not in allowed or entry.filename in files:
                raise _UnreadableBundle(f"unexpected file {entry.filename!r}")
            with archive.open(entry) as stream:
                files[entry.filename], size = _read_file(stream, entry.filename, remaining)
            remaining -= size
    return files


def _read_file(stream: Any, name: str, max_bytes: int) -> tuple[_File, int]:
    """Return a file and its size. The sizes in the ZIP directory can be false, so limit what is actually read."""
    digest, line_count, size, data = hashlib.sha256(), 0, 0, bytearray()
    while piece := stream.read(_PIECE_BYTES):
        size += len(piece)
        if size > max_bytes:
            raise _UnreadableBundle(f"it has more than {MAX_BYTES:,} bytes when unpacked")
        if name in _PARSED:
            if size > _MAX_PARSED_BYTES:
                raise _UnreadableBundle(f"{name} has more than {_MAX_PARSED_BYTES:,} bytes")
            data += piece
        digest.update(piece)
        line_count += piece.count(b"\n")
    return _File(digest.hexdigest(), line_count, bytes(data)), size


def _checks(files: Mapping[str, _File], manifest: Mapping[str, Any], pinned: str | bytes | None) -> Iterator[Check]:
    yield _check_signature(files, manifest, pinned)
    yield _check_files(files, manifest)
    links: list[dict[str, Any]] = json.loads(files["chain.json"].data)["links"]
    yield _check_chain(links)
    step_links = [link for link in links if link["step"] == manifest["step"] and link["kind"] == "stored"]
    yield _check_step(step_links, manifest)
    yield _check_transcript(files["transcript.jsonl"], step_links, manifest)


def _check_signature(files: Mapping[str, _File], manifest: Mapping[str, Any], pinned: str | bytes | None) -> Check:
    own_key = parse_public_key(str(manifest["public_key"]))
    key = own_key if pinned is None else parse_public_key(pinned)
    text, signature = files["manifest.json"].data, base64.b64decode(files["manifest.sig"].data)
    if _is_signed_by(key, text, signature):
        source = "the given key" if pinned is not None else "the key in the bundle. Use --key to check whose key it is"
        return Check("signature", True, f"Signed with {source}.")
    if key != own_key and _is_signed_by(own_key, text, signature):
        return Check("signature", False, "Signed with a different key than the given one.")
    return Check("signature", False, "The signature does not match the manifest.")


def _is_signed_by(key: bytes, message: bytes, signature: bytes) -> bool:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        raise CompactError(
            "Verifying a signature needs the package cryptography: pip install 'compact-client[verify]'"
        ) from None
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def _check_files(files: Mapping[str, _File], manifest: Mapping[str, Any]) -> Check:
    listed = manifest["files"]
    for name in PARTS:
        if name not in files or name not in listed:
            return Check("files", False, f"{name} is missing.")
        if files[name].sha256 != listed[name]["sha256"]:
            return Check("files", False, f"{name} was changed after signing.")
    return Check("files", True, f"{len(PARTS)} files match the manifest.")


def _check_chain(links: list[dict[str, Any]]) -> Check:
    previous = ""
    for number, link in enumerate(links):
        if link["position"] != number or link["previous"] != previous:
            return Check("chain", False, f"Link {number} does not follow the previous one.")
        if link_hash(link) != link["chain"]:
            return Check("chain", False, f"Link {number} (step {link['step']}) was changed.")
        previous = link["chain"]
    return Check("chain", True, f"{len(links)} links are unbroken.")


def _check_step(step_links: list[dict[str, Any]], manifest: Mapping[str, Any]) -> Check:
    archived = manifest["archived_sha256"]
    if [link["sha256"] for link in step_links] == [archived] and step_links[0]["session"] == manifest["session"]:
        return Check("step", True, f"Step {manifest['step']} is in the chain, received {step_links[0]['time']}.")
    return Check("step", False, f"Step {manifest['step']} is not in the chain with the SHA-256 {archived}.")


def _check_transcript(transcript: _File, step_links: list[dict[str, Any]], manifest: Mapping[str, Any]) -> Check:
    count = transcript.line_count
    if not step_links or count != step_links[0]["manifest"]["messages"]:
        return Check("transcript", False, f"{count} messages, which is not the number that was archived.")
    if transcript.sha256 == manifest["archived_sha256"]:
        return Check("transcript", True, f"{count} messages, identical to the archived transcript.")
    redactions = manifest.get("redacted_on_export")
    if redactions:
        rules = ", ".join(f"{rule} {number}" for rule, number in sorted(redactions.items()))
        return Check("transcript", True, f"{count} messages, with further redactions on export ({rules}).")
    return Check("transcript", False, "The transcript differs from the archived one.")
