"""The ledger of a compaction or a context edit that a provider made.

It is inferred from the request and from the counts in the response, by the code for compactions in agents' logs. Ids
are positions in the request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compact.ledgers.foreign_compaction import Compaction, LogFate, LogMessage
from compact.ledgers.inferred_ledger import InferredLedger, infer_ledger
from compact.messages import Message, RedactedMessage
from compact.messages.block_kinds import is_reasoning
from compact.messages.codecs import detect_codec, get_codec
from compact.messages.codecs.langchain import HostMessages
from compact.messages.codecs.quarantine import decode_item
from compact.redaction.outbound import OutboundRedactor
from compact.redaction.view import mask_conversation

COMPACTIONS = ("compaction", "compaction_summary")
"""The types of items and blocks that replace everything before them."""
SUMMARY_ID = "compaction"
"""The id of a compaction without one of its own."""
_FORMATS = {"openai": "responses", "anthropic": "anthropic"}
_CLEARED = "[cleared]"


class SentPrompt:
    """The redacted messages of one request that the provider still read: those since its last compaction."""

    def __init__(self, items: Sequence[Any], provider: str, redactor: OutboundRedactor) -> None:
        read = HostMessages(items).items
        self._provider = provider
        self._redactor = redactor
        self._codec = detect_codec(read) or get_codec(_FORMATS[provider])
        start = max((index for index, item in enumerate(read) if _is_compaction(item)), default=0)
        self._messages = [
            replace(decode_item(self._codec, read[index], index), id=f"m{index + 1}")
            for index in range(start, len(read))
        ]
        masked = mask_conversation(self._messages, redactor)
        self._before = tuple(_log_message(message) for message in masked)

    def summary_ledger(self, item_id: str | None, summary: str | None) -> InferredLedger:
        """Return the ledger of a compaction of all messages. A summary that is encrypted is None."""
        name = item_id or SUMMARY_ID
        return infer_ledger(
            Compaction(
                id=name,
                number=0,
                agent=self._provider,
                at=None,
                before=self._before,
                format="anthropic",
                after=() if summary is None else self._mask([Message("user", summary, id=name)]),
                summary=summary,
                summary_id=name,
                is_opaque=summary is None,
            )
        )

    def failure_ledger(self) -> InferredLedger:
        """Return the ledger of a compaction that failed, after which every message is still there."""
        return self._edit_ledger({}, ("cleared", ""), ("kept", "the compaction failed"))

    def result_ledger(self, count: int) -> tuple[InferredLedger, bool]:
        """Return the ledger of an edit that cleared the oldest tool results, and whether the request has that many."""
        results = [call_id for message in self._messages for call_id, _ in self._codec.outputs(message)]
        cleared = set(results[:count])
        changed = {
            message.id or "": self._codec.map_outputs(
                message, lambda call_id, text: _CLEARED if call_id in cleared else text
            )
            for message in self._messages
            if not cleared.isdisjoint(message.answers)
        }
        fates: tuple[LogFate, str] = ("cleared", "old tool result")
        return self._edit_ledger(changed, fates, ("kept", "not a cleared tool result")), len(results) >= count

    def thinking_ledger(self, count: int) -> tuple[InferredLedger, bool]:
        """Return the ledger of an edit that cleared the first turns of thinking, and whether it has that many."""
        turns = list(self._thinking_turns())
        changed = {message.id or "": _without_thinking(message) for turn in turns[:count] for message in turn}
        fates: tuple[LogFate, str] = ("cleared", "thinking of an old turn")
        return self._edit_ledger(changed, fates, ("kept", "no cleared thinking")), len(turns) >= count

    def _edit_ledger(
        self,
        changed: Mapping[str, Message],
        fate: tuple[LogFate, str],
        other_fate: tuple[LogFate, str],
    ) -> InferredLedger:
        masked = {message.id: message for message in self._mask(list(changed.values()))}
        return infer_ledger(
            Compaction(
                id="edit",
                number=0,
                agent=self._provider,
                at=None,
                before=self._before,
                format="anthropic",
                after=tuple(masked.get(message.id, message) for message in self._before),
                fates={message.id: fate if message.id in changed else other_fate for message in self._before},
            )
        )

    def _thinking_turns(self) -> Iterator[list[Message]]:
        """Yield the messages with thinking of each turn that has any. A tool loop is one turn."""
        turn: list[Message] = []
        for message in self._messages:
            if message.role == "user" and turn:
                yield turn
                turn = []
            if any(is_reasoning(block) for block in _blocks(message.source)):
                turn.append(message)
        if turn:
            yield turn

    def _mask(self, messages: Sequence[Message]) -> tuple[LogMessage, ...]:
        return tuple(_log_message(message) for message in mask_conversation(messages, self._redactor))


def _log_message(message: RedactedMessage) -> LogMessage:
    return LogMessage(message.id or "", {}, is_program=message.is_summary, masked=message)


def _without_thinking(message: Message) -> Message:
    blocks = [block for block in _blocks(message.source) if not is_reasoning(block)]
    text = "\n".join(str(block["text"]) for block in blocks if isinstance(block.get("text"), str))
    return replace(message, content=text, source={**(message.source or {}), "content": blocks}, extra_tokens=0)


def _is_compaction(item: Any) -> bool:
    return _type(item) in COMPACTIONS or any(
        _type(block) in COMPACTIONS and block.get("content") is not None for block in _blocks(item)
    )


def _type(value: Any) -> Any:
    return value.get("type") if isinstance(value, Mapping) else None


def _blocks(item: Any) -> list[Mapping[str, Any]]:
    content = item.get("content") if isinstance(item, Mapping) else None
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
