"""Protocols for the parts of the library that a caller can replace.

Methods may be sync or async. The async entry points await a coroutine, the sync ones raise an error for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from compact.messages import Message
    from compact.planning.plan import CompactionPlan
    from compact.planning.tool_results.artifacts import ArtifactMetadata, SecurityContext
    from compact.summary.structured_summary import StructuredSummary

__all__ = [
    "ArchiveResult",
    "ArtifactStore",
    "CompactionStore",
    "Exporter",
    "ProviderAwareTokenizer",
    "QueueingStorage",
    "SpanSummarizer",
    "StorageAdapter",
    "Summarizer",
    "TokenEstimator",
]


@runtime_checkable
class TokenEstimator(Protocol):
    """Counts a conversation. If it also has `count_message`, it is called once for each message and cached."""

    def estimate(self, messages: Sequence[Message], model: str) -> int: ...


@runtime_checkable
class ProviderAwareTokenizer(Protocol):
    """Counts all parts of a request, with the provider's overhead."""

    def count_tokens(self, text: str, model: str = ...) -> int: ...

    def count_message(self, message: Message, model: str = ...) -> int: ...

    def count_tool_schemas(self, tools: Sequence[Any], model: str = ...) -> int: ...

    def count_request(self, messages: Sequence[Message], tools: Sequence[Any] = ..., model: str = ...) -> int: ...


@runtime_checkable
class Summarizer(Protocol):
    """Summarizes messages as one message."""

    def summarize(self, messages: Sequence[Message], style: str, keep_keys: Sequence[str]) -> Message: ...


@runtime_checkable
class SpanSummarizer(Protocol):
    """Summarizes messages as typed fields, so that summaries can be merged without summarizing them again.

    `visible` are the messages that stay in the prompt and need not be repeated. The rendered text has at most
    `max_tokens`, as counted by `count_tokens`. Raises `SummarizationError` or a subclass. The built-in summarizers
    implement this protocol, and a custom `Summarizer` is adapted to it.
    """

    def summarize_span(
        self,
        messages: Sequence[Message],
        *,
        style: str,
        keep_keys: Sequence[str] = (),
        max_tokens: int,
        visible: Sequence[Message] = (),
        count_tokens: Callable[[str], int] | None = None,
    ) -> StructuredSummary: ...


@runtime_checkable
class StorageAdapter(Protocol):
    """Archives transcripts, summaries and events. It only receives redacted copies.

    `save_transcript` returns once the transcript is stored. It may return a dict with the `step` under which it is
    stored, its `path` or `key`, its `sha256`, and its `state`. See `QueueingStorage`.
    """

    def save_transcript(self, session_id: str, transcript: Sequence[Message]) -> Any: ...

    def save_summary(self, session_id: str, summary: Message, step: int) -> Any: ...

    def save_event(self, session_id: str, event: dict[str, Any]) -> Any: ...


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """The answer of an archive to a transcript that was queued."""

    session_id: str
    sha256: str
    """The digest of the transcript as `save_transcript` returned it."""
    step: int
    """The number under which the archive has it."""
    error: str | None = None
    """The reason if the archive did not store it."""
    is_from_earlier_process: bool = False


class QueueingStorage(Protocol):
    """A storage adapter whose `save_transcript` may return the state `queued`. It reports the answer later.

    The listener is called on the adapter's own thread.
    """

    def listen(self, listener: Callable[[ArchiveResult], None]) -> None: ...


@dataclass(frozen=True, slots=True)
class ArchivedTranscript:
    """A transcript as an archive returns it."""

    step: int
    messages: Sequence[Mapping[str, Any]]
    """The redacted messages, as they were archived, with their ids."""
    summary: str | None = None
    """The text of the summary that was written right after it, if the archive has it."""
    stored_at: str | None = None
    damage: str | None = None
    """Why a part is missing, such as a file that ends in the middle of a line. None if nothing is missing."""


class ReadableStorage(Protocol):
    """A storage adapter from which `recall` can read after a restart. It returns the newest transcript first."""

    def load_transcripts(self, session_id: str) -> Iterable[ArchivedTranscript]: ...


@runtime_checkable
class Exporter(Protocol):
    """Receives events. `emit` must return quickly and must not raise."""

    def emit(self, event: dict[str, Any]) -> None: ...


class ArtifactStore(Protocol):
    """Stores externalized content, with access control."""

    def store(self, content: str, metadata: ArtifactMetadata) -> Any: ...

    def get_metadata(self, artifact_id: str) -> Any: ...

    def retrieve(self, artifact_id: str, requester_context: SecurityContext | None = None) -> Any: ...


class CompactionStore(Protocol):
    """Stores the current plan of each thread.

    A thread is a session, or a further branch of one, whose id ends with `#branch-` and a number.
    `commit_plan` returns False and changes nothing if `expected_version` is not the current version.
    """

    def get_current_plan(self, thread_id: str) -> tuple[CompactionPlan | None, int]: ...

    def commit_plan(self, thread_id: str, plan: CompactionPlan, expected_version: int) -> bool: ...
