"""Carry out rehydration: fetch what is wanted, hold it against the gates, and show it for one turn.

What comes back is never appended to the log, so it can never be compacted and asked for again in a circle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from compact import events
from compact.engine.effects import Steps, of_store
from compact.engine.session import Session
from compact.exceptions import StoreFailed
from compact.messages import Message
from compact.messages.units import group_units
from compact.planning.artifacts import ArtifactMetadata
from compact.planning.rehydration import RehydrationResult, TurnContext, rehydration_text, select_artifacts
from compact.planning.truncation import truncate_with_split

if TYPE_CHECKING:
    from compact.engine.engine import Engine

_FRAME_TOKENS = 40  # the header line and the message around the content


def bring_back(
    engine: Engine, session: Session, new: Sequence[Message], turn: TurnContext, check: events.CheckSpan
) -> Steps[list[RehydrationResult]]:
    """The content this turn's messages ask for, within every gate; each refusal is an event."""
    store, config, plan = engine.cfg.artifact_store, engine.rehydration, session.plan
    if store is None or plan is None or not plan.externalizations:
        return []
    ids = select_artifacts(
        plan.externalizations,
        new,
        turn=session.turn,
        recent_injections=session.recent_injections,
        config=config,
    )
    results: list[RehydrationResult] = []
    left = config.total_budget_tokens
    for artifact_id in ids:
        try:
            metadata, content = yield from _fetch(engine, artifact_id)
        except StoreFailed as error:
            _block(check, artifact_id, str(error), None)
            continue
        if metadata is None:
            _block(check, artifact_id, "not found or expired", None)
        elif metadata.sensitivity not in config.auto_rehydrate_sensitivities:
            _block(check, artifact_id, "sensitive: use read_artifact explicitly", metadata.sensitivity)
        elif content is None:
            _block(check, artifact_id, "access denied", metadata.sensitivity)
        else:
            result = _cut(engine, artifact_id, content, config.max_tokens_per_artifact)
            if result.token_count > left:
                _block(check, artifact_id, "the turn's rehydration budget is used up", metadata.sensitivity)
                break
            left -= result.token_count
            results.append(result)
            turn.record(result)
            session.recent_injections[artifact_id] = session.turn
            check.emit(
                events.RehydratedEvent(
                    strategy="automatic",
                    details=events.RehydratedDetails(artifact_id=artifact_id, truncated=result.truncated),
                    tokens=result.token_count,
                )
            )
    return results


def _fetch(engine: Engine, artifact_id: str) -> Steps[tuple[ArtifactMetadata | None, str | None]]:
    store = engine.cfg.artifact_store
    metadata: ArtifactMetadata | None = yield from of_store("artifact", lambda: store.get_metadata(artifact_id))
    if metadata is None or metadata.sensitivity not in engine.rehydration.auto_rehydrate_sensitivities:
        return metadata, None
    content: str | None = yield from of_store(
        "artifact", lambda: store.retrieve(artifact_id, engine.cfg.security_context)
    )
    return metadata, content


def _cut(engine: Engine, artifact_id: str, content: str, max_tokens: int) -> RehydrationResult:
    room = max_tokens - _FRAME_TOKENS
    tokens = engine.counting.text(content)
    if tokens <= room:
        return RehydrationResult(artifact_id, content, tokens + _FRAME_TOKENS, truncated=False)
    short = truncate_with_split(content, room - 16, engine.counting.text)
    return RehydrationResult(artifact_id, short, engine.counting.text(short) + _FRAME_TOKENS, truncated=True)


def _block(check: events.CheckSpan, artifact_id: str, reason: str, sensitivity: str | None) -> None:
    check.emit(
        events.RehydrationBlockedEvent(
            strategy="automatic",
            details=events.BlockedDetails(artifact_id=artifact_id, reason=reason, sensitivity=sensitivity),
        )
    )


def inject(
    engine: Engine, session: Session, results: Sequence[RehydrationResult], room_tokens: int
) -> tuple[Message, ...]:
    """Put the content before the newest unit of the request, as far as the window has room; returns what was put in."""
    codec = session.codec
    if not results or codec is None:
        return ()
    messages: list[Message] = []
    for result in results:
        if result.token_count > room_tokens:
            continue
        room_tokens -= result.token_count
        messages.append(
            codec.assistant_message(rehydration_text(result), f"returned-{session.turn}-{result.artifact_id}")
        )
    if not messages:
        return ()
    current = session.request.messages
    session.set_request(
        with_injected(current, messages),
        count=engine.counting.message,
        protected_flag=engine.policy.protected_flag,
    )
    session.request.has_ephemeral = True
    return tuple(messages)


def with_injected(messages: Sequence[Message], injected: Sequence[Message]) -> list[Message]:
    """The messages with others put before their newest unit, so that no call parts from its output."""
    if not injected:
        return list(messages)
    units = group_units(messages)
    place = max(units, key=lambda unit: unit.last).first if units else len(messages)
    return [*messages[:place], *injected, *messages[place:]]
