"""The server's own Ed25519 key: made once, kept in DATA_DIR (mode 600) or given by the environment, its half published.

Processes without a shared disk share one through ARIADNE_SIGNING_KEY (the base64 of its 32 secret bytes).
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe


@lru_cache(maxsize=1)
def _key(secret: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(base64.b64decode(secret, validate=True))


def sign(data: bytes) -> bytes:
    return _key(settings.SIGNING_KEY).sign(data)


def is_ours(data: bytes, signature: bytes) -> bool:
    try:
        _key(settings.SIGNING_KEY).public_key().verify(signature, data)
    except InvalidSignature:
        return False
    return True


def public_key() -> str:
    return base64.b64encode(_key(settings.SIGNING_KEY).public_key().public_bytes_raw()).decode()


@require_safe
def published(request: HttpRequest) -> JsonResponse:
    """What `compactctl verify --key` is given. Open to everybody: it is no secret, and an auditor may be a stranger."""
    key = public_key()
    fingerprint = hashlib.sha256(base64.b64decode(key)).hexdigest()
    return JsonResponse({"algorithm": "Ed25519", "public_key": key, "fingerprint": f"sha256:{fingerprint}"})
