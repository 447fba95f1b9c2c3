"""Rehydrate externalized content: fetch what the conversation asks for and show it for one user turn.

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
from compact.messages.codecs.base import Codec
from compact.messages.units import group_units
from compact.planning.rehydration import RehydrationResult, TurnContext, rehydration_text, select_artifacts
from compact.planning.tool_results.artifacts import ArtifactMetadata
from compact.planning.tool_results.truncation import truncate_with_split
from compact.rendering.user_turns import add_user_turns

_FRAME_TOKENS = 40  # the header line and the message around the content
_MARKER_TOKENS = 16  # the line that says how much was cut
_MAX_RESERVE_SHARE = 8  # a reserve is at most one eighth of the budget
_STRATEGY = "automatic"


def _repeat_results(session: Session, new: Sequence[Message], turn: TurnContext) -> None:
    """Show the content of earlier model calls again, until the user speaks."""
    if any(message.role == "user" for message in new):
        session.rehydration.user_turn += 1
        session.rehydration.results = []
    for result in session.rehydration.results:
        turn.record(result)


def rehydrate(
    engine: Engine, session: Session, new: Sequence[Message], turn: TurnContext, check: events.CheckSpan
) -> Steps[None]:
    """Fetch the content that the new messages ask for, within the configured limits. Each refusal is an event.

    The content stays for all model calls of the user turn.
    """
    _repeat_results(session, new, turn)
    config, plan = engine.rehydration, session.plan
    if engine.cfg.artifact_store is None or plan is None or not plan.externalizations:
        return
    shown = {result.artifact_id for result in session.rehydration.results}
    artifact_ids = select_artifacts(
        [record for record in plan.externalizations if record.artifact_id not in shown],
        new,
        turn=session.rehydration.user_turn,
        recent_injections=session.rehydration.last_turns,
        config=config,
    )
    for artifact_id in artifact_ids[: config.max_artifacts_per_turn - len(shown)]:
        fetched = yield from _fetch(engine, artifact_id, check)
        if fetched is None:
            continue
        metadata, content = fetched
        result = _truncate(engine, artifact_id, content)
        if result.token_count > config.total_budget_tokens - turn.rehydrated_tokens:
            _report_block(check, artifact_id, "the rehydration budget of this turn is used up", metadata.sensitivity)
            break
        session.rehydration.results.append(result)
        turn.record(result)


def rehydration_reserve(engine: Engine, session: Session) -> int:
    """Return the tokens that a compaction leaves free for rehydrated content."""
    config, budget = engine.rehydration, engine.budget_tokens(session)
    if engine.cfg.artifact_store is None or not config.enabled or budget is None:
        return 0
    active_tokens = session.usage.factor * sum(result.token_count for result in session.rehydration.results)
    # In a small window, the conversation itself is more important.
    return min(max(config.reserve_tokens, round(active_tokens)), budget // _MAX_RESERVE_SHARE)


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


def inject_results(engine: Engine, session: Session, free_tokens: int, check: events.CheckSpan) -> tuple[Message, ...]:
    """Put the rehydrated content before the current user turn, as far as it fits. Return what was put in.

    An artifact is reported as rehydrated when it is shown for the first time, and as blocked if it does not fit.
    """
    codec = session.codec
    if codec is None:
        return ()
    messages: list[Message] = []
    shown: list[RehydrationResult] = []
    for result in session.rehydration.results:
        if result.token_count > free_tokens:
            reason = f"no room: {result.token_count:,} tokens are needed and {free_tokens:,} are free"
            _report_block(check, result.artifact_id, reason, None)
            continue
        free_tokens -= result.token_count
        shown.append(result)
        message_id = f"returned-{session.rehydration.user_turn}-{result.artifact_id}"
        messages.append(codec.assistant_message(rehydration_text(result), message_id))
        if session.rehydration.last_turns.get(result.artifact_id) != session.rehydration.user_turn:
            session.rehydration.last_turns[result.artifact_id] = session.rehydration.user_turn
            _report_injection(check, result)
    session.rehydration.results = shown
    if not messages:
        return ()
    session.set_request(insert_before_turn(session.request.messages, messages, codec), engine.render_options)
    session.request.has_ephemeral = True
    return tuple(messages)


def _report_injection(check: events.CheckSpan, result: RehydrationResult) -> None:
    check.emit(
        events.RehydratedEvent(
            strategy=_STRATEGY,
            details=events.RehydratedDetails(artifact_id=result.artifact_id, truncated=result.truncated),
            tokens=result.token_count,
        )
    )


def insert_before_turn(messages: Sequence[Message], injected: Sequence[Message], codec: Codec) -> list[Message]:
    """Return the messages with others before the newest user message, or before the newest unit if there is none.

    The position stays the same during a user turn, so the provider's prompt cache stays valid.
    """
    if not injected:
        return list(messages)
    units = group_units(messages)
    users = [index for index, message in enumerate(messages) if message.role == "user"]
    if users:
        # A user message may be between a tool call and its output, which must stay together.
        index = min([users[-1], *(unit.first for unit in units if unit.first < users[-1] <= unit.last)])
    else:
        index = max(units, key=lambda unit: unit.last).first if units else len(messages)
    return add_user_turns([*messages[:index], *injected, *messages[index:]], messages, codec)
