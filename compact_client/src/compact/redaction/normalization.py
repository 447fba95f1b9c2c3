"""Undo what hides a secret from the rules: invisible characters inside it, full-width letters, and terminal colors.

A NUL follows each letter if UTF-16 is read as ASCII. The server stores it as U+FFFD, so that counts, too.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate

from compact.redaction.findings import BOUNDARY, Span

_INVISIBLE = re.compile(
    "((?:\x1b\\[[0-9;:]{0,24}[A-Za-z]|[\x00\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufffd])+)"
)
# In ordinary text, these characters follow an emoji. Between letters and digits, they hide something.
HIDDEN = re.compile(f"(?<=[!-~]){_INVISIBLE.pattern}(?=[!-~])|[\uff01-\uff5e]|\x1b\\[")
HINT = (
    r"\x1b\[|[!-~](?:\x00|\xc2\xad|\xcd\x8f|\xd8\x9c|\xe1\x85[\x9f\xa0]|\xe1\x9e[\xb4\xb5]|\xe1\xa0[\x8b-\x8e]"
    r"|\xe2\x80[\x8b-\x8f\xaa-\xae]"
    r"|\xe2\x81[\xa0-\xaf]|\xef\xb8[\x80-\x8f]|\xef\xbb\xbf|\xef\xbf\xbd)|\xef\xbc[\x81-\xbf]|\xef\xbd[\x80-\x9e]"
)
"""The same in UTF-8, for Hyperscan."""
# A key in PEM format is shorter.
_DISTANCE = 4_000
_ASCII_FORM = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}


class NormalizedText:
    """A text without invisible characters, which maps positions back to the original."""

    def __init__(self, text: str) -> None:
        pieces = _INVISIBLE.split(text)
        visible = pieces[::2]
        self._places = list(accumulate(map(len, visible)))
        self._removed = list(accumulate(map(len, pieces[1::2])))
        self.text = "".join(visible).translate(_ASCII_FORM)

    def original(self, span: Span) -> Span:
        """Return where a span is in the original text."""
        return span._replace(start=self._position(span.start), end=self._position(span.end - 1) + 1)

    def _position(self, position: int) -> int:
        # The last place is the end of the text.
        index = min(bisect_right(self._places, position), len(self._removed))
        return position + (self._removed[index - 1] if index else 0)


def normalized_ranges(text: str, positions: Iterable[int]) -> Iterator[tuple[int, NormalizedText]]:
    """Yield the text around such tricks, without them, and where it starts. `positions` are their ascending ends."""
    start = end = 0
    for position in positions:
        if position < end - _DISTANCE // 2 or end == len(text):
            continue
        if position < end:
            # In the same range, which the trick extends unless the part ends.
            if text.find(BOUNDARY, end, position + _DISTANCE) < 0 and text[end : end + 1] != BOUNDARY:
                end = min(position + _DISTANCE, len(text))
            continue
        if HIDDEN.search(text, max(0, position - 4), position + 28) is None:
            continue
        if end > start:
            yield start, NormalizedText(text[start:end])
        start = max(end, position - _DISTANCE, text.rfind(BOUNDARY, max(end, position - _DISTANCE), position) + 1)
        boundary = text.find(BOUNDARY, position, position + _DISTANCE)
        end = boundary if boundary >= 0 else min(position + _DISTANCE, len(text))
    if end > start:
        yield start, NormalizedText(text[start:end])


def may_hide(text: str) -> bool:
    """Return False if a text has none of the characters, which is faster than a search for them."""
    return not text.isascii() or "\0" in text or "\x1b" in text
