"""Audit bundles: an untouched bundle passes every check, and any change makes one fail."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import sys
import tracemalloc
import zipfile
from typing import Any

import pytest
from compact import CompactError, bundle
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEY = Ed25519PrivateKey.from_private_bytes(b"a seed of thirty-two bytes, fine")
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(b"another seed of thirty-two bytes")
PUBLIC_KEY = KEY.public_key().public_bytes_raw()


TRANSCRIPT = b'{"content":"hello","id":"m1","role":"user"}\n{"content":"hi","id":"m2","role":"assistant"}\n'


def links(count: int = 2) -> list[dict[str, Any]]:
    chain: list[dict[str, Any]] = []
    for position in range(count):
        link = {
            "project": 1,
            "session": "s",
            "position": position,
            "kind": "stored",
            "step": position + 1,
            "time": "2026-01-01T00:00:00.000000Z",
            "sha256": hashlib.sha256(TRANSCRIPT).hexdigest() if position == 1 else "0" * 64,
            "manifest": {"messages": 2, "redactions": {}},
            "previous": chain[-1]["chain"] if chain else "",
        }
        chain.append({**link, "chain": bundle.link_hash(link)})
    return chain


def make_bundle(*, transcript: bytes = TRANSCRIPT, chain: list[dict[str, Any]] | None = None, **changes: Any) -> bytes:
    parts = {
        "transcript.jsonl": transcript,
        "summary.json": b"{}",
        "plan.json": b"{}",
        "ledger.json": b"[]",
        "chain.json": json.dumps({"links": links() if chain is None else chain}).encode(),
    }
    manifest = {
        "session": "s",
        "step": 2,
        "archived_sha256": hashlib.sha256(TRANSCRIPT).hexdigest(),
        "public_key": base64.b64encode(PUBLIC_KEY).decode(),
    }
    return bundle.pack(parts, {**manifest, **changes}, KEY.sign)


def replace_files(data: bytes, **changes: bytes) -> bytes:
    """Return the same ZIP with some files replaced."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, changes.get(name.replace(".", "_"), old.read(name)))
    return out.getvalue()


def failed_checks(data: bytes, **options: Any) -> list[str]:
    report = bundle.verify(data, **options)
    assert not report.ok
    return [check.name for check in report.checks if not check.ok]


@pytest.mark.req("K-UI-3")
def test_an_untouched_bundle_passes_every_check(tmp_path):
    """Works for bytes and for a file, with the key in any encoding."""
    data = make_bundle()
    file = tmp_path / "b.zip"
    file.write_bytes(data)
    key = PUBLIC_KEY
    pem = base64.b64encode(bytes.fromhex("302a300506032b6570032100") + key).decode()
    encodings = [
        key,
        key.hex(),
        base64.b64encode(key).decode(),
        f"-----BEGIN PUBLIC KEY-----\n{pem}\n-----END PUBLIC KEY-----\n",
        json.dumps({"public_key": base64.b64encode(key).decode()}),
    ]
    for encoding in encodings:
        assert bundle.verify(file, public_key=encoding).ok
    report = bundle.verify(data)
    assert report.ok and report.manifest["step"] == 2
    assert [check.name for check in report.checks] == ["signature", "files", "chain", "step", "transcript"]


@pytest.mark.req("K-UI-3")
def test_any_change_fails_a_check():
    """A changed file, manifest, signature or key is detected."""
    data = make_bundle()
    assert "files" in failed_checks(replace_files(data, transcript_jsonl=TRANSCRIPT.replace(b"hello", b"hallo")))
    assert "files" in failed_checks(replace_files(data, summary_json=b'{"summary":"other"}'))
    manifest = zipfile.ZipFile(io.BytesIO(data)).read("manifest.json")
    assert "signature" in failed_checks(replace_files(data, manifest_json=manifest.replace(b'"step":2', b'"step":1')))
    assert "signature" in failed_checks(replace_files(data, manifest_sig=base64.b64encode(bytes(64))))
    assert failed_checks(data, public_key=OTHER_KEY.public_key().public_bytes_raw()) == ["signature"]


