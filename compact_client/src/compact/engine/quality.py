"""Detect signs of a bad compaction: requests for known facts, repeated reads, failed tasks.

A single sign means little. A rising rate of them across sessions is the signal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from compact import events
from compact.engine.session import Session
from compact.messages import Message

_REQUEST_FOR_CONTEXT = re.compile(
    r"(?:could|can|would) you (?:please )?(?:remind|repeat|re-?share|tell) me"
    r"|what was (?:the|your) [\w\s]{1,40} again"
    r"|I (?:no longer|don['’]t|do not) (?:have|see|recall|remember)[\w\s]{0,40}"
    r"(?:context|conversation|earlier|previous)"
    r"|please (?:resend|repeat|provide again)",
    re.I,
)
_MAX_SCANNED_CHARS = 4000


def asks_for_context(messages: Sequence[Message]) -> bool:
    """True if the agent asks for something that the conversation already contained."""
    return any(
        message.role == "assistant" and _REQUEST_FOR_CONTEXT.search(message.text[:_MAX_SCANNED_CHARS])
        for message in messages
    )


def report_quality(session: Session, check: events.CheckSpan) -> None:
    """Emit the session's figures since its last compaction, if there was one."""
    if session.plan is None or session.plan.step == 0:
        return
    check.emit(
        events.QualityEvent(
            turns_since_compaction=session.turns_since_compaction,
            agent_asked_for_context=session.asked_for_context,
            rehydration_requests=session.rehydration_requests,
            task_completion_success=session.task_success,
        )
    )
