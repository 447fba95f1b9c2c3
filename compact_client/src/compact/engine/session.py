"""What a manager knows of one session: the log, the view the host has of it, and what was last sent.

Showing the same conversation again with a few messages more costs only those few: everything known about the
earlier ones is kept beside a snapshot that is compared in one pass.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from compact.engine.history import is_left, is_rewound, recognise, with_hidden
from compact.engine.request import Request, Sent, Shown, frozen_copy, item_of, plain
from compact.messages import Message
from compact.messages.codecs.base import Codec
from compact.messages.normalization import normalize
from compact.planning.budget import Usage
from compact.planning.durability import ToolDurabilityPolicy
from compact.planning.log import AgentThread
from compact.planning.plan import CompactionPlan
from compact.rendering import get_renderer

How = Literal["new", "extended", "handed_back", "edited", "reset"]
# Edited histories whose requests can still be rendered again; each holds one reference per message.
_OLD_VIEWS = 64


@dataclass(frozen=True, slots=True)
class Seen:
    """How the host's list relates to what was seen before, and the messages that are new."""

    how: How
    new: tuple[Message, ...]


class Session:
    """One session's log, plan and last request."""

    def __init__(self, session_id: str, trace_id: str) -> None:
        self.session_id = session_id
        self.trace_id = trace_id
        self.lock = threading.Lock()
        self.driven_by: int | None = None
        """The thread that is in the middle of a call for this session, or whose event loop is."""
        self.thread = AgentThread(session_id)
        self.codec: Codec | None = None
        self.view: list[Message] = []
        self.view_version = 0
        """Rises when the host edits its history; appending leaves it."""
        self.plan: CompactionPlan | None = None
        self.plans: dict[int, CompactionPlan] = {}
        self.sent: list[Sent] = []
        self.old_views: dict[int, list[Message]] = {}
        self.turn = 0
        self.correction = 1.0
        self.is_corrected = False
        self.protected_ids: set[str] = set()
        self.durability: dict[str, ToolDurabilityPolicy] = {}
        """What the results of each tool are worth, as far as any call of the session said."""
        self.shown = Shown()
        self.output = Shown()
        self.request = Request()
        self.last_estimate = 0
        self.fruitless_rounds = 0
        self.requested_note: str | None = None
        self.tokens_after_round = 0
        self.is_restored = False
        self.is_request_current = True
        """Whether the request is the rendering of the view but for what was appended since."""
        self.store_version = 0
        self.growth: deque[int] = deque(maxlen=20)
        """Tokens that each of the last calls added."""
        self.asked_for_context = False
        self.task_success: bool | None = None
        self.last_usage: Usage | None = None
        self.breakdown_of: Callable[[int], dict[str, int]] | None = None
        self.turns_since_compaction = 0
        self.rehydration_requests = 0
        self.recent_injections: dict[str, int] = {}
        self.clean: dict[str, tuple[Message, Counter[str]]] = {}
        """The redacted form of each logged message, and how often each rule was used on it."""
        self.hashes: dict[str, str] = {}
        self._tokens: dict[str, int] = {}
        self._shortened: dict[str, Message] = {}
        self._former: list[tuple[int, str, Message]] = []

    def start_over(self) -> None:
        """Empty the log for another one: what was known of messages by their ids is not about the new ones."""
        self.thread = AgentThread(self.session_id)
        self._show(Shown(), [])
        self.request = Request()
        self.clean, self.hashes, self._tokens, self._shortened, self._former = {}, {}, {}, {}, []

    def observe(self, items: Sequence[Any], codec: Codec) -> Seen:
        """Take in the host's list: recognise what was seen, append what is new to the log."""
        self.codec = codec
        is_shown = self.shown.is_prefix_of(items)
        # Both fit when we only added to the host's list; then the longer one is what it holds now.
        if self.output.items and not (is_shown and len(self.shown.items) > len(self.output.items)):
            is_output = self.output.is_prefix_of(items)
        else:
            is_output = False
        how: How
        if is_output:
            # The host adopted what it was given: from now on that is its list.
            self.shown, self.output = self.output, Shown()
            self._relay()
            how = "handed_back"
        elif is_shown:
            how = "extended" if self.shown.items else "new"
        else:
            return self._observe_edited(items, codec)
        start = len(self.shown.items)
        frozen = [frozen_copy(item) for item in items[start:]]
        # All are read before any is logged: a malformed one must leave nothing behind.
        decoded = [codec.decode(plain(item), start + offset) for offset, item in enumerate(frozen)]
        new = [self.thread.append(message) for message in decoded]
        for item, message in zip(frozen, new, strict=True):
            self.shown.add(item, message.id or "")
        self.view.extend(new)
        return Seen(how, tuple(new))

    def _relay(self) -> None:
        """The request is now exactly what the host shows."""
        self.request.layout = list(range(len(self.request.messages)))
        self.request.is_same_as_shown = True

    def _observe_edited(self, items: Sequence[Any], codec: Codec) -> Seen:
        known_ids, reference = recognise(items, codec, self.shown, self.output, self.view)
        kept = dict(zip(reference.ids, reference.items, strict=True))
        # As above: everything new is read before anything is logged.
        frozen = {place: frozen_copy(items[place]) for place, known_id in enumerate(known_ids) if known_id is None}
        decoded = {place: codec.decode(plain(item), place) for place, item in frozen.items()}
        by_id = {message.id: message for message in self.view}
        shown, view, new = Shown(), [], []
        for place, known_id in enumerate(known_ids):
            if known_id is not None:
                shown.add(kept[known_id], known_id)
                known = by_id.get(known_id)
                if known is not None:
                    view.append(known)
                continue
            added = self.thread.append(decoded[place])
            shown.add(frozen[place], added.id or "")
            new.append(added)
            view.append(added)
        how: How = "edited"
        survived = [known_id for known_id in known_ids if known_id is not None]
        if is_left(survived, self.view) or is_rewound(survived, self.view, self.plan):
            # Its summary must not leak into this one, nor stand for the very message that is to be answered.
            how, self.plan = "reset", None
        else:
            view = with_hidden(view, self.view, reference)
        self._show(shown, view)
        return Seen(how, tuple(new))

    def _show(self, shown: Shown, view: list[Message]) -> None:
        """Another view from now on; requests of the one before it can still be rendered again."""
        self.old_views[self.view_version] = self.view
        if len(self.old_views) > _OLD_VIEWS:
            del self.old_views[min(self.old_views)]
        self.view_version += 1
        self.view = view
        self.shown, self.output = shown, Shown()
        self.is_request_current = False

    def shorten_to(self, message_id: str, short: Message) -> None:
        """Cut a message further than it was; requests already sent keep the form they had."""
        before = self._shortened.get(message_id) or self.thread.get(message_id)
        if before is not None:
            self._former.append((len(self.sent), message_id, before))
        self._shortened[message_id] = replace(short, id=message_id)
        self._tokens.pop(message_id, None)

    def show_whole(self, message_id: str) -> None:
        """Show a message as it was logged, from now on; requests already sent keep the form they had."""
        whole = self.thread.get(message_id)
        if whole is not None and message_id in self._shortened:
            self._former.append((len(self.sent), message_id, self._shortened[message_id]))
            self._shortened[message_id] = whole
            self._tokens.pop(message_id, None)

    def forms_at(self, number: int) -> dict[str, Message]:
        """Forms of messages as request `number` showed them, where they were cut further since."""
        found: dict[str, Message] = {}
        for sent_before, message_id, form in self._former:
            if sent_before >= number:
                found.setdefault(message_id, form)
        return found

    def short_form(self, message: Message, shorten: Callable[[Message], Message]) -> Message:
        """The message as it enters a prompt, decided once."""
        message_id = message.id or ""
        if message_id in self._shortened:
            return self._shortened[message_id]
        short = shorten(message)
        if short is not message:
            short = replace(short, id=message_id)
            self._shortened[message_id] = short
        return short

    @property
    def truncated_ids(self) -> frozenset[str]:
        return frozenset(
            message_id for message_id, form in self._shortened.items() if form is not self.thread.get(message_id)
        )

    def extend_request(
        self,
        new: Sequence[Message],
        *,
        count: Callable[[Message], int],
        shorten: Callable[[Message], Message],
        protected_flag: str,
    ) -> bool:
        """Add new messages to the request; False if it must be rendered from scratch instead."""
        request = self.request
        if request.has_ephemeral:
            return False
        place = len(self.shown.items) - len(new)
        for message in new:
            short = self.short_form(message, shorten)
            is_ours = short is not message
            request.add(short, self.tokens_of(short, count), None if is_ours else place, protected_flag=protected_flag)
            if is_ours and request.is_same_as_shown:
                request.is_same_as_shown = False
                self.output = Shown()
                for item, message_id in zip(self.shown.items[:place], self.shown.ids[:place], strict=True):
                    self.output.add(item, message_id)
            if not request.is_same_as_shown:
                shown_item = self.shown.items[place]
                self.output.add(item_of(short) if is_ours else shown_item, message.id or "")
            place += 1
        return request.is_normal and not request.open_calls

    def render(
        self,
        *,
        count: Callable[[Message], int],
        shorten: Callable[[Message], Message],
        protected_flag: str,
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Render the view from scratch under the current plan; returns ids that normalising added and removed."""
        assert self.codec is not None
        rendered = self.rendered(self.view, self.plan, shorten)
        normal = normalize(rendered, self.codec, protected_flag=protected_flag)
        self.set_request(normal.messages, count=count, protected_flag=protected_flag)
        return normal.added, normal.removed

    def rendered(
        self, view: Sequence[Message], plan: CompactionPlan | None, shorten: Callable[[Message], Message]
    ) -> list[Message]:
        assert self.codec is not None
        short = [self.short_form(message, shorten) for message in view]
        if plan is None:
            return short
        return get_renderer(plan.renderer).render(short, plan, self.codec)

    def set_request(self, messages: Sequence[Message], *, count: Callable[[Message], int], protected_flag: str) -> None:
        places = {message_id: place for place, message_id in enumerate(self.shown.ids)}
        request = Request()
        output = Shown()
        for message in messages:
            place = places.get(message.id or "")
            item = item_of(message)
            if place is not None and not _is_same(item, self.shown.items[place]):
                place = None
            request.add(message, self.tokens_of(message, count), place, protected_flag=protected_flag)
            output.add(item if place is None else self.shown.items[place], message.id or "")
        # Messages are paired now; a call still open here is one the provider itself will answer.
        request.is_normal, request.open_calls = True, {}
        request.is_same_as_shown = request.layout == list(range(len(self.shown.items)))
        self.request = request
        self.is_request_current = True
        self.output = Shown() if request.is_same_as_shown else output

    def tokens_of(self, message: Message, count: Callable[[Message], int]) -> int:
        """The tokens of a message as rendered; the logged form is counted once."""
        message_id = message.id or ""
        if self._shortened.get(message_id, self.thread.get(message_id)) is not message:
            return count(message)  # synthetic or cleared: its text is short, and the estimator remembers it
        tokens = self._tokens.get(message_id)
        if tokens is None:
            tokens = self._tokens[message_id] = count(message)
        return tokens


def _is_same(item: Any, shown: Any) -> bool:
    return bool(item == shown or item == plain(shown))
