"""A bundle checks out as it was signed, and in no other state."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from compact import bundle, ed25519

SEED = b"a seed of thirty-two bytes, fine"


def _halves(seed: bytes) -> tuple[int, bytes]:
    digest = hashlib.sha512(seed).digest()
    scalar = int.from_bytes(digest[:32], "little") & ((1 << 254) - 8) | (1 << 254)
    return scalar, digest[32:]


def _compress(point: ed25519.Point) -> bytes:
    inverse = pow(point[2], ed25519._P - 2, ed25519._P)
    x, y = point[0] * inverse % ed25519._P, point[1] * inverse % ed25519._P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def public_key(seed: bytes = SEED) -> bytes:
    return _compress(ed25519._times(_halves(seed)[0], ed25519._BASE))


def signer(seed: bytes = SEED) -> Callable[[bytes], bytes]:
    """RFC 8032 signing, so that these tests need no library that the client does not."""

    def sign(message: bytes) -> bytes:
        scalar, prefix = _halves(seed)
        nonce = int.from_bytes(hashlib.sha512(prefix + message).digest(), "little") % ed25519._ORDER
        point = _compress(ed25519._times(nonce, ed25519._BASE))
        challenge = int.from_bytes(hashlib.sha512(point + public_key(seed) + message).digest(), "little")
        return point + ((nonce + challenge * scalar) % ed25519._ORDER).to_bytes(32, "little")

    return sign


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


def packed(*, transcript: bytes = TRANSCRIPT, chain: list[dict[str, Any]] | None = None, **changes: Any) -> bytes:
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
        "public_key": base64.b64encode(public_key()).decode(),
    }
    return bundle.pack(parts, {**manifest, **changes}, signer())


def rewritten(data: bytes, **changes: bytes) -> bytes:
    """The same ZIP with some members replaced."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, changes.get(name.replace(".", "_"), old.read(name)))
    return out.getvalue()


def failed(data: bytes, **options: Any) -> list[str]:
    report = bundle.verify(data, **options)
    assert not report.ok
    return [check.name for check in report.checks if not check.ok]


@pytest.mark.req("K-UI-3")
def test_an_untouched_bundle_checks_out(tmp_path):
    """From bytes and from a file, with the key in any spelling."""
    data = packed()
    file = tmp_path / "b.zip"
    file.write_bytes(data)
    key = public_key()
    pem = base64.b64encode(bytes.fromhex("302a300506032b6570032100") + key).decode()
    spellings = [
        key,
        key.hex(),
        base64.b64encode(key).decode(),
        f"-----BEGIN PUBLIC KEY-----\n{pem}\n-----END PUBLIC KEY-----\n",
        json.dumps({"public_key": base64.b64encode(key).decode()}),
    ]
    for spelling in spellings:
        assert bundle.verify(file, public_key=spelling).ok
    report = bundle.verify(data)
    assert report.ok and report.manifest["step"] == 2
    assert [check.name for check in report.checks] == ["signature", "files", "chain", "step", "transcript"]


@pytest.mark.req("K-UI-3")
def test_any_change_is_found():
    """Of a file, of the manifest, of the signature, of the chain, of the key."""
    data = packed()
    assert "files" in failed(rewritten(data, transcript_jsonl=TRANSCRIPT.replace(b"hello", b"hallo")))
    assert "files" in failed(rewritten(data, summary_json=b'{"summary":"other"}'))
    manifest = zipfile.ZipFile(io.BytesIO(data)).read("manifest.json")
    assert "signature" in failed(rewritten(data, manifest_json=manifest.replace(b'"step":2', b'"step":1')))
    assert "signature" in failed(rewritten(data, manifest_sig=base64.b64encode(bytes(64))))
    assert failed(data, public_key=public_key(b"another seed of thirty-two bytes")) == ["signature"]


@pytest.mark.req("K-UI-3")
def test_a_signed_lie_about_the_chain_is_found_too():
    """Even the server cannot sign a chain that does not hold."""
    chain = links()
    assert "chain" in failed(packed(chain=list(reversed(chain))))
    assert "chain" in failed(packed(chain=[{**chain[0], "time": "2020"}, chain[1]]))
    assert "chain" in failed(packed(chain=chain[1:]))
    assert "step" in failed(packed(chain=chain[:1]))
    assert "transcript" in failed(packed(transcript=TRANSCRIPT.replace(b"hello", b"other")))
    assert "transcript" in failed(packed(transcript=TRANSCRIPT * 2, redacted_on_export={"email": 1}))


def test_a_transcript_redacted_further_on_export_says_so():
    """Its digest differs from the archived one; the signed manifest says why."""
    report = bundle.verify(
        packed(transcript=TRANSCRIPT.replace(b"hello", b"<REDACTED>"), redacted_on_export={"email": 1})
    )
    assert report.ok and "email 1" in report.checks[-1].detail


def test_hostile_bundles_are_refused_in_bounded_memory(monkeypatch):
    """A bomb, a path that climbs, a second manifest, and things that are no bundle at all."""
    monkeypatch.setattr(bundle, "MAX_BYTES", 100_000)
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("transcript.jsonl", b"0" * 5_000_000)
    climbing = io.BytesIO()
    with zipfile.ZipFile(climbing, "w") as archive:
        archive.writestr("../../etc/passwd", b"root")
    assert "bytes unpacked" in bundle.verify(bomb.getvalue()).checks[0].detail
    assert "unexpected file" in bundle.verify(climbing.getvalue()).checks[0].detail
    nothing = rewritten(packed(), manifest_json=b"{}"), rewritten(packed(), manifest_json=b"[" * 50_000)
    for data in (b"", b"PK", b"{}", packed()[:-30], *nothing):
        report = bundle.verify(data)
        assert not report.ok and report.checks[0].name == "format"
    assert not bundle.verify("no-such-file.zip").ok


@pytest.mark.parametrize("key", ["", "xyz", "00", "{}", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"])
def test_a_bad_public_key_is_said_to_be_one(key: str):
    """By an error at parsing, and by a failed report at verifying."""
    with pytest.raises((ValueError, KeyError)):
        bundle.parse_public_key(key)
    assert not bundle.verify(packed(), public_key=key).ok
