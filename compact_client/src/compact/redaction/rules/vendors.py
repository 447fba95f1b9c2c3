"""Rules for API keys with a vendor prefix. The prefixes are the rows of `vendor_keys.tsv`, which names their sources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import NamedTuple

from compact.redaction.rules.rule import HAS_DIGIT, NOT_IN_WORD, Rule, before_digit, is_key_material


class _Vendor(NamedTuple):
    """A row of the table of keys with a prefix."""

    name: str
    prefixes: tuple[str, ...]
    tail: str
    """The class of the characters after the prefix."""
    min_chars: int
    usual_chars: int
    """0 if keys differ in length."""
    is_common: bool
    """True if a prefix is also part of ordinary words and ids, so that a key must look random."""


def _vendors() -> list[_Vendor]:
    text = (files("compact.redaction.rules") / "vendor_keys.tsv").read_text("ascii")
    rows = (line.split("\t") for line in text.splitlines() if not line.startswith("#"))
    return [
        _Vendor(
            name,
            tuple(prefixes.replace("?", "").split()),
            tail,
            int(least),
            0 if usual == "-" else int(usual),
            "?" in prefixes,
        )
        for name, prefixes, tail, least, usual, _ in rows
    ]


VENDOR_KEYS = _vendors()
# The first part of a split key must be distinctive.
_MIN_SPLIT_PREFIX_CHARS = 4
# A hint for a prefix that is not distinctive includes this many characters after it.
_HINT_TAIL = 8
# The first characters of a key decide if it looks random.
_MAX_CHECKED_CHARS = 128


_DISTINCTIVE = {
    prefix: vendor
    for vendor in VENDOR_KEYS
    for prefix in vendor.prefixes
    if not vendor.is_common and len(prefix) >= _MIN_SPLIT_PREFIX_CHARS - prefix.endswith(("_", "-"))
}
_PREFIXES = "|".join(re.escape(prefix) for prefix in sorted(_DISTINCTIVE, key=len, reverse=True))


def _prefix_hint(prefix: str) -> str:
    # A distinctive prefix alone is specific enough, and it is the fastest kind of expression.
    return f"(?-i:{re.escape(prefix)})"


def _looks_like_key(match: re.Match[str]) -> bool:
    return is_key_material(match[0])


def _without_digits(tail: str) -> str:
    return tail.strip("[]").replace(r"\w", "A-Za-z_").replace("0-9", "")


def _vendor(vendor: _Vendor) -> Rule:
    words, tail, is_common = vendor.prefixes, vendor.tail, vendor.is_common
    start = "|".join(re.escape(word) for word in words)
    max_chars = max(vendor.min_chars, _MAX_CHECKED_CHARS)
    # A digit in the prefix counts as well.
    digit = before_digit(_without_digits(tail)) if is_common and not HAS_DIGIT.search(start) else ""
    pattern = re.compile(rf"{NOT_IN_WORD}(?:{start}){digit}{tail}{{{vendor.min_chars},{max_chars}}}+", re.ASCII)
    hint_tail = 0 if _DISTINCTIVE.keys() >= set(words) else _HINT_TAIL
    hints = tuple(
        rf"(?-i:(?:^|[^A-Za-z0-9]){re.escape(word)}{tail}{{{hint_tail}}})" if hint_tail else _prefix_hint(word)
        for word in words
    )
    return Rule(
        vendor.name,
        "secret",
        tuple(word.lower() for word in words),
        pattern,
        _looks_like_key if is_common else None,
        hints=hints,
        starts_with_literal=True,
        hint_tail=hint_tail,
        rest=re.compile(rf"{tail}*+", re.ASCII),
    )


# Where a key continues in a text that was cut: after a line break, or in the next string of a program.
_NEXT_STRING = re.compile(
    r"""(?:["']\s{0,4}[+.,]?\s{0,8}(?:["']?\w{1,20}["']?\s{0,2}[:=]\s{0,2})?["']|\\?\r?\n[ \t]{0,8})""", re.ASCII
)
_REST = re.compile(r"[\w+/=-]{6,400}+", re.ASCII)
# Labels, such as a role or an id, may be between two messages.
_MAX_LABELS = 6
_MAX_LABEL_CHARS = 48
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_ID = re.compile(
    r"(?:call|toolu|msg|chatcmpl|resp|run|fc|rs)[_-]\w+|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{16}|[0-9a-f]{32}"
)


