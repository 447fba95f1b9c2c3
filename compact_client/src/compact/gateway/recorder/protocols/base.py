"""The protocol of a provider's API: where the messages are, their blocks, and how an answer is put together."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final
from typing import Protocol as TypingProtocol

import msgspec

from compact.delivery import fast_json
from compact.integrations.model_api import ModelApi
from compact.ledgers.foreign_compaction import Format
from compact.messages import canonical_json
from compact.messages.usage import Usage

Item = dict[str, Any]
"""A message in the format of the recording, with one content block where the format has blocks."""
_decode_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


@dataclass(slots=True)
class Answer:
    """The answer of a provider, as far as it has arrived."""

    id: str = ""
    model: str = ""
    items: list[Item] = field(default_factory=list)
    usage: Usage | None = None
    stop_reason: str = ""
    error: str = ""


class AnswerReader(TypingProtocol):
    """Puts an answer together from the events of a stream, or from one JSON document."""

    answer: Answer

    def feed(self, event: Mapping[str, Any]) -> None:
        """Read one event of a stream."""

    def document(self, value: Mapping[str, Any]) -> None:
        """Read an answer that is not streamed."""


class Protocol(TypingProtocol):
    """One API."""

    name: str
    format: Format
    provider: str
    """The provider whose rules count media."""
    api: ModelApi
    """The fields of its requests."""

    def items(self, element: Any) -> list[Item]:
        """Return the blocks of one message of a request."""

    def system(self, body: RequestBody) -> list[Any]:
        """Return the blocks of the system prompt that is beside the messages."""

    def identity(self, item: Item) -> Any:
        """Return what makes two blocks the same, without marks and ids that move from request to request."""

    def model(self, body: RequestBody, path: str) -> str:
        """Return the model of a request."""

    def reader(self) -> AnswerReader:
        """Return a reader for one answer."""


class RequestBody:
    """A request body whose fields and messages are decoded only when they are asked for."""

    def __init__(self, raw: bytes) -> None:
        self._fields = _decode_fields(raw)
        self._decoded: dict[str, Any] = {}
        self._lists: dict[str, Sequence[msgspec.Raw]] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(self._fields)

    def get(self, name: str) -> Any:
        """Return a field, or None."""
        if name not in self._decoded:
            raw = self._fields.get(name)
            self._decoded[name] = None if raw is None else fast_json.parse(bytes(raw))
        return self._decoded[name]

    def raw(self, name: str) -> msgspec.Raw | bytes:
        """Return the JSON of a field, or no bytes."""
        return self._fields.get(name, b"")

    def elements(self, name: str) -> Sequence[msgspec.Raw]:
        """Return the JSON of each element of a list. A single value is a list of one."""
        if name in self._lists:
            return self._lists[name]
        raw = self._fields.get(name)
        if raw is None:
            return ()
        try:
            elements = _decode_list(raw)
        except msgspec.ValidationError:
            elements = [raw]
        self._lists[name] = elements
        return elements

    def replace_list(self, name: str, elements: Sequence[msgspec.Raw]) -> None:
        """Set the elements of a list that the request only refers to."""
        self._lists[name] = elements


def fingerprint(value: Any) -> bytes:
    """Return a short digest of a JSON value, whatever the order of its keys."""
    return hashlib.blake2b(canonical_json(value), digest_size=16).digest()


def without(value: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """Return an object without some keys and without nulls."""
    return {key: item for key, item in value.items() if key not in names and item is not None}
