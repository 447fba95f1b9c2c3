"""The ledger of a compaction that another agent or a provider made.

The log has the prompt before and what is known about the prompt after. The fate of each message is inferred from
both, and every entry says so. All of it is built from redacted messages. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from compact.ledgers.foreign_compaction import Compaction, Format, LogMessage
from compact.ledgers.inferred_facts import find_facts
from compact.messages import Message, RedactedMessage, content_hash
from compact.messages.codecs import get_codec
from compact.messages.codecs.quarantine import decode_item
from compact.reading.facts import Fact, count_by_kind, kept_share
from compact.reading.tokens import estimate_tokens
from compact.redaction import log_content
from compact.redaction.view import mask_conversation

MaskMessages = Callable[[Sequence[LogMessage], Format], list[RedactedMessage]]
UNDISCLOSED = "The provider does not disclose this summary."
_NO_SUMMARY = "no summary in the log"
_ABSORBED = "older than the compaction"
_NO_TRACE = "none of its facts are in the new prompt"


@dataclass(frozen=True)
class InferredLedger:
    """The fate of each message and of each fact in a foreign compaction."""

    compaction: Compaction
    before: tuple[RedactedMessage, ...]
    after: tuple[RedactedMessage, ...]
    facts: tuple[Fact, ...]
    """The facts of the messages that left the prompt, those that look most like a commitment first."""

    @property
    def is_disclosed(self) -> bool:
        """True if the new prompt can be read. Otherwise it is unknown which facts were kept."""
        return not self.compaction.is_opaque

    @property
    def note(self) -> str:
        """A sentence for readers if the summary cannot be read."""
        return "" if self.is_disclosed else UNDISCLOSED

    @property
    def lost(self) -> tuple[Fact, ...]:
        """The facts that the readable part of the new prompt does not have, best first."""
        return tuple(fact for fact in self.facts if not fact.is_kept)

    @property
    def kept(self) -> tuple[Fact, ...]:
        """The facts that the new prompt has, best first."""
        return tuple(fact for fact in self.facts if fact.is_kept)

    @property
    def facts_total(self) -> int:
        """Number of facts in the messages that left the prompt."""
        return len(self.facts)

    @property
    def facts_kept(self) -> int | None:
        """Number of facts that the new prompt has, or None if the summary cannot be read."""
        return len(self.kept) if self.is_disclosed else None

    @property
    def by_kind(self) -> dict[str, dict[str, int]]:
        """Number of facts found, kept and lost per kind."""
        return count_by_kind(self.facts, self.lost)

    @property
    def weighted_retention(self) -> float:
        """The weighted share of facts that were kept."""
        return kept_share(self.facts, self.lost)

    @cached_property
    def entries(self) -> list[dict[str, Any]]:
        """The fate of every message of the old prompt, in order, as DESIGN's ledger has it."""
        own_facts: dict[str, list[bool]] = {}
        for fact in self.facts:
            for source in fact.source_ids:
                own_facts.setdefault(source, []).append(fact.is_kept)
        return [self._entry(message, own_facts.get(message.id or "", ())) for message in self.before]

    @cached_property
    def after_entries(self) -> list[dict[str, Any]]:
        """Id, hash, role and tokens of every message of the new prompt."""
        return [_prompt_entry(message) for message in self.after]

    @property
    def fates(self) -> dict[str, int]:
        """Number of messages per fate."""
        return dict(Counter(entry["fate"] for entry in self.entries))

    @property
    def tokens_before(self) -> int:
        """The size of the old prompt, from the log if it has it."""
        return self.compaction.tokens_before or sum(entry["tokens"] for entry in self.entries)

    @property
    def tokens_after(self) -> int | None:
        """The size of the new prompt, or None if the log does not have it yet.

        The messages of a log lack system prompt, tools and memory files, so their sum is compared only with a sum.
        """
        if self.compaction.tokens_after or self.compaction.tokens_before:
            return self.compaction.tokens_after
        return sum(int(entry["tokens"]) for entry in self.after_entries)

    @property
    def summary(self) -> str | None:
        """The redacted summary, a note if the provider hides it, or None if there is none."""
        if not self.is_disclosed:
            return UNDISCLOSED
        name = self.compaction.summary_id
        text = next((message.text for message in self.after if message.id == name), None)
        return text if text is not None or self.compaction.summary is None else _mask_text(self.compaction.summary)

    def _entry(self, message: RedactedMessage, own_facts: Sequence[bool]) -> dict[str, Any]:
        fate, rule, into = self._fate(message.id or "", own_facts)
        entry = {**_prompt_entry(message), "fate": fate, "rule": rule}
        if self.compaction.is_inferred:
            entry["inferred"] = True
        return {**entry, "into": into} if into else entry

    def _fate(self, name: str, own_facts: Sequence[bool]) -> tuple[str, str, str | None]:
        compaction = self.compaction
        if known := compaction.fates.get(name):
            return (*known, compaction.summary_id if known[0] == "summarized" else None)
        if compaction.is_opaque:
            return "summarized", "the provider does not disclose this summary", compaction.summary_id
        if not compaction.summary:
            return "dropped", _NO_SUMMARY, None
        if own_facts and not any(own_facts):
            return "dropped", _NO_TRACE, None
        return "summarized", _ABSORBED, compaction.summary_id


def infer_ledger(compaction: Compaction, *, mask: MaskMessages | None = None) -> InferredLedger:
    """Return the ledger of a foreign compaction. `mask` is `seal_messages` if the log is redacted already."""
    mask = mask or mask_messages
    before = mask(compaction.before, compaction.format)
    after = mask(compaction.after, compaction.format)
    kept = {name for name, (fate, _) in compaction.fates.items() if fate == "kept"}
    removed = [message for message in before if message.id not in kept]
    program_ids = {message.id for message in compaction.before if message.is_program}
    facts = find_facts(removed, after, program_ids=program_ids)
    return InferredLedger(compaction, tuple(before), tuple(after), tuple(facts))


def mask_messages(messages: Sequence[LogMessage], message_format: Format) -> list[RedactedMessage]:
    """Return redacted messages. Those that an earlier compaction of the log has needed are not redacted again."""
    return _mask(messages, message_format, mask_conversation)


def seal_messages(messages: Sequence[LogMessage], message_format: Format) -> list[RedactedMessage]:
    """Return the messages of a log whose records were redacted when they were read."""
    return _mask(messages, message_format, log_content.seal_messages)


def _mask(
    messages: Sequence[LogMessage],
    message_format: Format,
    mask: Callable[[Sequence[Message]], Sequence[RedactedMessage]],
) -> list[RedactedMessage]:
    new = [message for message in messages if message.masked is None]
    for message, masked in zip(new, mask(decode_messages(new, message_format)), strict=True):
        message.masked = masked
    return [message.masked for message in messages if message.masked is not None]


def decode_messages(messages: Sequence[LogMessage], message_format: Format) -> list[Message]:
    """Return messages of a log with the ids that they have there."""
    codec = get_codec(message_format)
    return [replace(decode_item(codec, entry.item, index), id=entry.id) for index, entry in enumerate(messages)]


def _mask_text(text: str) -> str:
    return mask_conversation([Message("user", text)])[0].text


def _prompt_entry(message: RedactedMessage) -> dict[str, Any]:
    size = message.text, *(f"{call.name} {call.arguments}" for call in message.tool_calls)
    tokens = sum(map(estimate_tokens, size)) + message.extra_tokens
    return {"id": message.id, "hash": content_hash(message.to_dict()), "role": message.role, "tokens": tokens}
