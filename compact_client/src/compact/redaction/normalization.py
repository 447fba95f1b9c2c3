"""Undo tricks that hide a secret from the rules: invisible characters inside it, and full-width letters.

A NUL follows each letter if UTF-16 is read as ASCII. The server stores it as U+FFFD, so that counts, too.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate

from compact.redaction.findings import Span

_INVISIBLE = re.compile(
    "([\x00\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufffd]+)"
)
# In ordinary text, these characters follow an emoji. Between letters and digits, they hide something.
HIDDEN = re.compile(f"(?<=[!-~]){_INVISIBLE.pattern}(?=[!-~])|[\uff01-\uff5e]")
HINT = (
    r"[!-~](?:\x00|\xc2\xad|\xcd\x8f|\xd8\x9c|\xe1\x85[\x9f\xa0]|\xe1\x9e[\xb4\xb5]|\xe1\xa0[\x8b-\x8e]"
    r"|\xe2\x80[\x8b-\x8f\xaa-\xae]"
    r"|\xe2\x81[\xa0-\xaf]|\xef\xb8[\x80-\x8f]|\xef\xbb\xbf|\xef\xbf\xbd)|\xef\xbc[\x81-\xbf]|\xef\xbd[\x80-\x9e]"
)
"""The same in UTF-8, for Hyperscan."""
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


def normalize(text: str) -> NormalizedText | None:
    """Return the text without such tricks, or None if there are none."""
    return NormalizedText(text) if HIDDEN.search(text) else None