def _split_spans(match: re.Match[str]) -> list[tuple[int, int]]:
    """Return the two halves of a key, of which the first is too short for its vendor."""
    vendor, first = _DISTINCTIVE[match["prefix"]], match["first"]
    if len(first) >= max(vendor.min_chars, vendor.usual_chars):
        return []
    for start in _continuations(match.string, match.end()):
        rest = _REST.match(match.string, start)
        if rest is not None and _is_rest(vendor, first, rest[0]):
            return [(match.start(), match.end()), rest.span()]
    return []


def _is_rest(vendor: _Vendor, first: str, rest: str) -> bool:
    length = len(first) + len(rest)
    if _ID.fullmatch(rest) is not None or length < vendor.min_chars:
        return False
    if length == vendor.usual_chars:
        return _WORD.fullmatch(rest) is None
    return is_key_material(rest) and (len(first) < vendor.min_chars or length < 1.2 * vendor.usual_chars)


def _continuations(text: str, end: int) -> Iterator[int]:
    """Yield where a key that was cut at `end` may continue: in the same part, or at the start of one of the next."""
    if not text.startswith("\x1e", end):
        gap = _NEXT_STRING.match(text, end)
        if gap is not None:
            yield gap.end()
        return
    for _ in range(_MAX_LABELS):
        yield end + 1
        end = text.find("\x1e", end + 1, end + 2 + _MAX_LABEL_CHARS)
        if end < 0:
            return


VENDORS = (
    *map(_vendor, VENDOR_KEYS),
    # Telegram keys such as `123456789:AA…` are the only ones with a number before the recognizable part.
    Rule(
        "telegram",
        "secret",
        (":aa",),
        re.compile(r"(?<=\d{8}):(?P<secret>AA[\w-]{30,}+)", re.ASCII),
        starts_with_literal=True,
    ),
    Rule(
        "discord",
        "secret",
        (),
        re.compile(r"(?<![\w.-])[MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{27,45}(?![\w.-])", re.ASCII),
        _looks_like_key,
        hints=(r"(?-i:\.[\w-]{6}\.[\w-]{27})",),
        group="runs",
        reach=70,
    ),
    Rule("mailchimp", "secret", ("-us",), re.compile(r"(?<![\w-])[0-9a-f]{32}-us\d{1,2}(?!\w)", re.ASCII), reach=40),
    Rule(
        "azure_client_secret",
        "secret",
        ("q~",),
        re.compile(r"(?<![\w~.-])[\w~.]{3}\dQ~[\w~.-]{31,34}(?![\w~.-])", re.ASCII),
        hints=(r"(?-i:\dQ~[\w~.-]{4})",),
        reach=16,
    ),
    Rule(
        "terraform_cloud",
        "secret",
        (".atlasv1.",),
        re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{40,}+", re.ASCII),
    ),
    Rule(
        "airtable",
        "secret",
        ("pat",),
        re.compile(r"(?<!\w)pat[A-Za-z0-9]{14}\.[a-f0-9]{64}", re.ASCII),
        lookahead=100,
        hints=(r"(?-i:pat[A-Za-z0-9]{14}\.[a-f0-9])",),
    ),
    Rule("maxmind", "secret", ("_mmk",), re.compile(r"(?<!\w)[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk", re.ASCII), reach=44),
    Rule(
        "facebook",
        "secret",
        ("|",),
        re.compile(r"(?<!\w)\d{15,16}\|[\w-]{27,40}(?!\w)", re.ASCII),
        hints=(r"\d{15}\|[\w-]{20}",),
    ),
    Rule("onepassword", "secret", ("a3-",), re.compile(r"(?<!\w)A3-[A-Z0-9]{6}-[A-Z0-9-]{22,30}", re.ASCII)),
    Rule(
        "azure_devops",
        "secret",
        ("azdo",),
        re.compile(r"(?<!\w)[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}(?!\w)", re.ASCII),
        reach=84,
    ),
    # A key that is split over two fields, lines or messages.
    Rule(
        "split_key",
        "secret",
        tuple(prefix.lower() for prefix in _DISTINCTIVE),
        re.compile(rf"{NOT_IN_WORD}(?P<prefix>{_PREFIXES})(?P<first>[\w+/=-]{{2,120}}+)", re.ASCII),
        spans=_split_spans,
        hints=tuple(map(_prefix_hint, _DISTINCTIVE)),
        starts_with_literal=True,
    ),
)
