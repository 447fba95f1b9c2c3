"""Rehydrate externalized content: fetch what the conversation asks for and show it for one turn.

Rehydrated content is never appended to the log, so it cannot be compacted and requested again in a loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from compact import events
from compact.engine.effects import Steps, call_store
from compact.engine.engine import Engine
from compact.engine.session import Session
from compact.exceptions import StoreFailed
from compact.messages import Message
from compact.messages.units import group_units
from compact.planning.rehydration import RehydrationResult, TurnContext, rehydration_text, select_artifacts
from compact.planning.tool_results.artifacts import ArtifactMetadata
from compact.planning.tool_results.truncation import truncate_with_split

_FRAME_TOKENS = 40  # the header line and the message around the content
_MARKER_TOKENS = 16  # the line that says how much was cut
_STRATEGY = "automatic"


def rehydrate(
    engine: Engine, session: Session, new: Sequence[Message], turn: TurnContext, check: events.CheckSpan
) -> Steps[list[RehydrationResult]]:
    """Fetch the content that the new messages ask for, within the configured limits. Each refusal is an event."""
    config, plan = engine.rehydration, session.plan
    if engine.cfg.artifact_store is None or plan is None or not plan.externalizations:
        return []
    artifact_ids = select_artifacts(
        plan.externalizations,
        new,
        turn=session.turn,
        recent_injections=session.recent_injections,
        config=config,
    )
    results: list[RehydrationResult] = []
    budget_tokens = config.total_budget_tokens
    for artifact_id in artifact_ids:
        fetched = yield from _fetch(engine, artifact_id, check)
        if fetched is None:
            continue
        metadata, content = fetched
        result = _truncate(engine, artifact_id, content)
        if result.token_count > budget_tokens:
            _report_block(check, artifact_id, "the rehydration budget of this turn is used up", metadata.sensitivity)
            break
        budget_tokens -= result.token_count
        results.append(result)
        turn.record(result)
        session.recent_injections[artifact_id] = session.turn
        check.emit(
            events.RehydratedEvent(
                strategy=_STRATEGY,
                details=events.RehydratedDetails(artifact_id=artifact_id, truncated=result.truncated),
                tokens=result.token_count,
            )
        )
    return results


def _fetch(engine: Engine, artifact_id: str, check: events.CheckSpan) -> Steps[tuple[ArtifactMetadata, str] | None]:
    """Return an artifact, or None if it may not or cannot be shown."""
    store = engine.cfg.artifact_store
    try:
        metadata: ArtifactMetadata | None = yield from call_store("artifact", lambda: store.get_metadata(artifact_id))
        if metadata is None:
            _report_block(check, artifact_id, "not found or expired", None)
            return None
        if metadata.sensitivity not in engine.rehydration.auto_rehydrate_sensitivities:
            _report_block(check, artifact_id, "sensitive: call read_artifact to read it", metadata.sensitivity)
            return None
        content: str | None = yield from call_store(
            "artifact", lambda: store.retrieve(artifact_id, engine.cfg.security_context)
        )
    except StoreFailed as error:
        _report_block(check, artifact_id, str(error), None)
        return None
    if content is None:
        _report_block(check, artifact_id, "access denied", metadata.sensitivity)
        return None
    return metadata, content


def _truncate(engine: Engine, artifact_id: str, content: str) -> RehydrationResult:
    """Cut the content to the limit per artifact."""
    count_text = engine.counter.count_text
    max_tokens = engine.rehydration.max_tokens_per_artifact - _FRAME_TOKENS
    tokens = count_text(content)
    if tokens <= max_tokens:
        return RehydrationResult(artifact_id, content, tokens + _FRAME_TOKENS, truncated=False)
    short = truncate_with_split(content, max_tokens - _MARKER_TOKENS, count_text)
    return RehydrationResult(artifact_id, short, count_text(short) + _FRAME_TOKENS, truncated=True)


def _report_block(check: events.CheckSpan, artifact_id: str, reason: str, sensitivity: str | None) -> None:
    check.emit(
        events.RehydrationBlockedEvent(
            strategy=_STRATEGY,
            details=events.BlockedDetails(artifact_id=artifact_id, reason=reason, sensitivity=sensitivity),
        )
    )


def inject_results(
    engine: Engine, session: Session, results: Sequence[RehydrationResult], free_tokens: int
) -> tuple[Message, ...]:
    """Put rehydrated content before the newest unit of the request, as far as it fits. Return what was put in."""
    codec = session.codec
    if not results or codec is None:
        return ()
    messages: list[Message] = []
    for result in results:
        if result.token_count > free_tokens:
            continue
        free_tokens -= result.token_count
        message_id = f"returned-{session.turn}-{result.artifact_id}"
        messages.append(codec.assistant_message(rehydration_text(result), message_id))
    if not messages:
        return ()
    session.set_request(insert_before_newest(session.request.messages, messages), engine.render_options)
    session.request.has_ephemeral = True
    return tuple(messages)


def insert_before_newest(messages: Sequence[Message], injected: Sequence[Message]) -> list[Message]:
    """Return the messages with others before their newest unit, so that no tool call is separated from its output."""
    if not injected:
        return list(messages)
    units = group_units(messages)
    index = max(units, key=lambda unit: unit.last).first if units else len(messages)
    return [*messages[:index], *injected, *messages[index:]]
