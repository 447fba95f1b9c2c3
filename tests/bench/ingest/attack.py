"""Bodies that are as expensive as possible, for tests and the attack benchmark."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass

_SPAN = b'{"type":"span","trace_id":"t","span_id":"s","data":{"a":'


@dataclass(frozen=True)
class Attack:
    """A request: where it goes, and a body of about the given size."""

    name: str
    make: Callable[[int], bytes]
    path: str = "/ingest"
    content_type: str = "application/json"
    encoding: str = ""


def _text(unit: str) -> Callable[[int], bytes]:
    encoded = unit.encode()
    return lambda size: _SPAN + b'"' + encoded * (size // len(encoded)) + b'"}}'


def _repeat(head: bytes, unit: bytes, tail: bytes = b"") -> Callable[[int], bytes]:
    return lambda size: head + unit * (size // len(unit)) + tail


ATTACKS = [
    Attack("escaped quotes without an end", _repeat(b'{"a":"', b'\\"')),
    Attack("opening brackets", _repeat(b"", b"[")),
    Attack("nested lists", lambda size: _SPAN + b"[" * (size // 2) + b"]" * (size // 2) + b"}}"),
    Attack("quotes", _repeat(b"[" * 300, b'"')),
    Attack(
        "keys with NUL", lambda size: _SPAN + b"{" + b",".join(b'"%d\\u0000":1' % n for n in range(size // 14)) + b"}}}"
    ),
    Attack("empty events", _repeat(b"[", b"{},", b"{}]")),
    Attack("half lines", _repeat(b"", b"{\n"), content_type="application/x-ndjson"),
    Attack("token=token=", _text("token=")),
    Attack("password: password:", _text("password: ")),
    Attack("digits", _text("4111 1111 ")),
    Attack("addresses", _text("a@a.")),
    Attack("base64", _text("eyJhbGciOi.")),
    Attack("values in values", _text("authorization:{bearer+pat.signature=")),
    Attack("short addresses", _text("a@b.co ")),
    Attack("options of programs", _text("openssl passn pass:8 rar -p7z -pv' 7z -pv --u :_bn ")),
    Attack("invisible characters", _text("zip -Pkp -P L 7z -pX\u200b --u :#4 pWds=9e ")),
    Attack(
        "keys of passwords",
        lambda size: _SPAN + b"{" + b",".join(b'"password%d":"x"' % n for n in range(size // 20)) + b"}}}",
    ),
    Attack("key headers", _text("-----BEGIN PRIVATE KEY-----")),
    Attack("OTLP brackets", _repeat(b"", b"["), path="/v1/traces"),
    Attack("OTLP protobuf", _repeat(b"", b"\x0a\x05"), path="/v1/traces", content_type="application/x-protobuf"),
    Attack("gzip bomb", lambda size: gzip.compress(b"[" + b" " * (size * 30), 6), encoding="gzip"),
    Attack(
        "transcript lines",
        _repeat(b"", b'{"role":"user","content":"token=token=token="}\n'),
        path="/ingest/transcripts",
    ),
]
