"""Rules for private keys in PEM format, whole or in fragments, and for key files of other tools.

A key is often split: over the lines of a list, over JSON fields, or over two messages. The lines of its body are
therefore followed one by one, also beyond the boundary of a part.
"""

from __future__ import annotations

import re

from compact.redaction.rules.rule import Rule, caseless, is_key_material, verbose

_MAX_LINES = 20_000
# Other fields, such as ids, may be between two lines of a key.
_MAX_SKIPPED_PARTS = 400
_FULL_LINE_CHARS = 40
# What may be between two lines of a key: white space, escaped line breaks, quotes, and prefixes such as `> ` or `12: `.
_GAP = r"(?:[ \t\r\n>|+\#*\"',\[\]]|\\{1,4}[nrt]|\d{1,6}[ \t:|→]{1,8}(?=[A-Za-z0-9+/=]{20}))"
_LINE = re.compile(
    rf"{_GAP}{{0,64}}+(?P<line>(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset|MAC-Info):[^\n\x1e\\]{{0,200}}+"
    r"|[A-Za-z0-9+/=]{1,8192}+)",
    re.ASCII,
)
_END = re.compile(r"-----END[^-\n\x1e]{0,60}-----")
_LINE_BREAK = re.compile(r"[\r\n\"'\x1e]|\\{1,4}[nr\"]|-----|\Z")
_HEX = re.compile(r"[0-9a-f]+")
_LAST_LINE = re.compile(r"[A-Za-z0-9+/=]{1,4096}\Z")
_MAX_JWK_CHARS = 4_000
_JWK_MEMBER = re.compile(
    r"""(?P<quote>\\{0,7}+["'])(?:d|k|p|q|dp|dq|qi)(?P=quote)\s{0,4}:\s{0,4}(?P=quote)(?P<secret>[\w=-]{16,1024}+)""",
    re.ASCII,
)
_IMAGE = re.compile(r"iVBORw0KGgo|/9j/|R0lGOD|UklGR|PHN2Zy|JVBERi0|UEsDB|H4sI")


def _body_spans(text: str, position: int) -> list[tuple[int, int]]:
    """Return the spans of the lines of a key that start at a position, one for each part."""
    spans: list[tuple[int, int]] = []
    start = end = position
    skipped = 0
    for _ in range(_MAX_LINES):
        line = _LINE.match(text, end)
        if line is not None and _is_body_line(text, line, is_first=not spans and end == start):
            end = line.end()
            continue
        if end > start:
            spans.append((start, end))
        boundary = _part_end(text, end)
        if boundary < 0 or skipped >= _MAX_SKIPPED_PARTS:
            return spans
        skipped = 0 if end > start else skipped + 1
        start = end = boundary + 1
    return [*spans, (start, end)] if end > start else spans


def _is_body_line(text: str, line: re.Match[str], *, is_first: bool) -> bool:
    content = line["line"]
    if ":" in content:
        return True
    is_alone = _LINE_BREAK.match(text, line.end()) is not None
    if len(content) >= _FULL_LINE_CHARS:
        return is_first or _HEX.fullmatch(content) is None
    # The last line of a key is shorter, and nothing else is on it.
    return is_alone and (is_first or content.endswith("=") or is_key_material(content) or len(content) < 4)


def _part_end(text: str, position: int) -> int:
    """Return where the part ends in which the key was interrupted, or -1 if other text follows the key."""
    boundary = text.find("\x1e", position, position + 400)
    if boundary < 0 or text.find("-----", position, boundary) >= 0:
        return -1
    return boundary


def _after_begin(match: re.Match[str]) -> list[tuple[int, int]]:
    text, start = match.string, match.end()
    # Another key may begin before this one ends.
    limit = text.find("-----BEGIN", start, start + 20_000)
    end = _END.search(text, start, start + 20_000 if limit < 0 else limit)
    if end is not None and not (between := text[start : end.start()]).count("\x1e"):
        return [(start, end.start())] if not between.startswith("<REDACTED") else []
    return _body_spans(text, start)


def _from_first_line(match: re.Match[str]) -> list[tuple[int, int]]:
    return _body_spans(match.string, match.start())


def _before_end(match: re.Match[str]) -> list[tuple[int, int]]:
    """Return the span of the lines above the end of a key."""
    text, start = match.string, match.start()
    first = max(text.rfind("-----", max(0, start - 16_000), start) + 5, start - 16_000, 0)
    body = text[first:start].rpartition("\x1e")[2]
    lines = re.split(r"(\r?\n|\\{1,4}n)", body)
    length = 0
    for line in reversed(lines):
        content = line.strip(" \t>|+\"',")
        if content and line not in {"\n", "\r\n"} and not line.startswith("\\") and not _LAST_LINE.fullmatch(content):
            break
        length += len(line)
    fragment = body[len(body) - length :].lstrip()
    return [(start - len(fragment), start)] if len(fragment.strip()) >= 4 else []


