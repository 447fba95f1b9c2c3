"""Take over a plan that another process made.

Messages are recognised by their hashes alone, so nothing but the plan has to be shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compact.engine.alignment import align
from compact.engine.request import frozen_copy, plain
from compact.engine.session import Session
from compact.messages import Message, Role
from compact.messages.codecs.base import Codec
from compact.planning.plan import CompactionPlan, LedgerEntry
from compact.rendering import get_renderer

_ROLES: dict[str, Role] = {"system": "system", "developer": "developer", "user": "user", "tool": "tool"}


def restore(
    session: Session, plan: CompactionPlan, items: Sequence[Any], codec: Codec, name: Callable[[Message], str]
) -> bool:
    """Take over a plan that another process made; False if it is about another conversation.

    `name` gives a message's hash. Messages the plan took out and the host no longer shows get a stand-in, so
    that their summary keeps its place.
    """
    frozen = [frozen_copy(item) for item in items]
    decoded = [codec.decode(plain(item), place) for place, item in enumerate(frozen)]
    names = [name(message) for message in decoded]
    known, reference = _recognise(plan, names, codec, name)
    silent = {entry.id for entry in (*plan.absorbed, *plan.ledger) if entry.role in ("system", "developer")}
    if not any(message_id is not None and message_id not in silent for message_id in known):
        return False
    gone = {entry.id: entry for entry in plan.absorbed}
    hidden = gone.keys() - set(reference)
    _adopt(session, frozen, decoded, known, sorted(hidden, key=sequence_of), gone)
    session.plan = plan
    session.plans[plan.version] = plan
    return True


def _recognise(
    plan: CompactionPlan, names: Sequence[str], codec: Codec, name: Callable[[Message], str]
) -> tuple[list[str | None], Sequence[str]]:
    """The id of each message that the plan knows, and all ids of the list in which most of them were found.

    Order matters: two messages of the same words are told apart by their neighbours alone.
    """
    best: list[str | None] = []
    best_ids: Sequence[str] = ()
    for hashes, ids in _references(plan, codec, name):
        found = [None if place is None else ids[place] for place in align(names, hashes)]
        if not best or found.count(None) < best.count(None):
            best, best_ids = found, ids
    return best, best_ids


def _references(
    plan: CompactionPlan, codec: Codec, name: Callable[[Message], str]
) -> Iterator[tuple[list[str], list[str]]]:
    """What a host may show, as hashes and ids: the request after the plan, the one before it, or all there ever was."""
    absorbed = sorted(plan.absorbed, key=lambda entry: sequence_of(entry.id))
    gone = {entry.id for entry in absorbed}
    kept = [entry for entry in plan.ledger if entry.id not in gone and entry.id.startswith("m")]
    log = _merged_by_sequence([_stand_in(entry) for entry in kept], [_stand_in(entry) for entry in absorbed])
    hashes = {entry.id: entry.hash for entry in (*absorbed, *kept)}
    rendered = get_renderer(plan.renderer).render(log, plan, codec)
    yield [hashes.get(item.id or "") or name(item) for item in rendered], [item.id or "" for item in rendered]
    # The process that compacted it may have ended before the host had its answer.
    yield [entry.hash for entry in plan.ledger], [entry.id for entry in plan.ledger]
    yield [hashes[item.id or ""] for item in log], [item.id or "" for item in log]


def _stand_in(entry: LedgerEntry) -> Message:
    return Message(_ROLES.get(entry.role, "assistant"), "", id=entry.id)


def _adopt(
    session: Session,
    items: Sequence[Any],
    decoded: Sequence[Message],
    known: Sequence[str | None],
    hidden: Sequence[str],
    gone: Mapping[str, LedgerEntry],
) -> None:
    session.start_over()
    stand_ins = [session.thread.restore(_stand_in(gone[message_id])) for message_id in hidden]
    for item, message, message_id in zip(items, decoded, known, strict=True):
        if message_id is not None and not message_id.startswith("m"):
            session.shown.add(item, message_id)
            continue
        added = (
            session.thread.restore(replace(message, id=message_id)) if message_id else session.thread.append(message)
        )
        session.shown.add(item, added.id or "")
        session.view.append(added)
    session.view = _merged_by_sequence(session.view, stand_ins)


def sequence_of(message_id: str) -> int:
    """The place in the log that an id names."""
    digits = message_id[1:].partition("-")[0]
    return int(digits) if digits.isdigit() else 0


def _merged_by_sequence(view: Sequence[Message], stand_ins: Sequence[Message]) -> list[Message]:
    merged: list[Message] = []
    waiting = list(stand_ins)
    for message in view:
        while waiting and sequence_of(waiting[0].id or "") < sequence_of(message.id or ""):
            merged.append(waiting.pop(0))
        merged.append(message)
    return merged + waiting
