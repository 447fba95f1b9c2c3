"""The entry classes of a summary.

Entries with the same `key` are the same entry. `sources` lists the ids of the messages an entry came from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

RATIONALE_START: Final = re.compile(r"\b(?:because|since|due to|caused by|so that|as it|in order to)\b", re.IGNORECASE)
_TOPIC: Final = re.compile(
    r"\b(?:use|using|go with|going with|switch(?:ing)? to|choose|chose|opt for)\b.{1,80}?"
    r"\b(?:for|as) (?:the |our |a )?([\w -]{3,40})",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"[a-z0-9_./-]{3,}")
_CHECKBOX: Final = re.compile(r"^\s*(?:[-*]\s*)?\[[ xX]\]\s*")


def normalize(text: str) -> str:
    """Return the form in which equivalent texts are equal: lower case, single spaces, no bullets or final period."""
    return " ".join(text.split()).strip(" -*•.").lower()


class Mentions(NamedTuple):
    """The number of mentions of a fact in the messages that a summary replaces. Its line does not show it."""

    key: str
    said: int = 0
    """Mentions by the user or the assistant, including tool arguments."""
    shown: int = 0
    """Mentions in tool output."""
    messages: int = 0
    by_user: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """A verbatim line and its source."""

    text: str
    sources: tuple[str, ...] = ()
    order: int = 0
    role: str = ""

    @property
    def key(self) -> str:
        return normalize(self.text)


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision and its rationale. A later decision with the same `topic` replaces it."""

    decision: str
    rationale: str = ""
    inputs: str = ""
    outputs: str = ""
    turn_number: int = 0
    topic: str = ""
    sources: tuple[str, ...] = ()
    order: int = 0

    @property
    def key(self) -> str:
        return self.topic or normalize(self.decision)

    @classmethod
    def from_sentence(cls, text: str, *, sources: tuple[str, ...] = (), order: int = 0) -> Decision:
        """Split a sentence where its rationale starts. Both parts stay verbatim."""
        rationale = RATIONALE_START.search(text)
        split_at = rationale.start() if rationale else 0
        topic = _TOPIC.search(text)
        return cls(
            text[:split_at].rstrip() if split_at else text,
            text[split_at:] if split_at else "",
            topic=topic.group(1).strip().lower() if topic else "",
            sources=sources,
            order=order,
        )


@dataclass(frozen=True, slots=True)
class OpenItem:
    """An unresolved task or question."""

    description: str
    context: str = ""
    priority: Literal["high", "medium", "low"] = "medium"
    sources: tuple[str, ...] = ()
    order: int = 0

    @property
    def key(self) -> str:
        return normalize(_CHECKBOX.sub("", self.description))

    def is_done(self, done: Sequence[str]) -> bool:
        """True if a completed item has most of the words of this one."""
        words = set(_WORD.findall(self.key))
        if not words:
            return False
        return any(len(words.intersection(_WORD.findall(text.lower()))) >= 0.7 * len(words) for text in done)


@dataclass(frozen=True, slots=True)
class Entity:
    """A name that may be needed again, and its role."""

    name: str
    role: str = ""
    sources: tuple[str, ...] = ()
    order: int = 0

    @property
    def key(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class ArtifactReference:
    """Content that was moved out of the prompt and can be rehydrated."""

    artifact_id: str
    description: str = ""
    rehydrate_hint: str = ""
    sources: tuple[str, ...] = ()
    order: int = 0

    @property
    def key(self) -> str:
        return self.artifact_id


@dataclass(frozen=True, slots=True)
class FileTouched:
    """A file, its last state, and in words what changed."""

    path: str
    change: str = ""
    state: Literal["created", "changed", "deleted", "renamed", "read"] = "changed"
    excerpts: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    order: int = 0

    @property
    def key(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True)
class Record:
    """Whole `field=value` pairs of one object of a tool result, with its kind and id first."""

    text: str
    sources: tuple[str, ...] = ()
    order: int = 0
    parent: str = ""  # the kind and id of the record around it, which the text has in brackets

    @property
    def key(self) -> str:
        return self.text.partition("=")[0]


@dataclass(frozen=True, slots=True)
class Command:
    """A command and its outcome."""

    command: str
    outcome: str = ""
    excerpts: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    order: int = 0

    @property
    def key(self) -> str:
        return normalize(self.command)


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """A tool call, its outcome, and the important fields of its result."""

    tool_name: str
    outcome: Literal["success", "failure", "partial"] = "success"
    key_fields: Mapping[str, Any] = field(default_factory=dict)
    error_message: str | None = None
    call: str = ""
    excerpts: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    order: int = 0

    def __hash__(self) -> int:
        return hash((self.tool_name, self.call, self.excerpts))

    @property
    def key(self) -> str:
        return normalize(self.call) or f"{self.tool_name}:{sorted(map(str, self.key_fields.values()))}"


Entry = Note | Decision | OpenItem | Entity | ArtifactReference | FileTouched | Record | Command | ToolOutcome
