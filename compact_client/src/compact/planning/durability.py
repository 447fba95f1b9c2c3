"""What a tool result is worth, and whether its source has changed.

A result is cleared only when nothing is lost by it: it was noise, its key fields stay, or it can be had again from
a source that is proven unchanged. What cannot be proven counts as changed.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypeVar

from compact.messages import Message, ToolCall

F = TypeVar("F", bound=Callable[..., Any])
Outcome = Literal["success", "failure", "partial"]


class ToolDurability(Enum):
    EPHEMERAL = "ephemeral"
    """Noise: may be cleared entirely."""
    ANCHORING = "anchoring"
    """Its key fields must survive."""
    REPLAYABLE = "replayable"
    """May be cleared while its source is unchanged."""
    NON_REPLAYABLE = "non_replayable"
    """Cannot be had again: externalised or kept."""


@dataclass(frozen=True, slots=True)
class DeterminismMetadata:
    """How a source looked when it was read."""

    content_hash: str | None = None
    etag: str | None = None
    mtime: float | None = None
    version: str | None = None

    def has_changed(self, current: DeterminismMetadata) -> bool:
        """Whether the source is another one now; true when it cannot be told."""
        # The same version of a service may give another answer: it proves nothing.
        for name in ("content_hash", "etag", "mtime"):
            before, now = getattr(self, name), getattr(current, name)
            if before is not None and now is not None:
                return bool(before != now)
        return True

    @classmethod
    def of_file(cls, path: str | Path) -> DeterminismMetadata:
        """A file's hash and time; nothing at all if it cannot be read."""
        try:
            return cls(
                content_hash=hashlib.sha256(Path(path).read_bytes()).hexdigest(), mtime=Path(path).stat().st_mtime
            )
        except OSError:
            return cls()

    def to_dict(self) -> dict[str, Any]:
        return {
            "content_hash": self.content_hash,
            "etag": self.etag,
            "mtime": self.mtime,
            "version": self.version,
        }


@dataclass(frozen=True, slots=True)
class ToolDurabilityPolicy:
    """How the results of one tool are treated; `capture_determinism` gets the call's arguments."""

    durability: ToolDurability = ToolDurability.ANCHORING
    must_preserve_fields: tuple[str, ...] = ()
    externalize_threshold_tokens: int = 1000
    replay_cost: Literal["free", "cheap", "expensive"] = "cheap"
    capture_determinism: Callable[..., DeterminismMetadata] | None = None
    sensitivity: Literal["public", "internal", "confidential", "restricted"] = "internal"


@dataclass(frozen=True, slots=True)
class ToolResultEnvelope:
    """A tool result with what compaction must know about it."""

    tool_name: str
    tool_call_id: str
    outcome: Outcome = "success"
    content: str | Mapping[str, Any] = ""
    key_fields: Mapping[str, Any] = field(default_factory=dict)
    durability: ToolDurability = ToolDurability.ANCHORING
    determinism: DeterminismMetadata | None = None
    started_at: str | None = None
    completed_at: str | None = None

    def get_token_count(self, tokenizer: Any) -> int:
        content = self.content
        return int(tokenizer.count_tokens(content if isinstance(content, str) else json.dumps(content, default=str)))

    @property
    def preserved_fields(self) -> dict[str, Any]:
        """What a cleared result still says."""
        return {"tool_name": self.tool_name, "outcome": self.outcome, **self.key_fields}

    def to_cleared_placeholder(self) -> str:
        return placeholder_text(self.preserved_fields)


def placeholder_text(preserved_fields: Mapping[str, Any]) -> str:
    """What stands in the place of a cleared result."""
    fields = dict(preserved_fields)
    text = f"[{fields.pop('tool_name', 'tool')}: {fields.pop('outcome', 'success')}]"
    if fields:
        text += f"\nKey data: {json.dumps(fields, sort_keys=True, ensure_ascii=False, default=str)}"
    return text


DEFAULT_POLICY = ToolDurabilityPolicy()
_ATTRIBUTE = "__compact_durability__"


