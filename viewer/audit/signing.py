"""The server's own Ed25519 key: made once, kept in DATA_DIR (mode 600) or given by the environment, its half published.

Processes without a shared disk share one through ARIADNE_SIGNING_KEY (the base64 of its 32 secret bytes).
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe


@lru_cache(maxsize=1)
def _key(secret: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(base64.b64decode(secret, validate=True))


def sign(data: bytes) -> bytes:
    return _key(settings.SIGNING_KEY).sign(data)


def is_ours(data: bytes, signature: bytes) -> bool:
    """Whether the present key signed it, or one that was retired."""
    return any(_verifies(key, data, signature) for key in (public_key(), *settings.RETIRED_SIGNING_KEYS))


def public_key() -> str:
    return base64.b64encode(_key(settings.SIGNING_KEY).public_key().public_bytes_raw()).decode()


def _verifies(key: str, data: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(base64.b64decode(key)).verify(signature, data)
    except InvalidSignature:
        return False
    return True


def _fingerprint(key: str) -> str:
    return f"sha256:{hashlib.sha256(base64.b64decode(key)).hexdigest()}"


@require_safe
def published(request: HttpRequest) -> JsonResponse:
    """What `compactctl verify --key` is given. Open to everybody: it is no secret, and an auditor may be a stranger."""
    present, *retired = (
        {"public_key": key, "fingerprint": _fingerprint(key)} for key in (public_key(), *settings.RETIRED_SIGNING_KEYS)
    )
    return JsonResponse({"algorithm": "Ed25519", **present, "retired": retired})
