"""Durability of tool results: whether a result may be cleared from the prompt.

A result is cleared only if nothing is lost: it is ephemeral, its key fields are preserved, or it can be replayed from
a source that has verifiably not changed. A source that cannot be verified counts as changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypeVar

from compact.messages import Message, ToolCall
from compact.planning.tool_results.artifacts import Sensitivity

F = TypeVar("F", bound=Callable[..., Any])
Outcome = Literal["success", "failure", "partial"]
Warn = Callable[[str], None]


class ToolDurability(Enum):
    """Durability class of a tool's results."""

    EPHEMERAL = "ephemeral"
    """May be cleared entirely."""
    ANCHORING = "anchoring"
    """May be cleared except for its key fields."""
    REPLAYABLE = "replayable"
    """May be cleared while its source is unchanged."""
    NON_REPLAYABLE = "non_replayable"
    """Never cleared: externalized or kept, because the tool would not return it again."""


@dataclass(frozen=True, slots=True)
class DeterminismMetadata:
    """Fingerprint of a source at the time it was read."""

    content_hash: str | None = None
    etag: str | None = None
    mtime: float | None = None
    version: str | None = None

    def has_changed(self, current: DeterminismMetadata) -> bool:
        """True if the source has changed, or if the two fingerprints have no field in common."""
        # `version` is not compared, because one version of a service may return different results.
        for name in ("content_hash", "etag", "mtime"):
            before, after = getattr(self, name), getattr(current, name)
            if before is not None and after is not None:
                return bool(before != after)
        return True

    @classmethod
    def of_file(cls, path: str | Path) -> DeterminismMetadata:
        """Return the fingerprint of a file, or an empty one if the file cannot be read."""
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
    """Rules for the results of one tool. `capture_determinism` is called with the tool call's arguments."""

    durability: ToolDurability = ToolDurability.ANCHORING
    must_preserve_fields: tuple[str, ...] = ()
    externalize_threshold_tokens: int = 1000
    replay_cost: Literal["free", "cheap", "expensive"] = "cheap"
    capture_determinism: Callable[..., DeterminismMetadata] | None = None
    sensitivity: Sensitivity = "internal"


@dataclass(frozen=True, slots=True)
class ToolResultEnvelope:
    """A tool result with the metadata that compaction needs."""

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
        """Fields that a cleared result still contains."""
        return {"tool_name": self.tool_name, "outcome": self.outcome, **self.key_fields}

    def to_cleared_placeholder(self) -> str:
        return placeholder_text(self.preserved_fields)


def placeholder_text(preserved_fields: Mapping[str, Any]) -> str:
    """Return the text that replaces a cleared result."""
    fields = dict(preserved_fields)
    text = f"[{fields.pop('tool_name', 'tool')}: {fields.pop('outcome', 'success')}]"
    if fields:
        text += f"\nKey data: {json.dumps(fields, sort_keys=True, ensure_ascii=False, default=str)}"
    return text


DEFAULT_POLICY = ToolDurabilityPolicy()
_ATTRIBUTE = "__compact_durability__"
# Where wrappers keep the function: functools, LangChain (func, coroutine) and pydantic-ai (the other names).
_WRAPPED = ("__wrapped__", "func", "coroutine", "function", "source_tool", "wrapped", "call_func", "__self__")
_MAX_WRAPPERS = 32


def tool_durability(
    durability: ToolDurability,
    *,
    preserve_fields: Sequence[str] = (),
    capture_determinism: Callable[..., DeterminismMetadata] | None = None,
    sensitivity: Sensitivity = "internal",
) -> Callable[[F], F]:
    """Declare the durability of a tool's results on its function."""
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
    """Return the policy declared on a tool's function, also through partials, wrappers and the tools of frameworks."""
    seen: set[int] = set()
    candidates = [tool]
    while candidates and len(seen) < _MAX_WRAPPERS:
        candidate = candidates.pop()
        if candidate is None or id(candidate) in seen:
            continue
        seen.add(id(candidate))
        policy = getattr(candidate, _ATTRIBUTE, None)
        if isinstance(policy, ToolDurabilityPolicy):
            return policy
        candidates += [getattr(candidate, name, None) for name in _WRAPPED]
    return None


