"""The redacted view of a session's messages, from which everything that leaves the process is built.

Each message is redacted once, together with its neighbors, so that a secret that spans two messages is found. The view
has two forms of a message:

- `mask` has `<REDACTED>` in place of each secret. Events, archives and hashes use it.
- `reversible` has a numbered placeholder in place of each secret. Summarizers get it, and `restore` puts the values
  back when a summary enters the agent's own prompt.
"""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from compact.messages import Message, ToolCall, content_hash
from compact.messages.redacted_types import RedactedMessage, RedactedText, RedactedTree
from compact.messages.seal import seal_message, seal_message_as, seal_text, seal_tree
from compact.redaction.labels import redact_items
from compact.redaction.outbound import OutboundRedactor
from compact.redaction.placeholders import (
    Namer,
    PlaceholderTable,
    collapse,
    has_placeholder,
    map_texts,
    reversible_tree,
)

T = TypeVar("T")

# Above the number of messages in a million tokens. The texts are those of the log, so an entry takes half a kilobyte.
_MAX_MESSAGES = 100_000
# Shorter values occur by chance, so they are only masked where a rule finds them.
_MIN_VALUE_CHARS = 8
_MIN_LEAF_CHARS = 4
CONTEXT_MESSAGES = 16
"""Messages before a new one that are redacted again with it, if a secret may have started there."""
_NO_COUNTS: Counter[str] = Counter()


@dataclass(slots=True)
class _Entry:
    """The two forms of one message."""

    masked: RedactedMessage
    reversible: RedactedMessage
    counts: Counter[str]
    digest: str | None = None


