"""The type of texts without secrets.

Records, ids and labels accept no other text. For mypy, `CleanText` is a kind of `str` that cannot be created. Only
`ingest.decoding.door.seal` declares that a text is one, and `make lint` checks who imports it. At run time it is `str`
itself, because an event has six such texts and creating an object for each would cost more than redacting it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Never, Self

    class CleanText(str):
        """A text in which no rule finds a secret."""

        __slots__ = ()

        def __new__(cls, sealed: Never, /) -> Self: ...

    EMPTY: CleanText
else:
    CleanText, EMPTY = str, ""
