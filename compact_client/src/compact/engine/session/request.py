"""Message lists at the boundary to the host: the snapshot of a list, and the request that is sent."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from compact.engine.session.continuation import identity, is_instruction
from compact.events import PROMPT_PARTS
from compact.messages import Message
from compact.messages.api_rules import ApiRules
from compact.messages.codecs import LANGCHAIN
from compact.messages.codecs.base import ID_OF_NAME, Codec
from compact.messages.codecs.langchain import to_langchain
from compact.messages.codecs.quarantine import decode_item
from compact.planning.budget import Breakdown, breakdown_part


@dataclass(slots=True)
class ListSnapshot:
    """A message list as the host has it: copies of the items for comparison, and the id of each."""

    items: list[Any] = field(default_factory=list)
    metas: list[dict[str, Any] | None] | None = None
    """The meta of each `Message` object, because a caller may change it in place. None without such objects."""
    ids: list[str] = field(default_factory=list)
    spoken_count: int = 0
    """The number of items that are not instructions."""
    marked: list[int] = field(default_factory=list)
    """The indexes of the items that `without_meta` changes."""

    def is_prefix_of(self, items: Sequence[Any]) -> bool:
        """True if the list starts with exactly these items."""
        size = len(self.items)
        start = items[:size]
        if len(items) < size or (start if isinstance(start, list) else list(start)) != self.items:
            return False
        return self.metas is None or [getattr(item, "meta", None) for item in items[:size]] == self.metas

    def add(self, item: Any, message_id: str) -> None:
        """Append an item."""
        if isinstance(item, Message) and self.metas is None:
            self.metas = [None] * len(self.items)
        if self.metas is not None:
            self.metas.append(dict(item.meta) if isinstance(item, Message) else None)
        if has_meta(item):
            self.marked.append(len(self.items))
        self.items.append(item)
        self.ids.append(message_id)
        self.spoken_count += not is_instruction(item)

    def extend(self, items: Iterable[Any], messages: Sequence[Message]) -> None:
        """Append items with the ids of their messages."""
        for item, message in zip(items, messages, strict=True):
            self.add(item, message.id or "")

    def is_unchanged(self, index: int, item: Any) -> bool:
        """True if the host shows the item at this index again, as it was or as it was returned, without `meta`."""
        if item not in (self.items[index], without_meta(self.items[index])):
            return False
        return self.metas is None or getattr(item, "meta", None) == self.metas[index]


@dataclass(slots=True)
class Request:
    """The messages to send, the origin of each in the host's list, and running token sums."""

    messages: list[Message] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    origins: list[int | None] = field(default_factory=list)
    """The index of each message in the host's list, or None if this library wrote it."""
    sums: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PROMPT_PARTS, 0))
    open_calls: dict[str, int] = field(default_factory=dict)
    open_hosted_calls: set[str] = field(default_factory=set)
    """Calls that the provider has not answered yet. It does not, if the user speaks first."""
    is_normal: bool = True
    """False if a tool output has no call, or does not follow it."""
    is_host_list: bool = True
    """True if the request is the host's own list, unchanged."""
    has_ephemeral: bool = False
    """True if it contains rehydrated content, so the next request must be rendered from the view again."""

    @property
    def message_tokens(self) -> int:
        """Tokens of all messages."""
        return sum(self.sums.values())

    def add(self, message: Message, tokens: int, origin: int | None, *, protected_flag: str, rules: ApiRules) -> None:
        """Append a message."""
        self.messages.append(message)
        self.counts.append(tokens)
        self.origins.append(origin)
        self.sums[breakdown_part(message, protected_flag=protected_flag)] += tokens
        if self.open_calls and not message.answers and not _may_follow_calls(message, rules):
            self.is_normal = False
        if self.open_hosted_calls and message.role == "user":
            self.is_normal = False
        self.open_hosted_calls.difference_update(message.answers)
        for call_id in message.answers:
            waiting = self.open_calls.get(call_id, 0)
            if waiting == 0:
                self.is_normal = False
            elif waiting == 1:
                del self.open_calls[call_id]
            else:
                self.open_calls[call_id] = waiting - 1
        for call in message.tool_calls:
            if call.is_hosted:
                self.open_hosted_calls.add(call.id)
            if call.needs_output:
                self.open_calls[call.id] = self.open_calls.get(call.id, 0) + 1

    def breakdown(self, *, tools: int, instructions: int, overhead: int, protected_flag: str) -> Breakdown:
        """Return the tokens of each part of the prompt. The trailing user messages are the user input."""
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

    @classmethod
    def of(
        cls, messages: Sequence[Message], counts: Sequence[int], host: ListSnapshot, flag: str, rules: ApiRules
    ) -> Request:
        """Return the request of normalized messages. `flag` is the key that marks a message as protected."""
        indices = {message_id: index for index, message_id in enumerate(host.ids)}
        request = cls()
        for message, tokens in zip(messages, counts, strict=True):
            origin = indices.get(message.id or "")
            if origin is not None and not _is_same(source_item(message), host.items[origin]):
                origin = None
            request.add(message, tokens, origin, protected_flag=flag, rules=rules)
        # The messages are paired now. A call that is still open is one that the provider itself answers.
        request.is_normal, request.open_calls = True, {}
        request.is_host_list = request.origins == list(range(len(host.items)))
        return request

    def returned_list(self, host: ListSnapshot) -> ListSnapshot:
        """Return the list that the host gets, as a snapshot. It is empty if that is the host's own list."""
        returned = ListSnapshot()
        if not self.is_host_list:
            for message, origin in zip(self.messages, self.origins, strict=True):
                item = source_item(message) if origin is None else host.items[origin]
                returned.add(without_meta(item), message.id or "")
        return returned

    def to_items(self, host_items: Sequence[Any], host_list: ListSnapshot) -> list[Any]:
        """Return the list to send: the host's own objects where they are unchanged, copies of ours elsewhere.

        `host_list` is the snapshot of the host's items. It knows which of them have a key that must not be sent.
        """
        if self.is_host_list:
            items = list(host_items)
            for index in host_list.marked:
                items[index] = without_meta(items[index])
            return items
        return [
            without_meta(host_items[origin]) if origin is not None else to_item(message)
            for message, origin in zip(self.messages, self.origins, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class SentRequest:
    """The data needed to render a past request again."""

    branch: int
    view_version: int
    view_length: int
    plan_version: int
    injected: tuple[Message, ...] = ()


class SentRequests:
    """The last requests of a session, numbered from 1 over all branches."""

    def __init__(self, max_requests: int) -> None:
        self.count = 0
        """The number of requests that were ever sent."""
        self._requests: deque[SentRequest] = deque(maxlen=max_requests)

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def first_number(self) -> int:
        """The number of the oldest request that is still known."""
        return self.count - len(self._requests) + 1

    @property
    def evicted_count(self) -> int:
        """The number of requests that are no longer known."""
        return self.count - len(self._requests)

    def append(self, request: SentRequest) -> None:
        """Add a request, and forget the oldest one if there are too many."""
        self._requests.append(request)
        self.count += 1

    def get(self, number: int) -> SentRequest | None:
        """Return a request by its number, or None if it is not known."""
        index = number - self.first_number
        return self._requests[index] if 0 <= index < len(self._requests) else None

    def plan_versions(self, branch: int) -> set[int]:
        """Return the versions of the plans that the requests of a branch need."""
        return {request.plan_version for request in self._requests if request.branch == branch}


def read_items(codec: Codec, items: Sequence[Any], indices: Iterable[int]) -> Iterator[tuple[int, Any, Message]]:
    """Yield the index of each of these items, a copy of it, and the message in it."""
    for index in indices:
        copy = frozen_copy(items[index])
        message = decode_item(codec, to_plain(copy), index)
        if index and message.tool_call_id is not None and message.tool_call_id.startswith(ID_OF_NAME):
            message = codec.pair(message, to_plain(items[index - 1]))
        yield index, copy, message


def frozen_copy(item: Any) -> Any:
    """Copy a provider's item so that the host cannot change it. Strings are shared."""
    if isinstance(item, dict):
        return {key: frozen_copy(value) for key, value in item.items()}
    if isinstance(item, list):
        return [frozen_copy(value) for value in item]
    return item.model_copy(deep=True) if hasattr(item, "model_copy") else item


def to_plain(item: Any) -> Any:
    """Convert a provider's SDK objects, at any depth, to the dicts that codecs read."""
    if isinstance(item, dict):
        return {key: to_plain(value) for key, value in item.items()}
    if isinstance(item, list):
        return [to_plain(value) for value in item]
    return item.model_dump(mode="json", exclude_none=True) if hasattr(item, "model_dump") else item


def source_item(message: Message) -> Any:
    """Return the provider's item that a message was read from, or the message itself."""
    return message.source if message.source is not None else message


def to_item(message: Message) -> Any:
    """Return a message in the host's format, as a copy that the host may change."""
    if message.source is None:
        return message
    if LANGCHAIN.recognizes(message.source):
        return to_langchain(message.source)
    return without_meta(frozen_copy(message.source))


def without_meta(item: Any) -> Any:
    """Return a provider's item without the key that only this library understands. The providers reject it."""
    if has_meta(item):
        return {key: value for key, value in item.items() if key != "meta"}
    return item


def with_meta_of(message: Message, changed: Message) -> Message:
    """Return a changed message with the `meta` of its earlier form, unless the host has written one.

    A host that goes on with the list that it got has items without it.
    """
    if not has_meta(message.source) or changed.source is None or has_meta(changed.source):
        return changed
    return replace(changed, meta=message.meta, source={**changed.source, "meta": message.meta})


def has_meta(item: Any) -> bool:
    """True if a provider's item has the key that only this library understands."""
    return isinstance(item, dict) and "meta" in item


def _may_follow_calls(message: Message, rules: ApiRules) -> bool:
    """True if a message may stand between calls and their outputs, as part of the same response."""
    return message.role == "assistant" and (rules.merges_roles or not rules.outputs_follow_calls)


def _is_same(item: Any, host_item: Any) -> bool:
    """True if the host shows this item, perhaps with a cache mark that it has moved there."""
    plain = to_plain(host_item)
    return bool(item in (host_item, plain) or identity(item) == identity(plain))
