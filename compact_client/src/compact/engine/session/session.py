"""State of one session: the log, the host's view of it, the plan, and the last request.

When a host sends the same conversation again with a few more messages, only the new messages cost time. Everything
known about earlier ones is kept beside a snapshot of the list, which is compared in one pass.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from compact.engine.session.history import is_new_conversation, is_rewound, merge_hidden, recognize_items
from compact.engine.session.request import ListSnapshot, Request, SentRequest, frozen_copy, source_item, to_plain
from compact.messages import Message
from compact.messages.codecs import CHAT, detect_codec, get_codec
from compact.messages.codecs.base import Codec
from compact.messages.normalization import normalize
from compact.planning.log import AgentThread
from compact.planning.plan import CompactionPlan
from compact.planning.tool_results.durability import ToolDurabilityPolicy
from compact.rendering import get_renderer

Change = Literal["new", "extended", "adopted", "edited", "reset"]
# Views from before an edit, kept so that their requests can be rendered again. Each holds one reference per message.
_MAX_OLD_VIEWS = 64


@dataclass(frozen=True, slots=True)
class Observation:
    """The relation of the host's list to the one before it, and the messages that are new."""

    change: Change
    new: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """Settings for turning the view into a request."""

    count_message: Callable[[Message], int]
    truncate: Callable[[Message, Codec | None], Message]
    """Returns the form of a tool output that enters the prompt."""
    protected_flag: str


