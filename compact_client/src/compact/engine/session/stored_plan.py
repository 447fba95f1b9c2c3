"""Share plans with other processes: load, restore and commit.

Messages are recognized by their hashes alone, so the plan is all that processes have to share. Each branch of a session
has its own key in the store. A branch finds its key by content: the first plan that its messages continue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from compact import events
from compact.engine.effects import Steps, call_store
from compact.engine.session.continuation import find_overlap, is_instruction, is_long_enough
from compact.engine.session.request import read_items
from compact.engine.session.session import Session
from compact.exceptions import CorruptData, StoreFailed
from compact.messages import INSTRUCTION_ROLES, Message, Role
from compact.messages.codecs.base import Codec
from compact.planning.plan import CompactionPlan, LedgerEntry
from compact.redaction.placeholders import has_placeholder, template_values
from compact.redaction.view import RedactionView
from compact.rendering import get_renderer

# A new conversation under an id with this many stored plans replaces the oldest one.
_MAX_STORED_BRANCHES = 8
LOCAL_PLAN_FALLBACK = "the plan stays in this process only"
_ROLES: dict[str, Role] = {"system": "system", "developer": "developer", "user": "user", "tool": "tool"}


@dataclass(frozen=True, slots=True)
class _Slot:
    """A key of the store that the branch may use, the version there, and the time of the plan that it replaces."""

    key: str
    version: int
    created_at: str = ""


def load_plan(session: Session, store: Any, items: Sequence[Any], check: events.CheckSpan) -> Steps[None]:
    """Replace the branch's plan with a stored one, if that is newer and about this conversation."""
    slots: list[_Slot] = []
    # Another branch of this process may have a key whose plan was continued elsewhere. It cannot be overwritten.
    reserved_keys = _keys_of_others(session)
    for key in _keys(session, len(reserved_keys)):
        try:
            plan, version = yield from call_store("plan", partial(store.get_current_plan, key))
        except CorruptData as error:
            # The next commit follows the corrupt version, so one compaction replaces it.
            check.emit(events.ErrorEvent.from_exception(error, "replaced by the next plan"))
            slots += [] if key in reserved_keys else [_Slot(key, error.version)]
            continue
        except StoreFailed as error:
            check.emit(events.ErrorEvent.from_exception(error, "continued without the stored plan"))
            return
        if version and (key, version) == (session.plan_key, session.stored_plan_version):
            return
        if plan is not None and _is_about(plan, session, items):
            session.use_plan_key(key, version)
            return
        if key not in reserved_keys:
            slots.append(_Slot(key, version, plan.created_at if plan else ""))
            if plan is None:
                break
    # A free key, or the one whose plan is the oldest.
    slot = min(slots, key=lambda slot: slot.created_at)
    session.use_plan_key(slot.key, slot.version)


def _keys_of_others(session: Session) -> set[str]:
    return {key for number, key in session.shared.plan_keys.items() if number != session.number}


def _keys(session: Session, reserved_count: int) -> Iterator[str]:
    """Yield the keys that the branch's plan may have, its own first. At least one is not reserved."""
    if session.plan_key is not None:
        yield session.plan_key
    for number in range(max(_MAX_STORED_BRANCHES, reserved_count + 1)):
        key = f"{session.session_id}#branch-{number}" if number else session.session_id
        if key != session.plan_key:
            yield key


def _is_about(plan: CompactionPlan, session: Session, items: Sequence[Any]) -> bool:
    """Use a plan if it is about this conversation. Return False if it is not."""
    assert session.codec is not None
    return plan.thread_id == session.session_id and restore_plan(session, plan, items, session.codec)


def commit_plan(session: Session, store: Any, plan: CompactionPlan, check: events.CheckSpan) -> Steps[bool]:
    """Store a plan. Return False if another process has committed one since ours was loaded.

    A store that fails is reported, and the plan stays in this process.
    """
    expected, key = session.stored_plan_version, session.plan_key or session.session_id
    try:
        is_committed = yield from call_store("plan", lambda: store.commit_plan(key, plan, expected))
    except StoreFailed as error:
        check.emit(events.ErrorEvent.from_exception(error, LOCAL_PLAN_FALLBACK))
        return True
    if is_committed:
        session.stored_plan_version = expected + 1
    return bool(is_committed)


def restore_plan(session: Session, plan: CompactionPlan, items: Sequence[Any], codec: Codec) -> bool:
    """Use a plan that another process made. Return False if it is about another conversation.

    Messages that the plan removed and the host no longer shows get a placeholder, so that their summary keeps its
    position.
    """
    copies, decoded = [], []
    for _, copy, message in read_items(codec, items, range(len(items))):
        copies.append(copy)
        decoded.append(message)
    templates = _match_templates(plan, decoded, codec)
    hashes = session.redaction.hashes([templates.get(index, message) for index, message in enumerate(decoded)])
    known_ids = _recognize(plan, decoded, hashes, codec, session.redaction)
    if known_ids is None:
        return False
    absorbed = {entry.id: entry for entry in plan.absorbed}
    hidden_ids = sorted(absorbed.keys() - set(known_ids), key=sequence_number)
    _rebuild_log(session, copies, decoded, known_ids, [absorbed[message_id] for message_id in hidden_ids])
    for index, template in templates.items():
        session.redaction.learn(template, decoded[index])
    session.growth.extend(() if session.growth else plan.growth_tokens)
    session.adopt_plan(plan)
    return True


