"""Run the compactions of a session again, with the public API of `compact`.

Each compaction starts from the plan of the one before it, as it did in the agent. So the first compactions of a session
are run with their own policies before the last one, whose policy can be chosen. Stored messages are redacted, so their
sizes are taken from the ledgers.

Nothing is sent anywhere. The events are captured here, and the built-in summarizer runs without a model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compact.events import (
    PROMPT_PARTS,
    RETRIED_AS_BRIEF,
    CheckEvent,
    PolicyAppliedEvent,
    TokenEstimateEvent,
    TruncatedEvent,
)

from ingest.archive import transcripts
from ingest.models import Transcript
from viewer.compactions.ledger import Ledger
from viewer.sessions.checks import Check

_DEFAULT_MODEL = "gpt-4o"
# The tokens that prime a reply are part of every prompt, but not of a message.
_REPLY_TOKENS = 3
_TOOLS = [{"type": "function", "function": {"name": "recorded_tools", "parameters": {}}}]


class CannotPlan(Exception):
    """The transcript cannot be planned again. The message is shown on the page."""


@dataclass(frozen=True, slots=True)
class Step:
    """One compaction of the session, with what is stored about it."""

    transcript: Transcript
    check: Check
    ledger: Ledger

    @property
    def overhead_tokens(self) -> int:
        """Tokens of the prompt that are not in messages, such as tool schemas."""
        if not self.ledger.entries:
            return self.check.parts[PROMPT_PARTS.index("tools_schema")]
        return max(0, self.check.before - self.ledger.tokens_before - _REPLY_TOKENS)

    @property
    def policy(self) -> dict[str, Any]:
        """The whole policy if the client sent it, and the growth that it measured."""
        applied = self.check.event(PolicyAppliedEvent)
        policy = dict((applied and applied.policy) or self.check.policy)
        if applied is not None and applied.growth_tokens is not None and policy.get("growth_tokens") is None:
            policy["growth_tokens"] = applied.growth_tokens
        return policy

    @property
    def has_artifacts(self) -> bool:
        """True if the compaction stored artifacts. An excerpt of an output can point to the whole one, too."""
        truncated = self.check.event(TruncatedEvent)
        return bool(self.check.fates.get("externalized") or (truncated and truncated.artifact_id))

    @property
    def model(self) -> str:
        events = (self.check.event(CheckEvent), self.check.event(TokenEstimateEvent))
        return next((event.model for event in events if event and event.model), _DEFAULT_MODEL)


def read_log(transcript: Transcript) -> list[dict[str, Any]]:
    """Return the messages of a transcript, or raise CannotPlan."""
    try:
        return [json.loads(line) for line in transcripts.lines(transcript)]
    except KeyError:
        raise CannotPlan("Part of this transcript is missing from the archive or does not match its hash.") from None


def replay_steps(steps: Sequence[Step], messages: list[dict[str, Any]], policy: Mapping[str, Any]) -> list[Any]:
    """Run the earlier steps as they were, then the last one with these messages and this policy. Return its events."""
    # The engine and its tokenizer take a third of a second to load.
    from compact import CompactError  # noqa: PLC0415
    from compact.adapters.artifact_stores import MemoryArtifactStore  # noqa: PLC0415
    from compact.adapters.plan_stores import MemoryCompactionStore  # noqa: PLC0415

    sizes = _recorded_sizes(steps)
    stores: dict[str, Any] = {"plan_store": MemoryCompactionStore()}
    if any(step.has_artifacts for step in steps):
        stores["artifact_store"] = MemoryArtifactStore()
    events: list[Any] = []
    try:
        for step in steps[:-1]:
            _run(step, read_log(step.transcript), step.policy, sizes, stores)
        events = _run(steps[-1], messages, policy, sizes, stores)
    except (CompactError, ValueError) as error:
        raise CannotPlan(str(error)) from None
    return events


def _run(
    step: Step,
    messages: Iterable[Mapping[str, Any]],
    policy: Mapping[str, Any],
    sizes: Mapping[str, int],
    stores: Mapping[str, Any],
) -> list[Any]:
    """Run one compaction and return its events."""
    from compact import CallbackExporter, CompactConfig, CompactManager, CompactPolicy  # noqa: PLC0415

    events: list[Any] = []
    names = CompactPolicy.__dataclass_fields__
    manager = CompactManager(
        CompactConfig(
            model=step.model,
            max_context_tokens=step.check.window,
            policy=CompactPolicy(**{name: value for name, value in policy.items() if name in names}),
            token_estimator=_recorded_estimator(sizes, step.overhead_tokens),
            summarizer=_summarizer(step),
            exporter=CallbackExporter(events.append),
            **stores,
        )
    )
    log = [{key: value for key, value in message.items() if key != "hash"} for message in messages]
    # Ids of artifacts depend on the session id.
    compact = manager.manual_compact if step.check.trigger == "manual" else manager.preflight
    compact(step.transcript.session_id, log, tools=_TOOLS, floor="newest")
    return events


def _summarizer(step: Step) -> Any:
    """Return the built-in summarizer. It refuses as often as the agent's summarizer did."""
    from compact.exceptions import SummaryRefused  # noqa: PLC0415
    from compact.summarizers import ExtractiveSummarizer  # noqa: PLC0415

    class RefusingSummarizer(ExtractiveSummarizer):
        refusals = sum(error.data.get("fallback") == RETRIED_AS_BRIEF for error in step.check.errors)

        def summarize_span(self, *arguments: Any, **options: Any) -> Any:
            if self.refusals:
                self.refusals -= 1
                raise SummaryRefused("as recorded")
            return super().summarize_span(*arguments, **options)

    return RefusingSummarizer()


def _recorded_sizes(steps: Iterable[Step]) -> dict[str, int]:
    """Return the tokens of each message in the ledgers by hash, as the agent counted them before redaction.

    A message that is shown with excerpts has the hash of the whole one, and fewer tokens.
    """
    sizes: dict[str, int] = {}
    for step in steps:
        known = [(entry.hash, entry.tokens) for entry in step.ledger.entries]
        known += [(message.hash, message.tokens) for message in step.ledger.after]
        for digest, tokens in known:
            sizes[digest] = max(tokens, sizes.get(digest, 0))
    return sizes


def _recorded_estimator(sizes: Mapping[str, int], overhead_tokens: int) -> Any:
    """Return an estimator that knows the sizes of recorded messages and counts the others."""
    from compact import Message, TiktokenEstimator  # noqa: PLC0415
    from compact.messages import content_hash  # noqa: PLC0415

    class RecordedEstimator(TiktokenEstimator):
        def count_message(self, message: Message, model: str = "") -> int:
            size = sizes.get(content_hash(message.to_dict()))
            return super().count_message(message, model) if size is None else size

        def count_tool_schemas(self, tools: Sequence[Any], model: str = "") -> int:
            return overhead_tokens

    return RecordedEstimator()