class Session:
    """One session's log, plan and last request."""

    def __init__(self, session_id: str, trace_id: str) -> None:
        self.session_id = session_id
        self.trace_id = trace_id
        self.lock = threading.Lock()
        self._caller_thread_id: int | None = None
        """The thread that is running a call for this session, or whose event loop is."""
        self._worker_thread_id: int | None = None
        """The worker thread that runs the steps of an async call."""
        self._steps_lock = threading.RLock()
        """Held while steps run in a worker thread, so that the event loop's thread can read between them."""
        self.thread = AgentThread(session_id)
        self.codec: Codec | None = None
        self.view: list[Message] = []
        """The logged messages of the host's history, including those that the plan hides."""
        self.view_version = 0
        """Increases when the host edits its history, but not when it appends."""
        self.old_views: dict[int, list[Message]] = {}
        self.plan: CompactionPlan | None = None
        self.plans: dict[int, CompactionPlan] = {}
        self.stored_plan_version = 0
        self.is_plan_loaded = False
        """True once the plan store was asked for a plan of another process."""
        self.host_list = ListSnapshot()
        """The list that the host last passed in."""
        self.returned_list = ListSnapshot()
        """The list that was last returned, if it differs from the host's."""
        self.request = Request()
        self.is_request_current = True
        """True if the request is the rendered view, apart from messages appended since."""
        self.sent: list[SentRequest] = []
        self.turn = 0
        self.requested_note: str | None = None
        self.protected_ids: set[str] = set()
        self.durability: dict[str, ToolDurabilityPolicy] = {}
        """The durability of each tool that any call of the session declared."""
        self.last_estimate = 0
        self.correction = 1.0
        """The provider's token count divided by our estimate."""
        self.is_corrected = False
        self.growth: deque[int] = deque(maxlen=20)
        """Tokens added by each of the last calls."""
        self.ineffective_compactions = 0
        """Number of consecutive compactions that freed almost nothing."""
        self.tokens_after_compaction = 0
        self.turns_since_compaction = 0
        self.rehydration_requests = 0
        self.recent_injections: dict[str, int] = {}
        """The turn in which each artifact was last rehydrated."""
        self.asked_for_context = False
        self.task_success: bool | None = None
        self.redacted: dict[str, tuple[Message, Counter[str]]] = {}
        """The redacted copy of each logged message, and the number of redactions per rule."""
        self.hashes: dict[str, str] = {}
        self._tokens: dict[str, int] = {}
        self._prompt_forms: dict[str, Message] = {}
        """Messages whose form in the prompt was chosen: truncated ones, and those shown in full again."""
        self._earlier_forms: list[tuple[int, str, Message]] = []
        """Forms that were replaced: the number of requests sent by then, the message id, the form."""

    @property
    def average_growth(self) -> float:
        """Tokens that a call adds on average, 0 before the second call."""
        return sum(self.growth) / len(self.growth) if self.growth else 0.0

    @property
    def is_active_here(self) -> bool:
        """True if this thread is running a call for this session, or its event loop is."""
        return threading.get_ident() in (self._caller_thread_id, self._worker_thread_id)

    @contextmanager
    def run_call(self) -> Iterator[None]:
        """Mark this thread as running a call. The caller holds the lock."""
        self._caller_thread_id = threading.get_ident()
        try:
            yield
        finally:
            self._caller_thread_id = None

    @contextmanager
    def run_worker(self) -> Iterator[None]:
        """Mark this thread as the worker of an async call."""
        self._worker_thread_id = threading.get_ident()
        try:
            yield
        finally:
            self._worker_thread_id = None

    @contextmanager
    def run_steps(self) -> Iterator[None]:
        """Keep the event loop's thread from reading the session while a worker changes it."""
        with self._steps_lock:
            yield

    @contextmanager
    def read_access(self) -> Iterator[None]:
        """Hold the lock. A thread that is running a call would wait for itself, so it only waits for the worker."""
        with self._steps_lock if self.is_active_here else self.lock:
            yield

    def select_codec(self, items: Sequence[Any], format_name: str | None) -> Codec:
        """Return the codec for a list. Items without a recognizable format are read like the earlier ones."""
        if format_name is not None:
            return get_codec(format_name)
        known = len(self.host_list.items)
        has_known_prefix = self.codec is not None and len(items) >= known
        codec = detect_codec([to_plain(item) for item in (items[known:] if has_known_prefix else items)])
        return codec or self.codec or CHAT

    def restart_log(self) -> None:
        """Empty the log, and forget everything that was recorded under the ids of its messages."""
        self.thread = AgentThread(self.session_id)
        self._replace_view([], ListSnapshot())
        self.request = Request()
        self.redacted, self.hashes, self._tokens, self._prompt_forms, self._earlier_forms = {}, {}, {}, {}, []

    def observe(self, items: Sequence[Any], codec: Codec) -> Observation:
        """Compare the host's list with the last one, and append what is new to the log."""
        self.codec = codec
        extends_host_list = self.host_list.is_prefix_of(items)
        # If we only added to the host's list, both snapshots match. The longer one is what the host has now.
        if self.returned_list.items and not (
            extends_host_list and len(self.host_list.items) > len(self.returned_list.items)
        ):
            is_adopted = self.returned_list.is_prefix_of(items)
        else:
            is_adopted = False
        if not is_adopted and not extends_host_list:
            return self._observe_edit(items, codec)
        change: Change = "extended" if self.host_list.items else "new"
        if is_adopted:
            change = "adopted"
            self.host_list, self.returned_list = self.returned_list, ListSnapshot()
            self.request.origins = list(range(len(self.request.messages)))
            self.request.is_host_list = True
        start = len(self.host_list.items)
        copies = [frozen_copy(item) for item in items[start:]]
        # Decode everything before logging anything, so that a malformed item leaves no trace.
        decoded = [codec.decode(to_plain(item), start + offset) for offset, item in enumerate(copies)]
        new = [self.thread.append(message) for message in decoded]
        for item, message in zip(copies, new, strict=True):
            self.host_list.add(item, message.id or "")
        self.view.extend(new)
        return Observation(change, tuple(new))

    def _observe_edit(self, items: Sequence[Any], codec: Codec) -> Observation:
        matches, reference = recognize_items(items, codec, self.host_list, self.returned_list, self.view)
        reference_items = dict(zip(reference.ids, reference.items, strict=True))
        # As above, decode everything before logging anything.
        copies = {index: frozen_copy(items[index]) for index, known_id in enumerate(matches) if known_id is None}
        decoded = {index: codec.decode(to_plain(item), index) for index, item in copies.items()}
        by_id = {message.id: message for message in self.view}
        host_list, view, new = ListSnapshot(), [], []
        for index, known_id in enumerate(matches):
            if known_id is not None:
                host_list.add(reference_items[known_id], known_id)
                message = by_id.get(known_id)
                if message is not None:
                    view.append(message)
                continue
            added = self.thread.append(decoded[index])
            host_list.add(copies[index], added.id or "")
            new.append(added)
            view.append(added)
        change: Change = "edited"
        known_ids = [known_id for known_id in matches if known_id is not None]
        if is_new_conversation(known_ids, self.view) or is_rewound(known_ids, self.view, self.plan):
            # The old summary must not leak into another conversation, or replace the message to be answered now.
            change, self.plan = "reset", None
        else:
            view = merge_hidden(view, self.view, reference)
        self._replace_view(view, host_list)
        return Observation(change, tuple(new))

    def _replace_view(self, view: list[Message], host_list: ListSnapshot) -> None:
        """Start a new view. Requests of the old one can still be rendered."""
        self.old_views[self.view_version] = self.view
        if len(self.old_views) > _MAX_OLD_VIEWS:
            del self.old_views[min(self.old_views)]
        self.view_version += 1
        self.view = view
        self.host_list, self.returned_list = host_list, ListSnapshot()
        self.is_request_current = False

    def turn_numbers(self, messages: Sequence[Message]) -> list[int]:
        """Return the user turn of the whole conversation that each message belongs to, counted from 1."""
        turn_by_id: dict[str | None, int] = {}
        turn = 0
        for message in self.view:
            turn += message.role == "user"
            turn_by_id[message.id] = max(1, turn)
        numbers: list[int] = []
        for message in messages:
            # An output that normalization added is not in the log. It belongs to the turn of the call before it.
            numbers.append(turn_by_id.get(message.id, numbers[-1] if numbers else 1))
        return numbers

    def truncate_message(self, message_id: str, short: Message) -> None:
        """Use a shorter form of a message from now on. Requests already sent keep the form they had."""
        current = self._prompt_forms.get(message_id) or self.thread.get(message_id)
        if current is not None:
            self._earlier_forms.append((len(self.sent), message_id, current))
        self._prompt_forms[message_id] = replace(short, id=message_id)
        self._tokens.pop(message_id, None)

    def show_in_full(self, message_id: str) -> None:
        """Use the logged form of a truncated message from now on. Requests already sent keep the form they had."""
        logged = self.thread.get(message_id)
        if logged is not None and message_id in self._prompt_forms:
            self._earlier_forms.append((len(self.sent), message_id, self._prompt_forms[message_id]))
            self._prompt_forms[message_id] = logged
            self._tokens.pop(message_id, None)

    def forms_at(self, number: int) -> dict[str, Message]:
        """Return the forms that request `number` used for messages whose form changed later."""
        forms: dict[str, Message] = {}
        for sent_count, message_id, form in self._earlier_forms:
            if sent_count >= number:
                forms.setdefault(message_id, form)
        return forms

    def prompt_form(self, message: Message, options: RenderOptions) -> Message:
        """Return the message as it enters the prompt. The truncation is decided once."""
        message_id = message.id or ""
        if message_id in self._prompt_forms:
            return self._prompt_forms[message_id]
        short = options.truncate(message, self.codec)
        if short is not message:
            short = replace(short, id=message_id)
            self._prompt_forms[message_id] = short
        return short

    @property
    def truncated_ids(self) -> frozenset[str]:
        """The ids of the messages that are truncated now."""
        return frozenset(
            message_id for message_id, form in self._prompt_forms.items() if form is not self.thread.get(message_id)
        )

    def extend_request(self, new: Sequence[Message], options: RenderOptions) -> bool:
        """Append new messages to the request. Return False if it must be rendered from the view instead."""
        request = self.request
        if request.has_ephemeral:
            return False
        index = len(self.host_list.items) - len(new)
        for message in new:
            form = self.prompt_form(message, options)
            is_truncated = form is not message
            origin = None if is_truncated else index
            request.add(form, self.count_message(form, options), origin, protected_flag=options.protected_flag)
            if is_truncated and request.is_host_list:
                request.is_host_list = False
                self.returned_list = ListSnapshot()
                for item, message_id in zip(self.host_list.items[:index], self.host_list.ids[:index], strict=True):
                    self.returned_list.add(item, message_id)
            if not request.is_host_list:
                item = source_item(form) if is_truncated else self.host_list.items[index]
                self.returned_list.add(item, message.id or "")
            index += 1
        return request.is_normal and not request.open_calls

    def render(self, options: RenderOptions) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Render the view under the current plan. Return the call ids that normalization added and removed."""
        assert self.codec is not None
        messages = self.render_view(self.view, self.plan, lambda message: self.prompt_form(message, options))
        normal = normalize(messages, self.codec, protected_flag=options.protected_flag)
        self.set_request(normal.messages, options)
        return normal.added, normal.removed

    def render_view(
        self, view: Sequence[Message], plan: CompactionPlan | None, form: Callable[[Message], Message]
    ) -> list[Message]:
        """Return the messages of a view under a plan, before normalization."""
        assert self.codec is not None
        messages = [form(message) for message in view]
        return messages if plan is None else get_renderer(plan.renderer).render(messages, plan, self.codec)

    def set_request(self, messages: Sequence[Message], options: RenderOptions) -> None:
        """Replace the request with these messages."""
        indices = {message_id: index for index, message_id in enumerate(self.host_list.ids)}
        request = Request()
        returned = ListSnapshot()
        for message in messages:
            origin = indices.get(message.id or "")
            item = source_item(message)
            if origin is not None and not _is_same(item, self.host_list.items[origin]):
                origin = None
            request.add(message, self.count_message(message, options), origin, protected_flag=options.protected_flag)
            returned.add(item if origin is None else self.host_list.items[origin], message.id or "")
        # The messages are paired now. A call that is still open is one that the provider itself answers.
        request.is_normal, request.open_calls = True, {}
        request.is_host_list = request.origins == list(range(len(self.host_list.items)))
        self.request = request
        self.is_request_current = True
        self.returned_list = ListSnapshot() if request.is_host_list else returned

    def count_message(self, message: Message, options: RenderOptions) -> int:
        """Return the tokens of a message in the prompt. Logged messages are counted once."""
        message_id = message.id or ""
        if self._prompt_forms.get(message_id, self.thread.get(message_id)) is not message:
            # A replacement or a cleared output. Its text is short, and the estimator caches it.
            return options.count_message(message)
        tokens = self._tokens.get(message_id)
        if tokens is None:
            tokens = self._tokens[message_id] = options.count_message(message)
        return tokens

    def record_sent(self, injected: tuple[Message, ...] = ()) -> None:
        """Remember how to render the current request again."""
        plan_version = self.plan.version if self.plan else 0
        self.sent.append(SentRequest(self.view_version, len(self.view), plan_version, injected))


def _is_same(item: Any, host_item: Any) -> bool:
    return bool(item == host_item or item == to_plain(host_item))
