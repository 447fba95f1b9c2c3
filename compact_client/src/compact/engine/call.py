"""What a host passes in for one call, and the format it is in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from compact.engine.request import plain
from compact.engine.session import Session
from compact.exceptions import CompactError
from compact.messages.codecs import CHAT, detect_codec, get_codec
from compact.messages.codecs.base import Codec


class CallOptions(TypedDict, total=False):
    """What may go with the messages of a call."""

    tools: Sequence[Any] | None
    instructions: str | None
    output_schema: Any
    format: str | None
    protected: Collection[int]


@dataclass(frozen=True, slots=True)
class Call:
    """What a host passed in for one call."""

    items: Sequence[Any]
    tools: Sequence[Any] | None = None
    instructions: str | None = None
    output_schema: Any = None
    format: str | None = None
    protected: Collection[int] = ()
    note: str | None = None
    """Why a caller compacts by hand; None for a preflight."""

    def __post_init__(self) -> None:
        if isinstance(self.items, str | bytes | Mapping):
            raise CompactError(f"messages must be a list of messages, not a {type(self.items).__name__}")


def codec_for(session: Session, call: Call) -> Codec:
    """The format of the list; what does not say is read like the session's earlier messages."""
    if call.format is not None:
        return get_codec(call.format)
    known = len(session.shown.items)
    items = call.items
    is_longer = session.codec is not None and len(items) >= known
    found = detect_codec([plain(item) for item in (items[known:] if is_longer else items)])
    return found or session.codec or CHAT