def tool_durability(
    durability: ToolDurability,
    *,
    preserve_fields: Sequence[str] = (),
    capture_determinism: Callable[..., DeterminismMetadata] | None = None,
    sensitivity: Literal["public", "internal", "confidential", "restricted"] = "internal",
) -> Callable[[F], F]:
    """Declare on a tool's function what its results are worth."""
    policy = ToolDurabilityPolicy(
        durability,
        tuple(preserve_fields),
        capture_determinism=capture_determinism,
        sensitivity=sensitivity,
    )

    def mark(function: F) -> F:
        setattr(function, _ATTRIBUTE, policy)
        return function

    return mark


def declared_policy(tool: Any) -> ToolDurabilityPolicy | None:
    """What a tool's function declared, seen through wrappers."""
    while tool is not None:
        policy = getattr(tool, _ATTRIBUTE, None)
        if isinstance(policy, ToolDurabilityPolicy):
            return policy
        tool = tool.func if isinstance(tool, functools.partial) else getattr(tool, "__wrapped__", None)
    return None


def envelope_for(
    call: ToolCall, output: Message, policies: Mapping[str, ToolDurabilityPolicy], *, text: str | None = None
) -> ToolResultEnvelope:
    """The envelope of a result: the one in its meta, or one made from the tool's policy and the result itself.

    `text` is the result's own where the message holds several.
    """
    given = output.meta.get("envelope")
    if isinstance(given, ToolResultEnvelope):
        return given
    policy = policies.get(call.name, DEFAULT_POLICY)
    text = output.text if text is None else text
    determinism = output.meta.get("determinism")
    return ToolResultEnvelope(
        tool_name=call.name or "tool",
        tool_call_id=call.id,
        outcome="failure" if _looks_failed(text) else "success",
        content=text,
        key_fields=_key_fields(text, policy.must_preserve_fields),
        durability=policy.durability,
        determinism=determinism if isinstance(determinism, DeterminismMetadata) else None,
    )


def durability_of(tool_name: str, output: Message, policies: Mapping[str, ToolDurabilityPolicy]) -> ToolDurability:
    """What a result is worth, by the envelope in its meta or its tool's policy."""
    given = output.meta.get("envelope")
    if isinstance(given, ToolResultEnvelope):
        return given.durability
    return policies.get(tool_name, DEFAULT_POLICY).durability


def may_clear(envelope: ToolResultEnvelope, call: ToolCall, policy: ToolDurabilityPolicy) -> bool:
    """Whether a result may give way to its placeholder."""
    if envelope.durability is ToolDurability.EPHEMERAL:
        return True
    if envelope.durability is ToolDurability.ANCHORING:
        return bool(envelope.key_fields)
    if envelope.durability is ToolDurability.NON_REPLAYABLE:
        return False
    return not has_drifted(envelope, call, policy)


def has_drifted(envelope: ToolResultEnvelope, call: ToolCall, policy: ToolDurabilityPolicy) -> bool:
    """Whether a replayable result's source has changed; asking may fail, and then it has."""
    if envelope.determinism is None or policy.capture_determinism is None:
        return True
    try:
        arguments = json.loads(call.arguments) if call.arguments else {}
        current = policy.capture_determinism(**arguments)
    except Exception:
        return True
    return envelope.determinism.has_changed(current)


def _looks_failed(text: str) -> bool:
    start = text.lstrip()[:40].lower()
    return start.startswith(("error", "traceback", "exception", "failed")) or '"error"' in start


def _key_fields(text: str, names: Sequence[str]) -> dict[str, Any]:
    if not names:
        return {}
    try:
        data = json.loads(text)
    except ValueError:
        return {}
    found: dict[str, Any] = {}
    _collect(data, set(names), found)
    return found


def _collect(data: Any, names: set[str], found: dict[str, Any]) -> None:
    if isinstance(data, Mapping):
        for key, value in data.items():
            if key in names and key not in found:
                found[key] = value
            else:
                _collect(value, names, found)
    elif isinstance(data, list):
        for value in data:
            _collect(value, names, found)