def _match_templates(plan: CompactionPlan, decoded: Sequence[Message], codec: Codec) -> dict[int, Message]:
    """Return the replacement with placeholders for each message that shows it with the values restored."""
    rendered = get_renderer(plan.renderer).render(_full_log(plan), plan, codec)
    templates = [message for message in rendered if has_placeholder(message.text)]
    return {
        index: template
        for index, message in enumerate(decoded)
        if message.is_replacement
        for template in templates
        if template_values(template.text, message.text) is not None
    }


@dataclass(frozen=True, slots=True)
class _KnownMessage:
    """A message of a list that the plan describes."""

    id: str
    hash: str
    is_instruction: bool
    is_replacement: bool


@dataclass(frozen=True, slots=True)
class _Key:
    """The hash of a message that the host shows, in full even if the host shows a truncated or cleared form."""

    hash: str
    is_shortened: bool


def _recognize(
    plan: CompactionPlan, decoded: Sequence[Message], hashes: Sequence[str], codec: Codec, redaction: RedactionView
) -> list[str | None] | None:
    """Return the id of each message that the plan knows, or None if the host's list does not continue the plan's."""
    spoken = [digest for message, digest in zip(decoded, hashes, strict=True) if not is_instruction(message)]
    keys = [_Key(plan.full_hashes.get(digest, digest), digest in plan.full_hashes) for digest in spoken]
    tails = [_matched_tail(known, keys, is_log=is_log) for is_log, known in _reference_lists(plan, codec, redaction)]
    tail = max(tails, key=len)
    if not tail:
        return None
    spoken_ids = iter([message.id for message in tail])
    instruction_ids = _instruction_ids(plan)
    known_ids: list[str | None] = []
    for message, digest in zip(decoded, hashes, strict=True):
        if not is_instruction(message):
            known_ids.append(next(spoken_ids, None))
        else:
            known_ids.append(instruction_ids[digest].pop(0) if instruction_ids.get(digest) else None)
    return known_ids


def _instruction_ids(plan: CompactionPlan) -> dict[str, list[str]]:
    """Return the ids of the instructions with the same hash, in order."""
    ids: dict[str, list[str]] = {}
    for entry in (*plan.absorbed, *plan.ledger):
        if entry.role in INSTRUCTION_ROLES and entry.id not in ids.get(entry.hash, ()):
            ids.setdefault(entry.hash, []).append(entry.id)
    return ids


def _matched_tail(known: Sequence[_KnownMessage], keys: Sequence[_Key], *, is_log: bool) -> list[_KnownMessage]:
    """Return the end of a known list that the keys start with. It is empty if it proves nothing."""
    spoken = [message for message in known if not message.is_instruction]
    overlap = find_overlap([message.hash for message in spoken], [key.hash for key in keys])
    tail = spoken[overlap.start :]
    # Two different outputs may be equal after they were truncated.
    proof_size = sum(not key.is_shortened for key in keys[: len(tail)])
    is_whole_log = is_log and proof_size == len(spoken)
    has_replacement = any(message.is_replacement for message in tail)
    return tail if is_whole_log or is_long_enough(proof_size, has_replacement=has_replacement) else []


def _reference_lists(
    plan: CompactionPlan, codec: Codec, redaction: RedactionView
) -> Iterator[tuple[bool, list[_KnownMessage]]]:
    """Yield the lists that a host may show, and whether each is the log.

    These are the request after the plan, the request before it, and the full log.
    """
    hashes = {entry.id: entry.hash for entry in (*plan.absorbed, *plan.ledger) if entry.id.startswith("m")}
    log = _full_log(plan)
    rendered = get_renderer(plan.renderer).render(log, plan, codec)
    yield False, [_known_message(item, hashes.get(item.id or "") or redaction.hash(item)) for item in rendered]
    # The process that compacted may have ended before the host received the new request.
    placeholders = _placeholders(plan.ledger)
    yield False, [_known_message(item, entry.hash) for item, entry in zip(placeholders, plan.ledger, strict=True)]
    yield True, [_known_message(item, hashes[item.id or ""]) for item in log]


def _full_log(plan: CompactionPlan) -> list[Message]:
    """Return an empty message for each one of the log that the plan names, in order."""
    absorbed = sorted(plan.absorbed, key=lambda entry: sequence_number(entry.id))
    absorbed_ids = {entry.id for entry in absorbed}
    kept = [entry for entry in plan.ledger if entry.id not in absorbed_ids and entry.id.startswith("m")]
    return _merge_by_sequence(_placeholders(kept), _placeholders(absorbed))


def _known_message(message: Message, digest: str) -> _KnownMessage:
    message_id = message.id or ""
    # The ids of logged messages start with "m". Renderers choose other ids for what they write.
    return _KnownMessage(message_id, digest, is_instruction(message), not message_id.startswith("m"))


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
        if message_id and session.thread.get(message_id) is None:
            added = session.thread.restore(replace(message, id=message_id))
        else:
            (added,) = session.log([message])
        session.host_list.add(item, added.id or "")
        session.view.append(added)
    session.view = _merge_by_sequence(session.view, placeholders)
    session.history = list(session.view)


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
