"""Fingerprint the sources of replayable tool results when the results arrive.

A compaction compares the fingerprint with the source as it is then, and clears the result only if both are equal. A
history that arrives as a whole is not fingerprinted, because its sources may have changed since.
"""

from __future__ import annotations

import json

from compact import events
from compact.engine.effects import Steps
from compact.engine.session import Observation, Session
from compact.messages import ToolCall
from compact.planning.tool_results.durability import DeterminismMetadata, ToolDurabilityPolicy


def capture_sources(session: Session, observation: Observation, check: events.CheckSpan) -> Steps[None]:
    """Call `capture_determinism` for each new result of a tool that declares it."""
    policies = {name: policy for name, policy in session.durability.items() if policy.capture_determinism is not None}
    if not policies or observation.change == "new":
        return
    for call in _answered_calls(session, observation):
        policy = policies.get(call.name)
        if policy is None or call.id in session.determinism:
            continue
        try:
            fingerprint = yield lambda policy=policy, call=call: _capture(policy, call)  # type: ignore[misc]
        except Exception as error:
            text = f"capture_determinism of {call.name} failed, so its result is never cleared: {error}"
            check.emit(events.WarningEvent(severity="low", code="source_unverified", message=text))
            continue
        if isinstance(fingerprint, DeterminismMetadata):
            session.determinism[call.id] = fingerprint


def _answered_calls(session: Session, observation: Observation) -> list[ToolCall]:
    answered = {call_id for message in observation.new for call_id in message.answers}
    return [call for message in session.view for call in message.tool_calls if call.id in answered]


def _capture(policy: ToolDurabilityPolicy, call: ToolCall) -> DeterminismMetadata:
    assert policy.capture_determinism is not None
    return policy.capture_determinism(**(json.loads(call.arguments) if call.arguments else {}))
