"""Rules for secrets in Base64, and for keys without a name or prefix that only their form gives away."""

from __future__ import annotations

import base64
import binascii
import re
from string import ascii_letters, digits

from compact.redaction.rules.rule import Rule, around, is_key_material, verbose

_ALPHABET = ascii_letters[26:] + ascii_letters[:26] + digits + "+/"
_MAX_DECODED_CHARS = 16_384
_TEXT = re.compile(r"[\t\n\r -~\u00a0-\U0010ffff]+")
_BASIC = re.compile(r"[\w.@+-]{1,64}:[^\s:]{4,128}")
_AWS_WORDS = ("aws", "amazon", "secret", "akia", "asia", "access", "credential", "s3")
_IAM = re.compile(r"iam\b")
_SYMBOL = re.compile(r"[+/]")


def _characters(*indexes: int) -> str:
    return "[" + "".join(re.escape(_ALPHABET[index]) for index in indexes) + "]"


# Four characters of Base64 that encode three printable ASCII characters. Few other texts have this form.
_PRINTABLE = (
    _characters(2, 3, *range(8, 32))
    + _characters(*(index for index in range(64) if index % 16 in range(2, 8)))
    + _characters(*(index for index in range(64) if index % 4 in {0, 1}))
    + "[A-Za-z0-9+/]"
)


def _decode(match: re.Match[str]) -> str | None:
    encoded = match[0][:_MAX_DECODED_CHARS]
    try:
        text = base64.b64decode(encoded[: len(encoded) // 4 * 4]).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return text if _TEXT.fullmatch(text) else None


def _is_basic_auth(match: re.Match[str]) -> bool:
    encoded = match["secret"]
    try:
        text = base64.b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return False
    return _BASIC.fullmatch(text) is not None


def _is_aws_secret(match: re.Match[str]) -> bool:
    """True for 40 random characters with a sign that only AWS uses, or with a word nearby that says so."""
    value = match[0]
    if value.lower() == value or value.upper() == value or not is_key_material(value):
        return False
    if _SYMBOL.search(value) is not None:
        return True
    window = around(match, before=200, after=60)
    return any(word in window for word in _AWS_WORDS) or _IAM.search(window) is not None


ENCODED = (
    Rule(
        "base64",
        "secret",
        (),
        verbose(rf"(?<![A-Za-z0-9+/=])(?:{_PRINTABLE}){{4}}[A-Za-z0-9+/]{{0,16384}}+={{0,2}}"),
        decode=_decode,
        hints=(rf"(?-i:(?:^|[^A-Za-z0-9+/])(?:{_PRINTABLE}){{4}})",),
        group="runs",
        reach=20,
        is_whole=True,
    ),
    Rule(
        "basic_auth",
        "secret",
        ("basic ", '"auth"', "_auth", "basic%20"),
        verbose(r"""(?:[Bb]asic(?:\ |%20)|"auth":\ ?"|_auth\ ?=\ ?"?)(?P<secret>[A-Za-z0-9+/]{8,512}+={0,2})"""),
        _is_basic_auth,
        hints=(r"""(?:basic(?: |%20)|"auth": ?"|_auth ?= ?"?)[A-Za-z0-9+/]{8}""",),
    ),
    Rule(
        "aws_secret",
        "secret",
        (),
        verbose(r"(?<![A-Za-z0-9+/=_.-])[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=_-])"),
        _is_aws_secret,
        run_chars=range(40, 41),
        reach=44,
    ),
)
