"""Find the part of a branch that a host's list starts with: by its snapshots, else by content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from compact.engine.session.continuation import (
    find_overlap,
    identity_key,
    is_instruction,
    is_long_enough,
    is_replacement,
)
from compact.engine.session.request import ListSnapshot, source_item, to_plain
from compact.messages import Message
from compact.planning.log import AgentThread


@dataclass(frozen=True, slots=True)
class ListMatch:
    """The part of a branch that a host's list starts with."""

    kind: Literal["extended", "adopted", "edited"]
    reference: ListSnapshot
    start: int
    """Index of the first matched message among the reference's messages that are not instructions."""
    size: int
    """The number of matched messages, without instructions."""


@dataclass(frozen=True, slots=True)
class KnownLists:
    """The lists of messages that a branch knows, to compare a new list with."""

    thread: AgentThread
    history: Sequence[Message]
    host_list: ListSnapshot
    """The list that the host last passed in."""
    returned_list: ListSnapshot
    """The list that was last returned, if it differs from the host's."""
    keys: dict[str, str]
    """A cache of the identity key of each message in the history."""

    def find_match(self, items: Sequence[Any]) -> ListMatch | None:
        """Return how these messages continue the branch, or None if they do not."""
        returned, host_list = self.returned_list, self.host_list
        extends_host_list = host_list.is_prefix_of(items)
        # If we only added to the host's list, both snapshots match. The longer one is what the host has now.
        is_host_list = extends_host_list and len(host_list.items) > len(returned.items)
        if returned.items and not is_host_list and returned.is_prefix_of(items) and self._is_known(returned):
            return ListMatch("adopted", returned, 0, returned.spoken_count)
        if extends_host_list:
            return ListMatch("extended", host_list, 0, host_list.spoken_count)
        return self._find_edited(items)

    def _find_edited(self, items: Sequence[Any]) -> ListMatch | None:
        """Compare by content, for a host that changed its instructions, trimmed its list or shows an older one."""
        keys = [identity_key(to_plain(item)) for item in _spoken(items)]
        history = ListSnapshot()
        for message in self.history:
            history.add(source_item(message), message.id or "")
        best: ListMatch | None = None
        for reference in (history, self.returned_list, self.host_list):
            spoken = _spoken(reference.items)
            overlap = find_overlap(self._reference_keys(reference), keys)
            is_whole_history = reference is history and overlap.size == len(spoken)
            if not is_whole_history and not _is_proof(spoken[overlap.start :]):
                continue
            if best is None or overlap.size > best.size:
                best = ListMatch("edited", reference, overlap.start, overlap.size)
        return best

    def _is_known(self, snapshot: ListSnapshot) -> bool:
        """True if a list is the whole history, or too long to be another one by chance."""
        return snapshot.spoken_count == len(_spoken(self.history)) or _is_proof(_spoken(snapshot.items))

    def _reference_keys(self, reference: ListSnapshot) -> list[str]:
        """Return the identity keys of a known list. Those of logged messages in their own form are cached."""
        keys = []
        for item, message_id in zip(reference.items, reference.ids, strict=True):
            if is_instruction(item):
                continue
            logged = self.thread.get(message_id)
            if logged is None or source_item(logged) is not item:
                keys.append(identity_key(to_plain(item)))
                continue
            if message_id not in self.keys:
                self.keys[message_id] = identity_key(to_plain(item))
            keys.append(self.keys[message_id])
        return keys


def _spoken(items: Sequence[Any]) -> list[Any]:
    """Return the items that are not instructions."""
    return [item for item in items if not is_instruction(item)]


def _is_proof(items: Sequence[Any]) -> bool:
    return is_long_enough(len(items), has_replacement=any(is_replacement(item) for item in items))
