"""Check Ed25519 signatures with the standard library alone (RFC 8032, section 5.1).

Only verification, on public data: there is no secret here whose handling time could leak.
"""

from __future__ import annotations

import hashlib

__all__ = ["verify"]

_P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, _P - 2, _P) % _P
_SQRT_MINUS_ONE = pow(2, (_P - 1) // 4, _P)

Point = tuple[int, int, int, int]  # extended coordinates: x = X/Z, y = Y/Z, T = XY/Z


def verify(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether `signature` (64 bytes) is this key's (32 bytes) over `message`."""
    if len(public_key) != 32 or len(signature) != 64:
        return False
    key, nonce = _decompress(public_key), _decompress(signature[:32])
    scalar = int.from_bytes(signature[32:], "little")
    # A scalar beyond the group's order would be a second valid signature for the same message.
    if key is None or nonce is None or scalar >= _ORDER:
        return False
    challenge = int.from_bytes(hashlib.sha512(signature[:32] + public_key + message).digest(), "little") % _ORDER
    return _same(_times(scalar, _BASE), _add(nonce, _times(challenge, key)))


def _add(a: Point, b: Point) -> Point:
    p = (a[1] - a[0]) * (b[1] - b[0]) % _P
    q = (a[1] + a[0]) * (b[1] + b[0]) % _P
    r = 2 * a[3] * b[3] * _D % _P
    s = 2 * a[2] * b[2] % _P
    e, f, g, h = q - p, s - r, s + r, q + p
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _times(scalar: int, point: Point) -> Point:
    result: Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            result = _add(result, point)
        point = _add(point, point)
        scalar >>= 1
    return result


def _same(a: Point, b: Point) -> bool:
    return (a[0] * b[2] - b[0] * a[2]) % _P == 0 and (a[1] * b[2] - b[1] * a[2]) % _P == 0


def _x_of(y: int, sign: int) -> int | None:
    if y >= _P:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, _P - 2, _P) % _P
    if square == 0:
        return None if sign else 0
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * _SQRT_MINUS_ONE % _P
    if (x * x - square) % _P:
        return None
    return _P - x if x & 1 != sign else x


def _decompress(text: bytes) -> Point | None:
    y = int.from_bytes(text, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    x = _x_of(y, sign)
    return None if x is None else (x, y, 1, x * y % _P)


def _base() -> Point:
    y = 4 * pow(5, _P - 2, _P) % _P
    x = _x_of(y, 0)
    assert x is not None
    return x, y, 1, x * y % _P


_BASE = _base()