def _is_key_fragment(match: re.Match[str]) -> bool:
    """True for lines in the format of a key that belong to no certificate, public key or image."""
    text, start = match.string, match.start()
    if not is_key_material(match[0][:64]) or _IMAGE.match(text, start) or _HEX.fullmatch(match[0][:64]):
        return False
    begin = text.rfind("-----BEGIN ", max(0, start - 16_000), start)
    is_open = begin >= 0 and text.find("-----END", begin, start) < 0
    if is_open and "PRIVATE" not in text[begin : begin + 50]:
        return False
    return "base64," not in text[max(0, start - 200) : start]


def _jwk_spans(match: re.Match[str]) -> list[tuple[int, int]]:
    """Return the private members of a key in JSON."""
    text, (start, end) = match.string, match.span()
    first = text.rfind("{", max(0, start - _MAX_JWK_CHARS), start)
    last = text.find("}", end, end + _MAX_JWK_CHARS)
    if first < 0 or last < 0:
        return []
    return [member.span("secret") for member in _JWK_MEMBER.finditer(text, first, last)]


PRIVATE_KEYS = (
    Rule(
        "private_key",
        "secret",
        ("private key", "static key v1"),
        verbose(r"----[ -]BEGIN\ (?:[A-Z0-9 ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?|OpenVPN\ Static\ key\ V1)[ ]?-{4,5}+"),
        spans=_after_begin,
        reach=64,
    ),
    # The first bytes of the usual key formats, without the line above them.
    Rule(
        "private_key",
        "secret",
        (
            "ibaakc",
            "ibadanbgkqhki",
            "mhccaqee",
            "mighageam",
            "migtageam",
            "mc4caqawbqydk2v",
            "b3blbnnzac1rzxktdje",
            "mihuageam",
            "miicxaibaakb",
            "miiefajo",
        ),
        verbose(
            r"""(?<![A-Za-z0-9+/])(?:MII[A-Za-z0-9+/]{2,6}IBA(?:AKC|AKB|DANBgkqhki)|MHcCAQEE|MI(?:GH|GT|Hu)AgEAM
                |MC4CAQAwBQYDK2V|b3BlbnNzaC1rZXktdjE)(?=[A-Za-z0-9+/]{12})"""
        ),
        spans=_from_first_line,
    ),
    Rule(
        "private_key",
        "secret",
        ("-----end",),
        verbose(r"-----END\ [A-Z0-9 ]{0,40}PRIVATE\ KEY"),
        starts_with_literal=True,
        spans=_before_end,
    ),
    Rule(
        "private_key",
        "secret",
        (),
        verbose(
            r"""(?<![A-Za-z0-9+/=])(?=[A-Za-z+/]{0,39}[0-9])(?:[A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{70})
                (?:(?:\r?\n|\\{1,4}n|\x1e)[ \t>|+]{0,8}(?:[A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{70})(?![A-Za-z0-9+/])){2,400}+
                (?:(?:\r?\n|\\{1,4}n|\x1e)[ \t>|+]{0,8}[A-Za-z0-9+/=]{4,64}(?=[\r\n\\"'\x1e-]|\Z))?"""
        ),
        _is_key_fragment,
        run_chars=range(64, 71),
        reach=42,
        lookahead=220,
        is_whole=True,
    ),
    Rule(
        "jwk",
        "secret",
        ("kty",),
        verbose(r"""(?P<quote>\\{0,7}+["'])kty(?P=quote)"""),
        spans=_jwk_spans,
        reach=12,
    ),
    Rule(
        "minisign_key",
        "secret",
        ("rwrty0iy",),
        verbose(r"(?<![A-Za-z0-9+/])RWRTY0Iy[A-Za-z0-9+/]{40,}+={0,2}"),
        starts_with_literal=True,
    ),
    Rule(
        "age_key",
        "secret",
        ("age-secret-key-1",),
        caseless(r"AGE-SECRET-KEY-1[A-Z0-9]{40,}+"),
        starts_with_literal=True,
    ),
    Rule(
        "putty_key",
        "secret",
        ("private-lines:",),
        verbose(r"Private-Lines:\ \d{1,3}"),
        starts_with_literal=True,
        spans=lambda match: _body_spans(match.string, match.end()),
    ),
    Rule(
        "jwt",
        "secret",
        ("eyj",),
        verbose(r"(?<![\w-])eyJ[\w-]{8,8192}+\.[\w-]{8,16384}+(?:\.[\w-]{0,16384}+){0,3}"),
        hints=(r"(?-i:eyJ)[\w-]{8}",),
        starts_with_literal=True,
        hint_tail=8,
    ),
)
