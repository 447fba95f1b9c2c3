"""Find the messages that a compaction of Codex keeps, and its summary, in the history that it logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from compact.ledgers.foreign_compaction import Compaction, LogFate, LogMessage
from compact.messages import INSTRUCTION_ROLES, content_hash
from compact.messages.json_values import as_text, text_blocks

_SEALED = {"compaction", "compaction_summary"}
# Keys that Codex changes when it writes an item again.
_VOLATILE = {"id", "status", "internal_chat_message_metadata_passthrough", "phase", "metadata"}
# Codex keeps the latest user messages up to this size if a record does not list the new prompt.
_KEPT_USER_CHARS = 80_000
_MIN_PREFIX_CHARS = 40


def apply_history(compaction: Compaction, history: Iterable[Mapping[str, Any]]) -> None:
    """Find the messages of the old prompt in the new one, and the summary among the others."""
    unmatched: dict[str, list[LogMessage]] = {}
    for message in compaction.before:
        unmatched.setdefault(_fingerprint(message.item), []).append(message)
    fates: dict[str, tuple[LogFate, str]] = {}
    after: list[LogMessage] = []
    added: list[LogMessage] = []
    for index, item in enumerate(history):
        same = unmatched.get(_fingerprint(item))
        if same:
            message = same.pop(0)
            fates[message.id] = ("kept", "in the replacement history")
        else:
            name = as_text(item.get("id")) or f"{compaction.id}-{index}"
            message = LogMessage(name, dict(item), compaction.at, compaction.line)
            added.append(message)
        after.append(message)
    compaction.fates, compaction.after = fates, tuple(after)
    rest = [message for messages in unmatched.values() for message in messages]
    _read_additions(compaction, added, rest)


def _read_additions(compaction: Compaction, added: list[LogMessage], rest: list[LogMessage]) -> None:
    """Find shortened messages and the summary among the items that the old prompt did not have."""
    fates, after = dict(compaction.fates), list(compaction.after)
    sealed = [message for message in added if message.item.get("type") in _SEALED]
    for message in added:
        original = _truncated_original(message, rest)
        if original is not None:
            fates[original.id] = ("truncated", "in the replacement history, shortened")
            after[after.index(message)] = LogMessage(original.id, message.item, original.at, original.line)
            rest.remove(original)
        elif message.item.get("role") in ("user", "assistant") and not sealed:
            compaction.summary = compaction.summary or text_blocks(message.item.get("content"))
            compaction.summary_id = message.id
            message.is_program = True
    if sealed:
        compaction.summary_id = sealed[-1].id
        compaction.is_opaque = not compaction.summary and not text_blocks(sealed[-1].item.get("summary"))
    compaction.fates, compaction.after = fates, tuple(after)


def _truncated_original(message: LogMessage, candidates: Iterable[LogMessage]) -> LogMessage | None:
    """Return the message that a shortened one was made from. Codex keeps its beginning and its end."""
    text = text_blocks(message.item.get("content"))
    if len(text) < _MIN_PREFIX_CHARS or message.item.get("type") != "message":
        return None
    start = text[:_MIN_PREFIX_CHARS]
    for candidate in candidates:
        if candidate.item.get("role") == message.item.get("role"):
            whole = text_blocks(candidate.item.get("content"))
            if len(whole) > len(text) and whole.startswith(start):
                return candidate
    return None


def keep_user_messages(compaction: Compaction) -> None:
    """Assume the new prompt of versions that do not log it: the latest user messages and the summary."""
    fates: dict[str, tuple[LogFate, str]] = {}
    chars = 0
    for message in reversed(compaction.before):
        item = message.item
        if item.get("type") == "message" and item.get("role") == "user":
            chars += len(text_blocks(item.get("content")))
            if chars <= _KEPT_USER_CHARS:
                fates[message.id] = ("kept", "Codex keeps the latest user messages")
        elif item.get("type") == "message" and item.get("role") in INSTRUCTION_ROLES:
            fates[message.id] = ("kept", "instructions")
    kept = [message for message in compaction.before if message.id in fates]
    name = f"{compaction.id}-summary"
    content = [{"type": "input_text", "text": compaction.summary or ""}]
    summary = LogMessage(name, {"type": "message", "role": "user", "content": content}, compaction.at, compaction.line)
    summary.is_program = True
    compaction.summary_id = name if compaction.summary else None
    compaction.fates = fates
    compaction.after = (*kept, summary) if compaction.summary else tuple(kept)


def _fingerprint(item: Mapping[str, Any]) -> str:
    if item.get("type", "message") == "message" and item.get("role"):
        return content_hash({"role": item["role"], "text": text_blocks(item.get("content"))})
    return content_hash({key: value for key, value in item.items() if key not in _VOLATILE})