class RedactionView:
    """The redacted messages of one session. Not thread-safe: the session's lock protects it."""

    def __init__(self, redactor: OutboundRedactor | None = None, *, max_messages: int = _MAX_MESSAGES) -> None:
        self._redactor = redactor or OutboundRedactor()
        self._max_messages = max_messages
        self.clear()

    def clear(self) -> None:
        """Forget all messages and all masked values."""
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._replacements: dict[str, _Entry] = {}
        self._table = PlaceholderTable()

    # Messages.

    def update(self, messages: Sequence[Message]) -> None:
        """Redact the messages that are not in the view yet, in order and together with their neighbors."""
        index = 0
        while index < len(messages):
            if messages[index].id in self._entries:
                index += 1
                continue
            start = self._context_start(messages, index)
            while index < len(messages) and messages[index].id not in self._entries:
                index += 1
            # One more, because a secret may continue in a message that is known already.
            self._redact_run(messages[start : index + 1])
        while len(self._entries) > max(self._max_messages, len(messages)):
            self._entries.popitem(last=False)

    def rename(self, old_id: str, new_id: str) -> None:
        """Change the id of a message, because an id contains the start of the hash of the redacted form."""
        entry = self._entries.pop(old_id)
        masked = seal_message_as(entry.masked, new_id)
        reversible = masked if entry.reversible is entry.masked else seal_message_as(entry.reversible, new_id)
        self._entries[new_id] = _Entry(masked, reversible, entry.counts, entry.digest)

    def forget(self, message_id: str) -> None:
        """Redact a message again, because the host changed it."""
        self._entries.pop(message_id, None)

    def mask(self, message: Message) -> RedactedMessage:
        """Return a message as it may leave the process. A truncated or cleared message is returned in full."""
        return self._entry(message).masked

    def reversible(self, message: Message) -> RedactedMessage:
        """Return a message with placeholders that `restore` can replace."""
        return self._entry(message).reversible

    def reversible_excerpt(self, message: Message) -> RedactedMessage:
        """Return a truncated message with placeholders, as far as its secrets are not cut in half."""

        def mask(text: str) -> str:
            return self._table.mask_values(text, min_chars=_MIN_VALUE_CHARS)

        return self._redact_alone(_map_message(message, mask)).reversible

    def counts(self, message: Message) -> Mapping[str, int]:
        """Return the number of redactions per rule."""
        return self._entry(message).counts

    def hash(self, message: Message) -> str:
        """Return the SHA-256 of the masked message's canonical JSON."""
        entry = self._entry(message)
        if entry.digest is None:
            entry.digest = content_hash(entry.masked.to_dict())
        return entry.digest

    def hashes(self, messages: Sequence[Message]) -> list[str]:
        """Return the hashes of messages that are not logged yet. They are redacted together."""
        return [content_hash(entry.masked.to_dict()) for entry in self._redact(messages)]

    def mask_unlogged(self, messages: Sequence[Message]) -> list[RedactedMessage]:
        """Return messages that are not in the log, such as archived ones, as they may leave the process."""
        return [entry.masked for entry in self._redact(messages)]

    # Texts that were derived from messages.

    def text(self, text: str) -> RedactedText:
        """Return a derived text, such as a summary or an error, as it may leave the process."""
        return seal_text(self._redactor.redact_value(collapse(text)))

    def quote(self, text: str) -> RedactedText:
        """Return a text about the messages, such as a query, without the secrets of the messages."""
        return self.text(self._table.mask_values(text, min_chars=_MIN_VALUE_CHARS))

    def tree(self, value: Mapping[str, Any]) -> RedactedTree:
        """Return a derived JSON object as it may leave the process."""
        return self.trees([value])[0]

    def trees(self, values: Iterable[Mapping[str, Any]]) -> list[RedactedTree]:
        """Return derived JSON objects as they may leave the process. They are searched at once."""
        return [seal_tree(tree) for tree in self._redactor.redact_value(map_texts(list(values), collapse))]

    def protect(self, value: T) -> T:
        """Return a JSON value from a summarizer with placeholders for secrets that it contains anyway."""
        plain = map_texts(value, collapse)
        masked = self._redactor.redact_value(plain)
        if masked is plain or masked == plain:
            return value
        protected: T = reversible_tree(value, masked, self._table.namer(0).rename)
        return protected

    def protect_text(self, text: str, message_id: str | None = None) -> RedactedMessage:
        """Return a summary, which may contain placeholders, as an assistant message for a summarizer."""
        return seal_message(Message("assistant", self.protect(text), id=message_id))

    # Text that goes back into the agent's own prompt.

    def restore(self, text: str) -> str:
        """Put the values back in place of their placeholders."""
        return self._table.restore(text)

    @property
    def has_values(self) -> bool:
        """True if any value was masked with a placeholder."""
        return len(self._table) > 0

    def restore_tree(self, value: T) -> T:
        """Put the values back in all texts of a JSON value."""
        restored: T = map_texts(value, self._table.restore)
        return restored

    def restore_message(self, message: Message) -> Message:
        """Return a message that a renderer wrote, with its values restored. Its hash is that of the masked form."""
        if not has_placeholder(message.text):
            return message
        if message.id is not None and message.id not in self._entries:
            self._replacements[message.id] = self._redact_alone(_map_message(message, collapse))
        return _map_message(message, self._table.restore)

    def learn(self, template: Message, message: Message) -> bool:
        """Read values from a replacement that another process restored. Return False if it is another message."""
        return self._table.learn(template.text, message.text)

    def _entry(self, message: Message) -> _Entry:
        message_id = message.id or ""
        entry = self._entries.get(message_id) or self._replacements.get(message_id)
        if entry is not None:
            return entry
        return self._redact_alone(message)

    def _redact_alone(self, message: Message) -> _Entry:
        return self._redact([message])[0]

    def _context_start(self, messages: Sequence[Message], index: int) -> int:
        """Return the first message to redact together with a new one: its neighbor, and where a secret started."""
        start = max(0, index - 1)
        while start > max(0, index - CONTEXT_MESSAGES) and self.counts(messages[start]):
            start -= 1
        return start

    def _redact_run(self, messages: Sequence[Message]) -> None:
        for message, entry in zip(messages, self._redact(messages), strict=True):
            known = self._entries.get(message.id or "")
            # A known neighbor changes only if a secret continues in the new messages.
            if known is None or (
                known.masked != entry.masked and sum(entry.counts.values()) >= sum(known.counts.values())
            ):
                self._entries[message.id or ""] = entry

    def _redact(self, messages: Sequence[Message]) -> list[_Entry]:
        hooked = [self._redactor.apply_message_hook(self._mask_restored(message)) for message in messages]
        items = [_item(message) for message in hooked]
        return [
            self._build_entry(raw, message, item, clean, counts)
            for raw, message, item, (clean, counts) in zip(
                messages, hooked, items, redact_items(items, self._redactor.redact_values), strict=True
            )
        ]

    def _mask_restored(self, message: Message) -> Message:
        """Mask the values that a summary of ours contains. The words that a rule needs may not be next to them."""
        if not message.is_replacement:
            return message

        def mask(text: str) -> str:
            return self._table.mask_values(collapse(text), min_chars=_MIN_VALUE_CHARS)

        return _map_message(message, mask)

    def _build_entry(
        self, raw: Message, message: Message, item: dict[str, Any], clean: dict[str, Any], counts: Counter[str]
    ) -> _Entry:
        is_same = (message is raw or message == raw) and (clean is item or clean == item)
        if is_same and not _has_objects(raw) and not has_placeholder(raw.text):
            sealed = seal_message(raw)
            return _Entry(sealed, sealed, _NO_COUNTS)
        if message is not raw and self._redactor.has_hook and message != raw:
            counts = counts + Counter(hook=1)
        masked = self._mask_fields(message, item, clean)
        namer = self._table.namer(_message_number(raw))
        return _Entry(seal_message(masked), seal_message(_reversible(raw, masked, namer)), counts)

    def _mask_fields(self, message: Message, item: dict[str, Any], clean: dict[str, Any]) -> Message:
        """Return the message with its masked item, and with the fields that were read from the item masked too."""
        leaves = dict(_changed_leaves(item, clean))

        def mask_leaves(text: str) -> str:
            if text in leaves:
                return leaves[text]
            for raw_leaf, leaf in leaves.items():
                text = text.replace(raw_leaf, leaf).replace(_json_escape(raw_leaf), _json_escape(leaf))
            return text

        def mask(value: Any) -> Any:
            # A secret that was only found with the help of another message is not found again in this one alone.
            return self._redactor.redact_value(map_texts(value, mask_leaves))

        meta = clean["meta"] if isinstance(clean.get("meta"), dict) else self._redactor.redact_value(message.meta)
        return replace(
            message,
            content=clean["content"] if message.source is None else mask(message.content),
            tool_calls=tuple(replace(call, arguments=mask(call.arguments)) for call in message.tool_calls),
            meta={key: self._mask_object(value) for key, value in meta.items()},
            name=mask(message.name),
            source=None if message.source is None else clean,
        )

    def _mask_object(self, value: Any) -> Any:
        """Return a dataclass instance in a message's meta, such as a tool result's envelope, with its fields masked."""
        if not is_dataclass(value) or isinstance(value, type):
            return value
        values = _object_fields(value)
        clean = self._redactor.redact_value(values)
        return value if clean == values else replace(value, **clean)


