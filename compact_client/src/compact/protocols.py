"""Every seam of the library: what a caller may replace, and what the manager calls.

The first four protocols are public (document 000). `SpanSummarizer` is the richer one the built-in summarisers
offer; a custom `Summarizer` is adapted to it. A method may be sync or async: the sync entry points refuse a
coroutine with a clear error, the async ones await it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from compact.messages import Message
    from compact.planning.artifacts import ArtifactMetadata, SecurityContext
    from compact.planning.plan import CompactionPlan
    from compact.summary.structured_summary import StructuredSummary


@runtime_checkable
class TokenEstimator(Protocol):
    """Counts a conversation. One that also has `count_message` is asked once per message and cached."""

    def estimate(self, messages: Sequence[Message], model: str) -> int: ...


@runtime_checkable
class ProviderAwareTokenizer(Protocol):
    """Counts everything that is sent, with the provider's own overhead."""

    def count_tokens(self, text: str, model: str = ...) -> int: ...

    def count_message(self, message: Message, model: str = ...) -> int: ...

    def count_tool_schemas(self, tools: Sequence[Any], model: str = ...) -> int: ...

    def count_request(self, messages: Sequence[Message], tools: Sequence[Any] = ..., model: str = ...) -> int: ...


@runtime_checkable
class Summarizer(Protocol):
    """The public seam: messages in, one summary message out."""

    def summarize(self, messages: Sequence[Message], style: str, keep_keys: Sequence[str]) -> Message: ...


@runtime_checkable
class SpanSummarizer(Protocol):
    """The rich seam: typed fields out, so that summaries are merged by code and never re-summarised.

    `visible` are the messages that stay in the prompt, so nothing is spent on repeating them; the rendered text
    stays within `max_tokens` by `count_tokens`. Raises `SummarizationError` or one of its kinds.
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
    """Where pre-compact transcripts, summaries and events are archived; always given redacted copies."""

    def save_transcript(self, session_id: str, transcript: Sequence[Message]) -> Any: ...

    def save_summary(self, session_id: str, summary: Message, step: int) -> Any: ...

    def save_event(self, session_id: str, event: dict[str, Any]) -> Any: ...


@runtime_checkable
class Exporter(Protocol):
    """Takes one event; must be quick and must not raise."""

    def emit(self, event: dict[str, Any]) -> None: ...


class ArtifactStore(Protocol):
    """Holds externalised content, with access control."""

    def store(self, content: str, metadata: ArtifactMetadata) -> Any: ...

    def get_metadata(self, artifact_id: str) -> Any: ...

    def retrieve(self, artifact_id: str, requester_context: SecurityContext | None = None) -> Any: ...


class CompactionStore(Protocol):
    """Holds the current plan of each thread; a commit against an old version returns False and changes nothing."""

    def get_current_plan(self, thread_id: str) -> tuple[CompactionPlan | None, int]: ...

    def commit_plan(self, thread_id: str, plan: CompactionPlan, expected_version: int) -> bool: ...
