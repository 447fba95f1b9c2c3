"""The server's Ed25519 key.

The key is created once and stored in DATA_DIR (mode 600). Processes without a shared disk get it from
ARIADNE_SIGNING_KEY, the base64 of its 32 secret bytes.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from django.conf import settings


@lru_cache(maxsize=1)
def _private_key(secret: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(base64.b64decode(secret, validate=True))


def sign(data: bytes) -> bytes:
    return _private_key(settings.SIGNING_KEY).sign(data)


def is_ours(data: bytes, signature: bytes) -> bool:
    """Return True if the current key or a retired one signed the data."""
    return any(_is_valid(key, data, signature) for key in _public_keys())


def public_key() -> str:
    return base64.b64encode(_private_key(settings.SIGNING_KEY).public_key().public_bytes_raw()).decode()


def describe_keys() -> dict[str, Any]:
    """Return the current public key and the retired ones, as `compactctl verify --key` accepts them."""
    current, *retired = ({"public_key": key, "fingerprint": _fingerprint(key)} for key in _public_keys())
    return {"algorithm": "Ed25519", **current, "retired": retired}


def _public_keys() -> tuple[str, ...]:
    return (public_key(), *settings.RETIRED_SIGNING_KEYS)


def _is_valid(key: str, data: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(base64.b64decode(key)).verify(signature, data)
    except InvalidSignature:
        return False
    return True


def _fingerprint(key: str) -> str:
    return f"sha256:{hashlib.sha256(base64.b64decode(key)).hexdigest()}"
