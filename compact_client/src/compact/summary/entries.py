"""The entries of a summary: one class for each sort of thing that is remembered.

Each says by its `key` when two of them are the same entry, and by its `sources` which messages it came from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

WHY: Final = re.compile(r"\b(?:because|since|due to|caused by|so that|as it|in order to)\b", re.IGNORECASE)
_TOPIC: Final = re.compile(
    r"\b(?:use|using|go with|going with|switch(?:ing)? to|choose|chose|opt for)\b.{1,80}?"
    r"\b(?:for|as) (?:the |our |a )?([\w -]{3,40})",
    re.IGNORECASE,
)
_CHECKBOX: Final = re.compile(r"^\s*(?:[-*]\s*)?\[[ xX]\]\s*")


def normalized(text: str) -> str:
    """The form in which two texts are the same entry."""
    return " ".join(text.split()).strip(" -*•.").lower()


@dataclass(frozen=True, slots=True)
class Note:
    """A verbatim line and where it stood."""

    text: str
    sources: tuple[str, ...] = ()
    order: int = 0
    role: str = ""

    @property
    def key(self) -> str:
        return normalized(self.text)


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided and why; `topic` is what a later decision must share to replace this one."""

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
        return self.topic or normalized(self.decision)

    @classmethod
    def from_sentence(cls, text: str, *, sources: tuple[str, ...] = (), order: int = 0) -> Decision:
        """A sentence cut where its reason begins; both parts stay word for word."""
        why = WHY.search(text)
        at = why.start() if why else 0
        topic = _TOPIC.search(text)
        return cls(
            text[:at].rstrip() if at else text,
            text[at:] if at else "",
            topic=topic.group(1).strip().lower() if topic else "",
            sources=sources,
            order=order,
        )


@dataclass(frozen=True, slots=True)
class OpenItem:
    """Something unresolved."""

    description: str
    context: str = ""
    priority: Literal["high", "medium", "low"] = "medium"
    sources: tuple[str, ...] = ()
    order: int = 0

    @property
    def key(self) -> str:
        return normalized(_CHECKBOX.sub("", self.description))


@dataclass(frozen=True, slots=True)
class Entity:
    """A name that may be needed again, and the part it plays."""

    name: str
    role: str = ""
    sources: tuple[str, ...] = ()
    order: int = 0

    @property
    def key(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class ArtifactReference:
    """Content that was moved out of the prompt and can be read back."""

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
    """A file that was changed, and lines that show how."""

    path: str
    change: str = ""
    excerpts: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    order: int = 0

    @property
    def key(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True)
class Command:
    """A command and what came of it."""

    command: str
    outcome: str = ""
    excerpts: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    order: int = 0

    @property
    def key(self) -> str:
        return normalized(self.command)


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """A tool call, whether it worked, and the fields of its result that must survive."""

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
        return normalized(self.call) or f"{self.tool_name}:{sorted(map(str, self.key_fields.values()))}"


Entry = Note | Decision | OpenItem | Entity | ArtifactReference | FileTouched | Command | ToolOutcome
