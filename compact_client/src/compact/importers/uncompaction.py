"""Give back what a compaction dropped: the lost facts of a log, ranked, and passages that match a query.

Everything is redacted. Pure: the same conversation gives the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from compact.events.phrases import format_reduction
from compact.importers.conversation import Conversation
from compact.ledgers.foreign_compaction import MAIN, Compaction, LogMessage
from compact.ledgers.inferred_ledger import UNDISCLOSED, InferredLedger, infer_ledger
from compact.messages import Message
from compact.messages.codecs import get_codec
from compact.messages.codecs.quarantine import decode_item
from compact.reading.facts import rank_of_kind
from compact.recall import Passage, PassageIndex, Source
from compact.recall.sections import searchable_text
from compact.redaction.view import mask_conversation

HEADINGS: Final = {
    "constraint": "Rules",
    "goal": "Requests",
    "decision": "Decisions",
    "open_item": "Open items",
    "file": "File changes",
}
_OTHER_HEADING: Final = "Names, ids and values"
_MAX_TEXT_CHARS: Final = 400
_MAX_CONTEXT_CHARS: Final = 300
_QUOTE_CHARS: Final = 80


@dataclass(frozen=True, slots=True)
class LostItem:
    """A fact that a compaction removed from the prompt."""

    kind: str
    text: str
    compaction: int
    """The number of the compaction in its session, from 1."""
    turn: int | None = None
    time: str | None = None
    weight: float = 0.0
    """The weight among facts of its kind. A server does not report it."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def lost_items(conversation: Conversation, *, last: int = 1) -> tuple[list[LostItem], list[str]]:
    """Return what the last compactions dropped, the most binding first, and notes for the reader.

    `last` is the number of compactions, 0 for all of them.
    """
    compactions = main_compactions(conversation)
    chosen = compactions[-last:] if last else compactions
    turns = _turns(conversation)
    notes = [] if compactions else ["The log has no compaction, so nothing was dropped."]
    items: list[LostItem] = []
    for compaction in chosen:
        ledger = infer_ledger(compaction)
        if not ledger.is_disclosed:
            notes.append(f"Compaction {compaction.number}: {UNDISCLOSED} These facts are in no readable message.")
        items += _items_of(ledger, turns)
    return rank_items(items), notes


def _items_of(ledger: InferredLedger, turns: Mapping[str, tuple[int, str | None]]) -> Iterator[LostItem]:
    """Yield the facts that one compaction lost."""
    compaction = ledger.compaction
    texts = {message.id: searchable_text(message) for message in ledger.before}
    for fact in ledger.lost:
        source = next((turns[name] for name in fact.source_ids if name in turns), None)
        turn, time = source or (None, compaction.at)
        text = fact.text
        if fact.kind not in HEADINGS:
            text = next((_quote(text, texts[name]) for name in fact.source_ids if name in texts), text)
        yield LostItem(fact.kind, text, compaction.number, turn, time, fact.weight)


def items_from_facts(
    facts: Iterable[Mapping[str, Any]], compaction: int, time: str | None, turns: Mapping[str, int] | None = None
) -> list[LostItem]:
    """Return the lost facts of a `compact.retention` event as items, each in its `sentence` if it has one."""
    items = []
    for fact in facts:
        kind, sources = str(fact.get("kind", "")), fact.get("source_ids")
        known = (turns or {}).get(str(sources[0])) if isinstance(sources, list) and sources else None
        text = str(fact.get("sentence") or fact.get("text", ""))
        items.append(LostItem(kind, text, compaction, known, time))
    return items


def rank_items(items: Iterable[LostItem]) -> list[LostItem]:
    """Return the items without repetitions, the most binding first, in the order of the retention check."""
    unique: dict[tuple[str, str], LostItem] = {}
    for item in items:
        unique.setdefault((item.kind, item.text), item)
    return sorted(unique.values(), key=lambda item: (rank_of_kind(item.kind), -item.weight))


def render_items(
    items: Sequence[LostItem], notes: Sequence[str], *, max_tokens: int, count_tokens: Callable[[str], int]
) -> str:
    """Return the items as text to paste back into an agent. Items that do not fit are counted, not shortened away."""
    closing_tokens = 30
    left = max_tokens - closing_tokens - sum(count_tokens(note) for note in notes)
    groups: dict[str, list[str]] = {}
    for item in items:
        line, heading = _line(item), _heading(item)
        left -= count_tokens(line) + (6 if heading not in groups else 0)
        if left < 0:
            break
        groups.setdefault(heading, []).append(line)
    lines = [*notes, *(["A compaction removed this from the conversation:"] if groups else ())]
    for heading in (*HEADINGS.values(), _OTHER_HEADING):
        if heading in groups:
            lines += ["", f"{heading}:", *groups[heading]]
    if others := len(items) - sum(map(len, groups.values())):
        lines += ["", f"{others:,} more did not fit into {max_tokens:,} tokens."]
    return "\n".join(lines).strip() or "No facts were lost."


