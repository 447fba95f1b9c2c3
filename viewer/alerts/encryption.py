"""Encryption of webhook addresses and signing secrets, with a key derived from the server's secret key."""

from __future__ import annotations

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings


class CannotDecrypt(Exception):
    """The text was encrypted with another secret key."""


def encrypt(text: str) -> str:
    return _box().encrypt(text.encode()).decode() if text else ""


def decrypt(token: str) -> str:
    if not token:
        return ""
    try:
        return _box().decrypt(token.encode()).decode()
    except InvalidToken:
        raise CannotDecrypt("The server's secret key has changed. Enter the webhook address again.") from None


def _box() -> Fernet:
    digest = hashlib.sha256(b"ariadne alerts\0" + settings.SECRET_KEY.encode()).digest()
    return Fernet(base64.urlsafe_b64encode(digest))