def redact_conversation(messages: Sequence[Message]) -> tuple[Sequence[RedactedMessage], RedactionView | None]:
    """Return messages with placeholders, and the view that can restore them.

    For callers outside of a session, who pass messages of their own. They are redacted by the default rules. Messages
    of a session's view are returned as they are, without a view.
    """
    if all(isinstance(message, RedactedMessage) for message in messages):
        return cast(Sequence[RedactedMessage], messages), None
    view = RedactionView()
    return [entry.reversible for entry in view._redact(messages)], view


def mask_conversation(messages: Sequence[Message], redactor: OutboundRedactor | None = None) -> list[RedactedMessage]:
    """Return messages as they may leave the process. Without a redactor, they are masked by the default rules."""
    redacted = [message for message in messages if isinstance(message, RedactedMessage)]
    if len(redacted) == len(messages):
        return redacted
    return [entry.masked for entry in RedactionView(redactor)._redact(messages)]


def _item(message: Message) -> dict[str, Any]:
    source = message.source
    return source if isinstance(source, dict) else message.to_dict()


def _message_number(message: Message) -> int:
    digits = (message.id or "")[1:].partition("-")[0]
    return int(digits) if digits.isdigit() else 0


def _reversible(raw: Message, masked: Message, name: Namer) -> Message:
    calls = [
        ToolCall(call.id, call.name, reversible_tree(raw_call.arguments, call.arguments, name), call.needs_output)
        for raw_call, call in zip(raw.tool_calls, masked.tool_calls, strict=False)
    ]
    source = None
    if raw.source is not None and masked.source is not None:
        source = reversible_tree(dict(raw.source), masked.source, name)
    return replace(
        masked,
        content=reversible_tree(raw.content, masked.content, name),
        tool_calls=tuple(calls),
        meta={key: _reversible_object(raw.meta.get(key), value, name) for key, value in masked.meta.items()},
        source=source,
    )


def _reversible_object(raw: Any, masked: Any, name: Namer) -> Any:
    if not is_dataclass(masked) or isinstance(masked, type) or type(raw) is not type(masked):
        return reversible_tree(raw, masked, name)
    return replace(masked, **reversible_tree(_object_fields(raw), _object_fields(masked), name))


def _has_objects(message: Message) -> bool:
    return any(is_dataclass(value) for value in message.meta.values())


def _object_fields(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass instance that can contain text."""
    values = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: item for name, item in values.items() if isinstance(item, str | dict | list | tuple)}


def _changed_leaves(raw: Any, clean: Any) -> Iterable[tuple[str, str]]:
    """Yield the texts of a JSON value that were masked, each with its masked form."""
    if raw is clean:
        return
    if isinstance(raw, str) and isinstance(clean, str):
        if raw != clean and len(raw) >= _MIN_LEAF_CHARS:
            yield raw, clean
    elif isinstance(raw, dict) and isinstance(clean, dict):
        for raw_item, item in zip(raw.values(), clean.values(), strict=False):
            yield from _changed_leaves(raw_item, item)
    elif isinstance(raw, (list, tuple)) and isinstance(clean, (list, tuple)):
        for raw_item, item in zip(raw, clean, strict=False):
            yield from _changed_leaves(raw_item, item)


def _json_escape(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _map_message(message: Message, change: Any) -> Message:
    """Return a message with a function applied to the texts of its content and of the provider's item."""
    source = None if message.source is None else map_texts(dict(message.source), change)
    return replace(message, content=map_texts(message.content, change), source=source)
