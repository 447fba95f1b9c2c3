"""Check that a webhook comes from the payment provider."""

from __future__ import annotations

import hashlib
import hmac
import json
import time

from billing.settings import settings

TOLERANCE_S = 300


class BadSignature(Exception):
    """The signature is missing, wrong or too old."""


def verify(body: bytes, headers: dict[str, str]) -> dict:
    """Return the event in a body, or raise `BadSignature`."""
    fields = dict(part.split("=", 1) for part in headers.get("Pay-Signature", "").split(",") if "=" in part)
    if "t" not in fields or "v1" not in fields:
        raise BadSignature("the header Pay-Signature is missing")
    if abs(time.time() - int(fields["t"])) > TOLERANCE_S:
        raise BadSignature(f"signed at {fields['t']}, more than {TOLERANCE_S} s ago")
    expected = hmac.new(settings.webhook_secret, f"{fields['t']}.".encode() + body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected, fields["v1"]):
        raise BadSignature("the body was changed")
    # A retry of the provider is signed again, with a new time. Its `id` stays the same for 72 hours.
    return json.loads(body)
