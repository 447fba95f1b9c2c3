"""Select the artifacts to rehydrate in a turn.

Rehydrated content is shown for one turn only and has its own token reserve. The limits are the number of artifacts per
turn, a cooldown for each artifact, the requester's permissions, and the artifact's sensitivity.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compact.messages import Message
from compact.planning.plan import ExternalizationRecord

READ_ARTIFACT = "read_artifact"
_NAME = re.compile(r"[\w./-]{4,}")
# Words of the hint itself, which say nothing about the content.
_HINT_PHRASE = frozenset({"read", "need", "full", "output"})
_MIN_HINT_WORDS = 3
_MIN_HINT_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class RehydrationConfig:
    """Limits of automatic rehydration."""

    enabled: bool = True
    max_artifacts_per_turn: int = 3
    max_tokens_per_artifact: int = 4000
    total_budget_tokens: int = 8000
    reserve_tokens: int = 2000
    """Tokens that a compaction leaves free for rehydrated content, as long as there are artifacts."""
    cooldown_turns: int = 2
    auto_rehydrate_sensitivities: frozenset[str] = frozenset({"public", "internal"})


@dataclass(frozen=True, slots=True)
class RehydrationResult:
    """Rehydrated content of one artifact."""

    artifact_id: str
    content: str
    token_count: int
    truncated: bool


@dataclass(slots=True)
class RehydrationState:
    """Rehydrated content of a session."""

    user_turn: int = 0
    """The number of times that the host added user messages."""
    results: list[RehydrationResult] = field(default_factory=list)
    """Content that stays in the prompt for all calls of the current user turn."""
    last_turns: dict[str, int] = field(default_factory=dict)
    """The user turn in which each artifact was last rehydrated."""


@dataclass(slots=True)
class TurnContext:
    """Rehydration state of the current turn, for its later steps."""

    turn_number: int
    rehydration_happened: bool = False
    rehydrated_tokens: int = 0
    rehydrated_artifact_ids: list[str] = field(default_factory=list)

    def should_skip_aggressive_compaction(self) -> bool:
        """True if externalizing or dropping content now could undo a rehydration of this turn."""
        return self.rehydration_happened

    def record(self, result: RehydrationResult) -> None:
        """Add a result to the state."""
        self.rehydration_happened = True
        self.rehydrated_tokens += result.token_count
        self.rehydrated_artifact_ids.append(result.artifact_id)


def select_artifacts(
    records: Sequence[ExternalizationRecord],
    new_messages: Sequence[Message],
    *,
    turn: int,
    recent_injections: Mapping[str, int],
    config: RehydrationConfig,
) -> list[str]:
    """Return the ids of artifacts that the new messages mention, without those in their cooldown.

    `recent_injections` are the turns in which artifacts were last rehydrated.
    """
    if not config.enabled or not records:
        return []
    texts, requests = _mention_texts(new_messages)
    selected: dict[str, None] = {}
    for record in records:
        artifact_id = record.artifact_id
        if artifact_id in selected or any(artifact_id in arguments for arguments in requests):
            continue
        if _is_cooling_down(recent_injections.get(artifact_id), turn, config) or not _is_mentioned(record, texts):
            continue
        selected[artifact_id] = None
    return list(selected)[: config.max_artifacts_per_turn]


def _mention_texts(messages: Sequence[Message]) -> tuple[list[str], list[str]]:
    """Return the texts that may mention an artifact, and the arguments of explicit `read_artifact` calls.

    An explicit call returns the artifact itself, so it needs no rehydration.
    """
    texts = [message.text for message in messages if message.role in ("user", "assistant")]
    requests: list[str] = []
    for message in messages:
        for call in message.tool_calls:
            (requests if call.name == READ_ARTIFACT else texts).append(call.arguments)
    return texts, requests


def _is_cooling_down(last_turn: int | None, turn: int, config: RehydrationConfig) -> bool:
    return last_turn is not None and turn - last_turn < config.cooldown_turns


def _is_mentioned(record: ExternalizationRecord, texts: Sequence[str]) -> bool:
    return any(is_named(record.artifact_id, text) or matches_hint(record.rehydrate_hint, text) for text in texts)


def is_named(artifact_id: str, text: str) -> bool:
    """True if a text contains the artifact's id as a whole word."""
    return artifact_id in text and bool(re.search(rf"(?<![\w-]){re.escape(artifact_id)}(?![\w-])", text))


def matches_hint(hint: str, text: str) -> bool:
    """True if a text is about the content that the hint describes.

    A hint with file names or ids matches a text that contains one of them. Any other hint matches a text that contains
    most of its words.
    """
    if not hint or not text:
        return False
    words = _NAME.findall(text)
    names = {name.strip(".") for name in _NAME.findall(hint)}
    specific = {name for name in names if _is_specific(name)}
    if specific:
        return not specific.isdisjoint(word.strip(".") for word in words)
    plain = {name.lower() for name in names} - _HINT_PHRASE
    shared = plain.intersection(word.lower() for word in words)
    return len(shared) >= max(_MIN_HINT_WORDS, len(plain) * _MIN_HINT_SHARE)


def _is_specific(name: str) -> bool:
    """True if a word looks like a file name or an id."""
    return any(char in "/._" or char.isdigit() for char in name)


def rehydration_text(result: RehydrationResult) -> str:
    """Return the text of the message that shows rehydrated content."""
    cut = ", cut to fit" if result.truncated else ""
    return f"[Rehydrated Content - artifact:{result.artifact_id}{cut}]\n{result.content}"
