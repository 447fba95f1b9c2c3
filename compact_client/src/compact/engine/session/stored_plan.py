"""Share plans with other processes: load, restore and commit.

Messages are recognized by their hashes alone, so the plan is all that processes have to share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from compact import events
from compact.engine.effects import Steps, call_store
from compact.engine.session.alignment import align
from compact.engine.session.request import frozen_copy, to_plain
from compact.engine.session.session import Session
from compact.exceptions import StoreFailed
from compact.messages import Message, Role
from compact.messages.codecs.base import Codec
from compact.planning.plan import CompactionPlan, LedgerEntry
from compact.rendering import get_renderer

LOCAL_PLAN_FALLBACK = "the plan stays in this process only"
_ROLES: dict[str, Role] = {"system": "system", "developer": "developer", "user": "user", "tool": "tool"}

Hasher = Callable[[Message], str]


def load_plan(
    session: Session, store: Any, items: Sequence[Any], check: events.CheckSpan, hash_message: Hasher
) -> Steps[None]:
    """Replace the session's plan with the stored one, if that is newer and about this conversation."""
    try:
        plan, version = yield from call_store("plan", lambda: store.get_current_plan(session.session_id))
    except StoreFailed as error:
        check.emit(events.ErrorEvent.from_exception(error, "continued without the stored plan"))
        return
    if plan is not None and version != session.stored_plan_version:
        assert session.codec is not None
        restore_plan(session, plan, items, session.codec, hash_message)
    session.stored_plan_version = version


def commit_plan(session: Session, store: Any, plan: CompactionPlan, check: events.CheckSpan) -> Steps[bool]:
    """Store a plan. Return False if another process has committed one since ours was loaded.

    A store that fails is reported, and the plan stays in this process.
    """
    expected = session.stored_plan_version
    try:
        is_committed = yield from call_store("plan", lambda: store.commit_plan(session.session_id, plan, expected))
    except StoreFailed as error:
        check.emit(events.ErrorEvent.from_exception(error, LOCAL_PLAN_FALLBACK))
        return True
    if is_committed:
        session.stored_plan_version = expected + 1
    return bool(is_committed)


def restore_plan(
    session: Session, plan: CompactionPlan, items: Sequence[Any], codec: Codec, hash_message: Hasher
) -> bool:
    """Use a plan that another process made. Return False if it is about another conversation.

    Messages that the plan removed and the host no longer shows get a placeholder, so that their summary keeps its
    position.
    """
    copies = [frozen_copy(item) for item in items]
    decoded = [codec.decode(to_plain(item), index) for index, item in enumerate(copies)]
    hashes = [hash_message(message) for message in decoded]
    known_ids, reference_ids = _recognize(plan, hashes, codec, hash_message)
    instruction_ids = {entry.id for entry in (*plan.absorbed, *plan.ledger) if entry.role in ("system", "developer")}
    if not any(message_id is not None and message_id not in instruction_ids for message_id in known_ids):
        return False
    absorbed = {entry.id: entry for entry in plan.absorbed}
    hidden_ids = sorted(absorbed.keys() - set(reference_ids), key=sequence_number)
    _rebuild_log(session, copies, decoded, known_ids, [absorbed[message_id] for message_id in hidden_ids])
    session.plan = plan
    session.plans[plan.version] = plan
    return True


def _recognize(
    plan: CompactionPlan, hashes: Sequence[str], codec: Codec, hash_message: Hasher
) -> tuple[list[str | None], Sequence[str]]:
    """Return the id of each message that the plan knows, and all ids of the list that matched best.

    The order matters: only their neighbors distinguish two messages with the same text.
    """
    best: list[str | None] = []
    best_ids: Sequence[str] = ()
    for reference_hashes, ids in _reference_lists(plan, codec, hash_message):
        known_ids = [None if index is None else ids[index] for index in align(hashes, reference_hashes)]
        if not best or known_ids.count(None) < best.count(None):
            best, best_ids = known_ids, ids
    return best, best_ids


def _reference_lists(plan: CompactionPlan, codec: Codec, hash_message: Hasher) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the hashes and ids of each list that a host may show.

    These are the request after the plan, the request before it, and the full log.
    """
    absorbed = sorted(plan.absorbed, key=lambda entry: sequence_number(entry.id))
    absorbed_ids = {entry.id for entry in absorbed}
    kept = [entry for entry in plan.ledger if entry.id not in absorbed_ids and entry.id.startswith("m")]
    hashes = {entry.id: entry.hash for entry in (*absorbed, *kept)}
    log = _merge_by_sequence(_placeholders(kept), _placeholders(absorbed))
    rendered = get_renderer(plan.renderer).render(log, plan, codec)
    yield [hashes.get(item.id or "") or hash_message(item) for item in rendered], _ids(rendered)
    # The process that compacted may have ended before the host received the new request.
    yield [entry.hash for entry in plan.ledger], [entry.id for entry in plan.ledger]
    log_ids = _ids(log)
    yield [hashes[message_id] for message_id in log_ids], log_ids


def _ids(messages: Sequence[Message]) -> list[str]:
    return [message.id or "" for message in messages]


def _placeholders(entries: Sequence[LedgerEntry]) -> list[Message]:
    """Return empty messages with the ids and roles of ledger entries."""
    return [Message(_ROLES.get(entry.role, "assistant"), "", id=entry.id) for entry in entries]


def _rebuild_log(
    session: Session,
    items: Sequence[Any],
    decoded: Sequence[Message],
    known_ids: Sequence[str | None],
    hidden: Sequence[LedgerEntry],
) -> None:
    session.restart_log()
    placeholders = [session.thread.restore(message) for message in _placeholders(hidden)]
    for item, message, message_id in zip(items, decoded, known_ids, strict=True):
        if message_id is not None and not message_id.startswith("m"):
            session.host_list.add(item, message_id)
            continue
        if message_id:
            added = session.thread.restore(replace(message, id=message_id))
        else:
            added = session.thread.append(message)
        session.host_list.add(item, added.id or "")
        session.view.append(added)
    session.view = _merge_by_sequence(session.view, placeholders)


def sequence_number(message_id: str) -> int:
    """Return the position in the log that a message id contains."""
    digits = message_id[1:].partition("-")[0]
    return int(digits) if digits.isdigit() else 0


def _merge_by_sequence(view: Sequence[Message], placeholders: Sequence[Message]) -> list[Message]:
    merged: list[Message] = []
    pending = list(placeholders)
    for message in view:
        while pending and sequence_number(pending[0].id or "") < sequence_number(message.id or ""):
            merged.append(pending.pop(0))
        merged.append(message)
    return merged + pending