def explain(ledger: InferredLedger, items: Sequence[LostItem], shown: int = 10) -> str:
    """Return what a compaction did to the prompt, in a few lines."""
    compaction = ledger.compaction
    fates = ", ".join(f"{count:,} {fate}" for fate, count in sorted(ledger.fates.items()))
    kept = "unknown" if ledger.facts_kept is None else f"{ledger.facts_kept:,}"
    at = compaction.at or "time unknown"
    lines = [
        f"Compaction {compaction.number} by {compaction.agent}, trigger {compaction.trigger}, {at}.",
        f"Prompt: {format_reduction(ledger.tokens_before, ledger.tokens_after)}. Messages (inferred): {fates}.",
        f"Facts of the removed messages: {ledger.facts_total:,}, kept: {kept}.",
    ]
    if ledger.note:
        lines.append(ledger.note)
    lines += ["Most binding facts that were lost:", *(_line(item) for item in items[:shown])] if items else []
    return "\n".join(lines)


def main_compactions(conversation: Conversation) -> list[Compaction]:
    """Return the compactions of the agent itself, without those of its sub-agents."""
    return [compaction for compaction in conversation.compactions if compaction.thread == MAIN]


class LogIndex:
    """The search index of one log. It ranks as the server does, which does not know the prompt of the moment."""

    def __init__(self, conversation: Conversation) -> None:
        messages = log_messages(conversation)
        self._passages = PassageIndex()
        sources: list[Source] = []
        calls: dict[str, str] = {}
        turns = _turns(conversation)
        for log_message, message in zip(messages, _mask(messages, conversation), strict=True):
            calls.update({call.id: f"{call.name} {call.arguments[:_MAX_CONTEXT_CHARS]}" for call in message.tool_calls})
            text = searchable_text(message)
            context = " ".join(calls.get(call_id, "") for call_id in message.answers)
            role = "tool" if message.answers else message.role
            turn = turns[log_message.id][0]
            sources.append(Source(log_message.id, role, text, turn, log_message.at, context))
        self._passages.add(sources)

    def search(self, query: str, *, limit: int, max_tokens: int, count_tokens: Callable[[str], int]) -> list[Passage]:
        """Return the passages that match a query, best first."""
        return self._passages.search(
            query,
            limit=limit,
            max_tokens=max_tokens,
            count_tokens=count_tokens,
        )


def log_messages(conversation: Conversation) -> list[LogMessage]:
    """Return every message of the main thread, in order."""
    messages: dict[str, LogMessage] = {}
    for compaction in main_compactions(conversation):
        messages |= {message.id: message for message in compaction.before if message.id not in messages}
    messages |= {message.id: message for message in conversation.context if message.id not in messages}
    if messages:
        return list(messages.values())
    return [LogMessage(f"m{index}", item) for index, item in enumerate(conversation.items, 1)]


def _mask(messages: Sequence[LogMessage], conversation: Conversation) -> Sequence[Message]:
    codec = get_codec(conversation.format or "chat")
    decoded = [
        replace(decode_item(codec, message.item, index), id=message.id) for index, message in enumerate(messages)
    ]
    return mask_conversation(decoded)


def _turns(conversation: Conversation) -> dict[str, tuple[int, str | None]]:
    """Return the user turn and the time of each message."""
    turns: dict[str, tuple[int, str | None]] = {}
    turn = 0
    codec = get_codec(conversation.format or "chat")
    for index, message in enumerate(log_messages(conversation)):
        decoded = decode_item(codec, message.item, index)
        turn += decoded.role == "user" and not decoded.answers and not message.is_program
        turns[message.id] = (max(1, turn), message.at)
    return turns


def _quote(value: str, text: str) -> str:
    """Return the line around a value, because a bare number or name says little."""
    start = text.lower().find(value.lower())
    if start < 0:
        return value
    first = max(text.rfind("\n", 0, start) + 1, start - _QUOTE_CHARS)
    newline = text.find("\n", start)
    last = min(newline if newline >= 0 else len(text), start + len(value) + _QUOTE_CHARS)
    return text[first:last].strip()


def _heading(item: LostItem) -> str:
    return HEADINGS.get(item.kind, _OTHER_HEADING)


def _line(item: LostItem) -> str:
    text = " ".join(item.text.split())
    text = text if len(text) <= _MAX_TEXT_CHARS else f"{text[:_MAX_TEXT_CHARS]}…"
    place = ", ".join(filter(None, (f"turn {item.turn}" if item.turn else "", item.time or "")))
    return f"- {text} ({place})" if place else f"- {text}"