@pytest.mark.req("K-UI-3")
def test_a_broken_chain_fails_even_if_it_is_signed():
    """The server's signature does not make an inconsistent chain valid."""
    chain = links()
    assert "chain" in failed_checks(make_bundle(chain=list(reversed(chain))))
    assert "chain" in failed_checks(make_bundle(chain=[{**chain[0], "time": "2020"}, chain[1]]))
    assert "chain" in failed_checks(make_bundle(chain=chain[1:]))
    assert "step" in failed_checks(make_bundle(chain=chain[:1]))
    assert "transcript" in failed_checks(make_bundle(transcript=TRANSCRIPT.replace(b"hello", b"other")))
    assert "transcript" in failed_checks(make_bundle(transcript=TRANSCRIPT * 2, redacted_on_export={"email": 1}))


def test_redactions_on_export_are_reported():
    """The transcript's SHA-256 differs from the archived one. The signed manifest lists the rules that caused it."""
    report = bundle.verify(
        make_bundle(transcript=TRANSCRIPT.replace(b"hello", b"<REDACTED>"), redacted_on_export={"email": 1})
    )
    assert report.ok and "email 1" in report.checks[-1].detail


def test_malicious_bundles_are_rejected_in_bounded_memory(monkeypatch):
    """Covers a ZIP bomb, a path outside the archive, an invalid manifest, and files that are not bundles."""
    monkeypatch.setattr(bundle, "MAX_BYTES", 100_000)
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("transcript.jsonl", b"0" * 5_000_000)
    traversal = io.BytesIO()
    with zipfile.ZipFile(traversal, "w") as archive:
        archive.writestr("../../etc/passwd", b"root")
    assert "100,000 bytes when unpacked" in bundle.verify(bomb.getvalue()).checks[0].detail
    assert "unexpected file" in bundle.verify(traversal.getvalue()).checks[0].detail
    invalid = (
        replace_files(make_bundle(), manifest_json=b"{}"),
        replace_files(make_bundle(), manifest_json=b"[" * 50_000),
    )
    for data in (b"", b"PK", b"{}", make_bundle()[:-30], *invalid):
        report = bundle.verify(data)
        assert not report.ok and report.checks[0].name == "format"
    assert not bundle.verify("no-such-file.zip").ok


@pytest.mark.parametrize("name", ["transcript.jsonl", "chain.json"])
def test_a_large_file_is_not_read_into_memory(tmp_path, name: str):
    """Files of any size are hashed in pieces. Those that are parsed have a limit of their own."""
    line = b'{"content":"' + b"x" * 999_985 + b'"}\n'
    text = line * 100
    file = tmp_path / "large.zip"
    if name == "transcript.jsonl":
        digest = hashlib.sha256(text).hexdigest()
        chain = [{**links(1)[0], "sha256": digest, "manifest": {"messages": 100, "redactions": {}}}]
        chain[0]["chain"] = bundle.link_hash(chain[0])
        file.write_bytes(make_bundle(transcript=text, chain=chain, step=1, archived_sha256=digest))
    else:
        file.write_bytes(replace_files(make_bundle(), chain_json=text))
    del text
    tracemalloc.start()
    try:
        report = bundle.verify(file)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 40_000_000
    assert report.ok == (name == "transcript.jsonl"), report.checks
    assert report.ok or "chain.json has more than 16,777,216 bytes" in report.checks[0].detail


@pytest.mark.parametrize("key", ["", "xyz", "00", "{}", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"])
def test_an_invalid_public_key_is_reported(key: str):
    """Parsing raises, and a report with this key is not ok."""
    with pytest.raises((ValueError, KeyError)):
        bundle.parse_public_key(key)
    assert not bundle.verify(make_bundle(), public_key=key).ok


def test_a_missing_cryptography_package_is_reported(monkeypatch):
    """The error says which extra to install."""
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(CompactError, match=r"pip install 'compact-client\[verify\]'"):
        bundle.verify(make_bundle())