def declared_policies(tools: Mapping[str, Any]) -> dict[str, ToolDurabilityPolicy]:
    """Return the policies declared on the functions of some tools, by the name of the tool."""
    policies = {name: declared_policy(tool) for name, tool in tools.items()}
    return {name: policy for name, policy in policies.items() if policy is not None}


def envelope_for(
    call: ToolCall,
    output: Message,
    policies: Mapping[str, ToolDurabilityPolicy],
    *,
    text: str | None = None,
    determinism: DeterminismMetadata | None = None,
) -> ToolResultEnvelope:
    """Return the envelope in the message's meta, or one built from the tool's policy and the result.

    `text` is the text of this result, for a message that contains several. `determinism` was captured when the result
    arrived. The message's meta takes precedence.
    """
    envelope = output.meta.get("envelope")
    if isinstance(envelope, ToolResultEnvelope):
        return envelope
    policy = policies.get(call.name, DEFAULT_POLICY)
    text = output.text if text is None else text
    own = output.meta.get("determinism")
    return ToolResultEnvelope(
        tool_name=call.name or "tool",
        tool_call_id=call.id,
        outcome="failure" if _looks_failed(text) else "success",
        content=text,
        key_fields=_key_fields(text, policy.must_preserve_fields),
        durability=policy.durability,
        determinism=own if isinstance(own, DeterminismMetadata) else determinism,
    )


def durability_of(tool_name: str, output: Message, policies: Mapping[str, ToolDurabilityPolicy]) -> ToolDurability:
    """Return a result's durability, from the envelope in its meta or its tool's policy."""
    envelope = output.meta.get("envelope")
    if isinstance(envelope, ToolResultEnvelope):
        return envelope.durability
    return policies.get(tool_name, DEFAULT_POLICY).durability


def may_clear(
    envelope: ToolResultEnvelope, call: ToolCall, policy: ToolDurabilityPolicy, warn: Warn | None = None
) -> bool:
    """True if a placeholder may replace the result. `warn` gets a text if the source could not be checked."""
    if envelope.durability is ToolDurability.EPHEMERAL:
        return True
    if envelope.durability is ToolDurability.ANCHORING:
        return bool(envelope.key_fields)
    if envelope.durability is ToolDurability.NON_REPLAYABLE:
        return False
    return not has_drifted(envelope, call, policy, warn)


def has_drifted(
    envelope: ToolResultEnvelope, call: ToolCall, policy: ToolDurabilityPolicy, warn: Warn | None = None
) -> bool:
    """True if a replayable result's source has changed or cannot be checked."""
    if envelope.determinism is None or policy.capture_determinism is None:
        return True
    try:
        arguments = json.loads(call.arguments) if call.arguments else {}
        current = policy.capture_determinism(**arguments)
    except Exception as error:
        if warn is not None:
            warn(f"The source of {call.name} could not be checked: {type(error).__name__}: {error}")
        return True
    return envelope.determinism.has_changed(current)


def _looks_failed(text: str) -> bool:
    start = text.lstrip()[:40].lower()
    return start.startswith(("error", "traceback", "exception", "failed")) or '"error"' in start


def _key_fields(text: str, names: Sequence[str]) -> dict[str, Any]:
    """Return the first value of each named field, at any depth of a JSON result."""
    if not names:
        return {}
    try:
        data = json.loads(text)
    except ValueError:
        return {}
    fields: dict[str, Any] = {}
    _collect_fields(data, set(names), fields)
    return fields


def _collect_fields(data: Any, names: set[str], fields: dict[str, Any]) -> None:
    if isinstance(data, Mapping):
        for key, value in data.items():
            if key in names and key not in fields:
                fields[key] = value
            else:
                _collect_fields(value, names, fields)
    elif isinstance(data, list):
        for value in data:
            _collect_fields(value, names, fields)
