"""Take over a plan that another process made.

Messages are recognised by their hashes alone, so nothing but the plan has to be shared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compact.codecs.base import Codec
from compact.engine.request import Request, Shown, frozen_copy, plain
from compact.engine.session import Session
from compact.messages import Message, Role
from compact.plan import CompactionPlan, LedgerEntry
from compact.renderers import renderer_named
from compact.thread import AgentThread

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
    gone = {entry.id: entry for entry in plan.absorbed}
    shows_all = 2 * len({entry.hash for entry in plan.absorbed} & set(names)) >= len(gone) > 0
    candidates = [entry for entry in plan.ledger if entry.id not in gone]
    if shows_all:
        candidates = sorted((*gone.values(), *candidates), key=lambda entry: sequence_of(entry.id))
    ids: dict[str, list[LedgerEntry]] = {}
    for entry in candidates:
        ids.setdefault(entry.hash, []).append(entry)
    synthetic = {} if shows_all else _synthetic_names(plan, codec, name)
    known: list[str | None] = []
    for message_name in names:
        waiting = ids.get(message_name)
        known.append(waiting.pop(0).id if waiting else synthetic.pop(message_name, None))
    talk = {entry.id for entry in candidates if entry.role not in ("system", "developer")}
    if not any(
        message_id in talk or message_id.startswith(("summary-v", "span-")) for message_id in known if message_id
    ):
        return False
    _adopt(session, frozen, decoded, known, [] if shows_all else sorted(gone, key=sequence_of), gone)
    session.plan = plan
    session.plans[plan.version] = plan
    return True


def _synthetic_names(plan: CompactionPlan, codec: Codec, name: Callable[[Message], str]) -> dict[str, str]:
    rendered = renderer_named(plan.renderer).render(
        [Message("assistant", "", id=entry.id) for entry in plan.absorbed], plan, codec
    )
    return {name(message): message.id or "" for message in rendered}


def _adopt(
    session: Session,
    items: Sequence[Any],
    decoded: Sequence[Message],
    known: Sequence[str | None],
    hidden: Sequence[str],
    gone: Mapping[str, LedgerEntry],
) -> None:
    session.thread, session.shown, session.output, session.view = AgentThread(session.session_id), Shown(), Shown(), []
    session.request, session.is_request_current = Request(), False
    stand_ins = [
        session.thread.adopt(Message(_ROLES.get(gone[message_id].role, "assistant"), "", id=message_id))
        for message_id in hidden
    ]
    for item, message, message_id in zip(items, decoded, known, strict=True):
        if message_id is not None and not message_id.startswith("m"):
            session.shown.add(item, message_id)
            continue
        added = session.thread.adopt(replace(message, id=message_id)) if message_id else session.thread.append(message)
        session.shown.add(item, added.id or "")
        session.view.append(added)
    session.view = _merged_by_sequence(session.view, stand_ins)
    session.view_version += 1


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
