"""Signatures checked by our own arithmetic, against RFC 8032 and against a library that is trusted with it."""

from __future__ import annotations

import pytest
from compact import ed25519
from hypothesis import given, settings
from hypothesis import strategies as st

# RFC 8032, section 7.1: public key, message, signature.
VECTORS = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]


@pytest.mark.parametrize(("key", "message", "signature"), VECTORS)
def test_the_vectors_of_the_standard_hold(key: str, message: str, signature: str):
    """And fall as soon as one bit of anything differs."""
    k, m, s = bytes.fromhex(key), bytes.fromhex(message), bytes.fromhex(signature)
    assert ed25519.verify(k, m, s)
    assert not ed25519.verify(k, m + b"x", s)
    assert not ed25519.verify(k, m, s[:-1] + bytes([s[-1] ^ 1]))
    assert not ed25519.verify(bytes([k[0] ^ 1]) + k[1:], m, s)
    assert not ed25519.verify(k, m, s[:-1]) and not ed25519.verify(k[:-1], m, s)


@settings(max_examples=20, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 511))
def test_it_agrees_with_a_trusted_library(message: bytes, bit: int):
    """Accepts what it signs, refuses what it signed with one bit turned."""
    private = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519").Ed25519PrivateKey.generate()
    key, signature = private.public_key().public_bytes_raw(), private.sign(message)
    assert ed25519.verify(key, message, signature)
    turned = bytearray(signature)
    turned[bit // 8] ^= 1 << bit % 8
    assert not ed25519.verify(key, message, bytes(turned))


def test_a_signature_cannot_be_restated():
    """Adding the group's order to the scalar must not give a second valid signature."""
    k, m, s = (bytes.fromhex(part) for part in VECTORS[1])
    order = 2**252 + 27742317777372353535851937790883648493
    again = s[:32] + (int.from_bytes(s[32:], "little") + order).to_bytes(32, "little")
    assert not ed25519.verify(k, m, again)
