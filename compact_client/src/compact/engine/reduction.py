"""Reduce a request to the messages that must stay, if even those exceed the budget.

The reduction is for one request only. The plan does not change, so the next call tries to compact again.
"""

from __future__ import annotations

from typing import Any

from compact import events
from compact.delivery.stderr import log_problem
from compact.engine.call import Call
from compact.engine.effects import Steps
from compact.engine.engine import Engine
from compact.engine.session import Session
from compact.messages.normalization import normalize
from compact.messages.units import group_units
from compact.planning.partition import partition_units, pin_rules
from compact.rendering.user_turns import add_user_turns


def reduce_request(engine: Engine, session: Session, call: Call) -> Steps[list[Any]]:
    """Return the pinned messages, the last user message and the newest unit, and report what was left out."""
    check = engine.open_check(session, "preflight")
    yield from engine.observe(session, call, check)
    assert session.codec is not None
    messages = session.request.messages
    units = group_units(messages)
    pins = pin_rules(units, messages, engine.policy, session.protected_ids)
    partition = partition_units(units, messages, pins, keep_turns=0, keep_pairs=0)
    kept = {index for unit in (*partition.pinned, *partition.recent) for index in unit.indices}
    left_out = [message.id or "" for index, message in enumerate(messages) if index not in kept]
    tokens_before = session.request.message_tokens
    shown = [message for index, message in enumerate(messages) if index in kept]
    normal = normalize(
        add_user_turns(shown, messages, session.codec), session.codec, protected_flag=engine.policy.protected_flag
    )
    session.set_request(normal.messages, engine.render_options)
    session.is_request_current = False
    session.last_estimate = engine.estimate(session, engine.fixed_tokens(call))
    text = (
        f"The messages that must stay exceed the budget. The request was reduced to them, from {tokens_before:,} to "
        f"{session.request.message_tokens:,} tokens. Protect fewer messages or use a model with a larger window."
    )
    log_problem("compact", text)
    check.emit(
        events.WarningEvent(
            severity="high",
            code="prompt_reduced",
            message=text,
            details=events.MessageDetails(message_ids=left_out),
            count=len(left_out),
        )
    )
    check.update(triggered=True, tokens_before=tokens_before, tokens_after=session.last_estimate)
    check.close()
    session.record_sent()
    return session.request.to_items(call.items, session.host_list)
