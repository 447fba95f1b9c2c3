"""A text in UTF-8, as Hyperscan reads it, and the way back to positions in characters."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain

from compact.redaction.findings import BOUNDARY

_BOUNDARY_BYTES = BOUNDARY.encode()
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))


class EncodedText:
    """The parts of a text in UTF-8, with boundaries between them.

    One character that is not ASCII makes a joined text twice as large and ten times as slow to encode. Most parts are
    ASCII, so they are encoded one by one.
    """

    __slots__ = ("_wide_ends", "_wide_extra", "_wide_starts", "data", "is_ascii")

    def __init__(self, parts: Sequence[str]) -> None:
        encoded = _encode_all(parts)
        self.data = encoded[0] if len(encoded) == 1 else _BOUNDARY_BYTES.join(encoded)
        sizes, lengths = list(map(len, encoded)), list(map(len, parts))
        self.is_ascii = sizes == lengths
        if not self.is_ascii:
            self._find_wide_parts(sizes, lengths)

    def _find_wide_parts(self, sizes: Sequence[int], lengths: Sequence[int]) -> None:
        """Record where the parts are that are not ASCII, and how many more bytes than characters are before each."""
        wide = [index for index, size in enumerate(sizes) if size != lengths[index]]
        ends_without_boundaries = list(accumulate(sizes))
        self._wide_ends = [ends_without_boundaries[index] + index for index in wide]
        self._wide_starts = [end - sizes[index] for end, index in zip(self._wide_ends, wide, strict=True)]
        self._wide_extra = [0, *accumulate(sizes[index] - lengths[index] for index in wide)]

    def in_characters(self, ends: Mapping[int, list[int]]) -> Mapping[int, list[int]]:
        """Convert positions in bytes to positions in characters. A position inside a character is moved after it."""
        if self.is_ascii:
            return ends
        positions = dict(self._positions(sorted(set(chain.from_iterable(ends.values())))))
        return {number: [positions[end] for end in places] for number, places in ends.items()}

    def _positions(self, ends: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Yield ascending positions in bytes, each with its position in characters."""
        position = extra = 0
        for end in ends:
            index = bisect_right(self._wide_starts, end) - 1
            if index < 0 or end >= self._wide_ends[index]:
                yield end, end - self._wide_extra[index + 1]
                continue
            if position < self._wide_starts[index]:
                position, extra = self._wide_starts[index], self._wide_extra[index]
            extra += _count_extra(self.data[position:end])
            position = end
            yield end, end - extra


def _encode_all(parts: Sequence[str]) -> list[bytes]:
    try:
        return list(map(str.encode, parts))
    except UnicodeEncodeError:
        return [part.encode("utf-8", "surrogatepass") for part in parts]


def _count_extra(piece: bytes) -> int:
    """Return how many more bytes than characters a piece of UTF-8 has."""
    return 0 if piece.isascii() else len(piece) - len(piece.translate(None, _CONTINUATION_BYTES))
