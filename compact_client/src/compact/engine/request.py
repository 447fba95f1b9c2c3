"""Lists of messages as they were shown and sent.

`Shown` is what a host has, for recognising it; `Request` is what goes out, with sums that grow with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from compact.messages import Message
from compact.planning.budget import PARTS, Breakdown, breakdown_part


@dataclass(slots=True)
class Shown:
    """A list of messages as it was shown to or by the host: copies, for comparing, and the id of each."""

    items: list[Any] = field(default_factory=list)
    metas: list[dict[str, Any] | None] | None = None  # of Message objects, whose meta a caller may change in place
    ids: list[str] = field(default_factory=list)

    def is_prefix_of(self, items: Sequence[Any]) -> bool:
        size = len(self.items)
        if len(items) < size or list(items[:size]) != self.items:
            return False
        return self.metas is None or [getattr(item, "meta", None) for item in items[:size]] == self.metas

    def add(self, item: Any, message_id: str) -> None:
        if isinstance(item, Message) and self.metas is None:
            self.metas = [None] * len(self.items)
        if self.metas is not None:
            self.metas.append(dict(item.meta) if isinstance(item, Message) else None)
        self.items.append(item)
        self.ids.append(message_id)


@dataclass(slots=True)
class Request:
    """What is sent: messages, where each comes from in the host's list, and running sums of their tokens."""

    messages: list[Message] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    layout: list[int | None] = field(default_factory=list)
    """For each message its place in the host's list, or None if it is ours."""
    sums: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PARTS, 0))
    open_calls: dict[str, int] = field(default_factory=dict)
    is_normal: bool = True
    is_same_as_shown: bool = True
    has_ephemeral: bool = False
    """Holds content for this turn only, so the next request starts from the view again."""

    @property
    def message_tokens(self) -> int:
        return sum(self.sums.values())

    def add(self, message: Message, tokens: int, place: int | None, *, protected_flag: str) -> None:
        self.messages.append(message)
        self.counts.append(tokens)
        self.layout.append(place)
        self.sums[breakdown_part(message, protected_flag=protected_flag)] += tokens
        for call_id in message.answers:
            waiting = self.open_calls.get(call_id, 0)
            if waiting == 0:
                self.is_normal = False
            elif waiting == 1:
                del self.open_calls[call_id]
            else:
                self.open_calls[call_id] = waiting - 1
        for call in message.tool_calls:
            if call.needs_output:
                self.open_calls[call.id] = self.open_calls.get(call.id, 0) + 1

    def breakdown(self, *, tools: int, instructions: int, overhead: int, protected_flag: str) -> Breakdown:
        sums = dict(self.sums)
        sums["tools_schema"] += tools
        sums["system"] += instructions
        sums["history"] += overhead
        for message, tokens in zip(reversed(self.messages), reversed(self.counts), strict=True):
            if message.role != "user":
                break
            if breakdown_part(message, protected_flag=protected_flag) == "history":
                sums["history"] -= tokens
                sums["user_input"] += tokens
        return Breakdown(**sums)


@dataclass(frozen=True, slots=True)
class Sent:
    """All it takes to render a past request again."""

    view_version: int
    view_length: int
    plan_version: int
    injected: tuple[Message, ...] = ()


def frozen_copy(item: Any) -> Any:
    """A copy of a provider's item that the host cannot change; texts are shared."""
    if isinstance(item, dict):
        return {key: frozen_copy(value) for key, value in item.items()}
    if isinstance(item, list):
        return [frozen_copy(value) for value in item]
    return item.model_copy(deep=True) if hasattr(item, "model_copy") else item


def plain(item: Any) -> Any:
    """An item as a codec reads it: objects of a provider's SDK, alone or inside it, as dicts."""
    if isinstance(item, dict):
        return {key: plain(value) for key, value in item.items()}
    if isinstance(item, list):
        return [plain(value) for value in item]
    return item.model_dump(mode="json", exclude_none=True) if hasattr(item, "model_dump") else item


def item_of(message: Message) -> Any:
    return message.source if message.source is not None else message


def written(request: Request, items: Sequence[Any]) -> list[Any]:
    """The host's own objects where they are sent as they are, ours where they are not."""
    if request.is_same_as_shown:
        return list(items)
    return [
        items[place] if place is not None else as_item(message)
        for message, place in zip(request.messages, request.layout, strict=True)
    ]


def as_item(message: Message) -> Any:
    """A message as a host may have it: a copy that it may change."""
    return frozen_copy(message.source) if message.source is not None else message
