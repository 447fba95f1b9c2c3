"""What to bring back this turn, and what not to.

Content comes back for one turn only, from a reserve of its own, a few pieces at most, never the same piece twice in
a row, and never without the right or against its sensitivity.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compact.messages import Message
from compact.planning.plan import ExternalizationRecord

READ_ARTIFACT = "read_artifact"
_NAME = re.compile(r"[\w./-]{4,}")
_HINT_WORDS = 3


@dataclass(frozen=True, slots=True)
class RehydrationConfig:
    """The gates of automatic rehydration."""

    enabled: bool = True
    max_artifacts_per_turn: int = 3
    max_tokens_per_artifact: int = 4000
    total_budget_tokens: int = 8000
    cooldown_turns: int = 2
    auto_rehydrate_sensitivities: frozenset[str] = frozenset({"public", "internal"})


@dataclass(frozen=True, slots=True)
class RehydrationResult:
    """Content that was brought back."""

    artifact_id: str
    content: str
    token_count: int
    truncated: bool


@dataclass(slots=True)
class TurnContext:
    """What happened in this turn that later steps of it must respect."""

    turn_number: int
    rehydration_happened: bool = False
    rehydrated_tokens: int = 0
    rehydrated_artifact_ids: list[str] = field(default_factory=list)

    def should_skip_aggressive_compaction(self) -> bool:
        """Externalising or dropping now would push out what was just asked for."""
        return self.rehydration_happened

    def record(self, result: RehydrationResult) -> None:
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
    """The artifacts that the newest messages name or ask about, in order, within the gates of count and cooldown."""
    if not config.enabled or not records:
        return []
    texts = [message.text for message in new_messages if message.role in ("user", "assistant")]
    explicit = {call.arguments for message in new_messages for call in message.tool_calls if call.name == READ_ARTIFACT}
    texts += [call.arguments for message in new_messages for call in message.tool_calls if call.name != READ_ARTIFACT]
    found: list[str] = []
    for record in records:
        artifact_id = record.artifact_id
        if artifact_id in found or any(artifact_id in arguments for arguments in explicit):
            continue  # an explicit call brings it by itself
        if not any(is_named(artifact_id, text) or matches_hint(record.rehydrate_hint, text) for text in texts):
            continue
        last = recent_injections.get(artifact_id)
        if last is not None and turn - last < config.cooldown_turns:
            continue
        found.append(artifact_id)
    return found[: config.max_artifacts_per_turn]


def is_named(artifact_id: str, text: str) -> bool:
    """Whether a text names the artifact exactly, not as a piece of a longer word."""
    return artifact_id in text and bool(re.search(rf"(?<![\w-]){re.escape(artifact_id)}(?![\w-])", text))


def matches_hint(hint: str, text: str) -> bool:
    """Whether a text asks about what the hint describes: its file or id by name, or most of its words."""
    if not hint or not text:
        return False
    words = set(_NAME.findall(text))
    names = {name.strip(".") for name in _NAME.findall(hint)}
    telling = {name for name in names if any(char in name for char in "/._") or any(char.isdigit() for char in name)}
    if telling:
        return bool(telling & {word.strip(".") for word in words})
    plain = {name.lower() for name in names} - {"read", "need", "full", "output"}
    return len(plain & {word.lower() for word in words}) >= max(_HINT_WORDS, len(plain) * 0.6)


def rehydration_text(result: RehydrationResult) -> str:
    """How brought-back content is shown, for this turn only."""
    cut = ", cut to fit" if result.truncated else ""
    return f"[Rehydrated Content - artifact:{result.artifact_id}{cut}]\n{result.content}"
