"""State of one branch of a session: the log, the host's view of it, the plan, and the last request.

When a host sends the same conversation again with a few more messages, only the new messages cost time. Everything
known about earlier ones is kept beside a snapshot of the list, which is compared in one pass.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median_low
from typing import TYPE_CHECKING, Any, Literal

from compact.engine.call import FixedTokens
from compact.engine.session.edit import KnownItem, merge_history, recognize_items, visible_part
from compact.engine.session.list_match import KnownLists, ListMatch
from compact.engine.session.prompt_forms import PromptForms, apply_forms, with_text_of
from compact.engine.session.request import (
    ListSnapshot,
    Request,
    SentRequest,
    SentRequests,
    frozen_copy,
    read_items,
    source_item,
    to_plain,
    with_meta_of,
    without_meta,
)
from compact.messages import Message
from compact.messages.codecs import PLAIN, detect_codec, get_codec
from compact.messages.codecs.base import Codec
from compact.messages.normalization import NormalizedMessages, normalize
from compact.planning.log import AgentThread
from compact.planning.plan import CompactionPlan
from compact.planning.rehydration import RehydrationState
from compact.planning.tool_results.durability import DeterminismMetadata, ToolDurabilityPolicy
from compact.planning.usage_correction import UsageCorrection
from compact.redaction.outbound import OutboundRedactor
from compact.redaction.view import CONTEXT_MESSAGES, RedactionView
from compact.rendering import get_renderer

if TYPE_CHECKING:
    from compact.engine.recall import SessionIndex

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
    protected_flag: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """The result of a compaction before its commit. The session does not know it."""

    plan: CompactionPlan
    request: Request
    """The request under the plan."""
    forms: Mapping[str, Message]
    """The truncated messages by id, in the form that enters the prompt."""
    tokens_after: int


@dataclass(slots=True)
class SharedState:
    """Shared state of all branches of a session: the requests sent, and numbers that must not repeat."""

    sent: SentRequests
    redactor: OutboundRedactor
    turn: int = 0
    last_step: int = 0
    last_plan_version: int = 0
    requested_note: str | None = None
    is_warned_of_redaction: bool = False
    plan_keys: dict[int, str] = field(default_factory=dict)
    """The key of each branch's plan in the plan store, by the number of the branch."""
    learned_window: int | None = None
    """The context window, as a provider's overflow error stated or implied it."""


@dataclass(slots=True)
class RecallState:
    """State of a branch that only recall needs."""

    times: dict[str, str] = field(default_factory=dict)
    """The time at which each message was first seen."""
    index: SessionIndex | None = None
    """The search index of the log, from the first recall on."""


class Session:
    """One branch of a session: its log, plan and last request."""

    read_ahead_count = 0
    """The number of messages of the history that were passed to the background reader."""

    def __init__(self, session_id: str, trace_id: str, *, number: int = 0, shared: SharedState) -> None:
        self.session_id = session_id
        self.trace_id = trace_id
        self.number = number
        """The number of the branch, 0 for the first one."""
        self.shared = shared
        self.thread = AgentThread(session_id)
        self.codec: Codec | None = None
        self.history: list[Message] = []
        """All messages of the branch in the host's order, including those that the host no longer shows."""
        self.view: list[Message] = []
        """The messages of the history that the host still shows, and those that the plan hides."""
        self.view_version = 0
        """Increases when the host edits its history, but not when it appends."""
        self.old_views: dict[int, list[Message]] = {}
        self.plan: CompactionPlan | None = None
        self.plans: dict[int, CompactionPlan] = {}
        self.plan_key: str | None = None
        """The key of the branch's plan in the plan store, once it is known."""
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
        self.protected_ids: set[str] = set()
        self.durability: dict[str, ToolDurabilityPolicy] = {}
        """The durability of each tool that any call of the session declared."""
        self.determinism: dict[str, DeterminismMetadata] = {}
        """Fingerprints of the sources of replayable results, by call id, captured when the results arrived."""
        self.last_estimate = 0
        self.fixed = FixedTokens()
        """Tokens that the last call sent beside its messages."""
        self.usage = UsageCorrection()
        """The relation between our token counts and the provider's."""
        self.growth: deque[int] = deque(maxlen=20)
        """Tokens added by each of the last calls."""
        self.ineffective_compactions = 0
        """Number of consecutive compactions that freed almost nothing."""
        self.tokens_after_compaction = 0
        self.turns_since_compaction = 0
        self.rehydration_requests = 0
        self.rehydration = RehydrationState()
        self.asked_for_context = False
        self.recall = RecallState()
        self.task_success: bool | None = None
        self.redaction = RedactionView(shared.redactor)
        """The redacted form of each message. Everything that leaves the process is built from it."""
        self.forms = PromptForms()
        """The truncated messages, in the form that enters the prompt."""
        self._keys: dict[str, str] = {}
        """The identity key of each message in the history."""
        self._last_match: tuple[Sequence[Any], ListMatch] | None = None
        """The result of the `match` that selected this branch, because `observe` needs it again."""

    @property
    def sent(self) -> SentRequests:
        """The requests that were sent, of all branches."""
        return self.shared.sent

    @property
    def turn(self) -> int:
        """The number of checks so far, of all branches."""
        return self.shared.turn

    @turn.setter
    def turn(self, turn: int) -> None:
        self.shared.turn = turn

    @property
    def requested_note(self) -> str | None:
        """The note of a compaction that was requested for the next check."""
        return self.shared.requested_note

    @requested_note.setter
    def requested_note(self, note: str | None) -> None:
        self.shared.requested_note = note

    @property
    def next_plan_version(self) -> int:
        """The version of the next plan. It is unique among the branches."""
        return self.shared.last_plan_version + 1

    @property
    def average_growth(self) -> float:
        """Tokens that a call adds on average, 0 before the second call."""
        return sum(self.growth) / len(self.growth) if self.growth else 0.0

    @property
    def median_growth(self) -> int:
        """Tokens that a typical call adds. One large paste does not change it."""
        return median_low(self.growth) if self.growth else 0

    def select_codec(self, items: Sequence[Any], format_name: str | None) -> Codec:
        """Return the codec for a list. Items without a recognizable format are read like the earlier ones."""
        if format_name is not None:
            return get_codec(format_name)
        known = len(self.host_list.items)
        has_known_prefix = self.codec is not None and len(items) >= known
        codec = detect_codec([to_plain(item) for item in (items[known:] if has_known_prefix else items)])
        return codec or self.codec or PLAIN

    def restart_log(self) -> None:
        """Empty the log, and forget everything that was recorded under the ids of its messages."""
        self.thread = AgentThread(self.session_id)
        self._replace_view([], [], ListSnapshot())
        self.request = Request()
        self.redaction.clear()
        self.forms = PromptForms()
        self._keys = {}
        self.recall = RecallState()

    def use_plan_key(self, key: str, version: int) -> None:
        """Store the branch's plans under this key of the plan store, after this version."""
        keys = {number: used for number, used in self.shared.plan_keys.items() if used != key}
        self.shared.plan_keys = {**keys, self.number: key}
        self.plan_key = key
        self.stored_plan_version = version

    # The plan.

    def commit(self, candidate: Candidate) -> None:
        """Use a compaction from now on: its plan, its request, and the outputs that it shortened."""
        self.forms.adopt(candidate.forms, self.thread, sent_count=self.sent.count)
        self._use_plan(candidate.plan)
        self.use_request(candidate.request)

    def adopt_plan(self, plan: CompactionPlan) -> None:
        """Use a plan that another process committed. The log has its messages by now."""
        self._use_plan(plan)

    def _use_plan(self, plan: CompactionPlan) -> None:
        self.plan = self.plans[plan.version] = plan
        self.shared.last_plan_version = max(self.shared.last_plan_version, plan.version)
        self.shared.last_step = max(self.shared.last_step, plan.step)
        self.shared.learned_window = self.shared.learned_window or plan.learned_window

    # The host's list.

    def match(self, items: Sequence[Any]) -> ListMatch | None:
        """Return how these messages continue the branch, or None if they do not."""
        match = self._find_match(items)
        self._last_match = None if match is None else (items, match)
        return match

    def _find_match(self, items: Sequence[Any]) -> ListMatch | None:
        known = KnownLists(self.thread, self.history, self.host_list, self.returned_list, self._keys)
        return known.find_match(items)

    def observe(self, items: Sequence[Any], codec: Codec) -> Observation:
        """Compare the host's list with the last one, and append what is new to the log."""
        last_match, self._last_match = self._last_match, None
        match = last_match[1] if last_match is not None and last_match[0] is items else self._find_match(items)
        assert match is not None, "the caller selects a branch that the items continue"
        self.codec = codec
        if match.kind == "edited":
            return self._observe_edit(items, codec, match)
        change: Change = "extended" if self.host_list.items else "reset" if self.number else "new"
        start = len(match.reference.items)
        # Decode everything before logging anything, so that an unreadable item leaves no trace.
        decoded = list(read_items(codec, items, range(start, len(items))))
        if match.kind == "adopted":
            change = "adopted"
            self.host_list, self.returned_list = self.returned_list, ListSnapshot()
            self.request.origins = list(range(len(self.request.messages)))
            self.request.is_host_list = True
        new = self.log([message for _, _, message in decoded])
        self.host_list.extend((copy for _, copy, _ in decoded), new)
        self.view.extend(new)
        self.history.extend(new)
        return Observation(change, tuple(new))

    def log(self, messages: Sequence[Message]) -> list[Message]:
        """Redact new messages, append them to the log, and return them with their ids."""
        numbered_ids: list[str] = []

        def hash_messages(numbered: Sequence[Message]) -> list[str]:
            self.redaction.update([*self.thread.tail(CONTEXT_MESSAGES), *numbered])
            numbered_ids.extend(message.id or "" for message in numbered)
            return [self.redaction.hash(message) for message in numbered]

        added = self.thread.append(messages, hash_messages)
        for numbered_id, message in zip(numbered_ids, added, strict=True):
            self.redaction.rename(numbered_id, message.id or "")
        return added

    def _observe_edit(self, items: Sequence[Any], codec: Codec, match: ListMatch) -> Observation:
        known = recognize_items(items, match.reference, match.start, match.size, self.history)
        changed = [index for index, item in enumerate(known) if not self._is_logged(item)]
        # As above, decode everything before logging anything.
        read = list(read_items(codec, items, changed))
        copies = {index: copy for index, copy, _ in read}
        decoded = {index: message for index, _, message in read}
        reference_items = dict(zip(match.reference.ids, match.reference.items, strict=True))
        absorbed_ids = {entry.id for entry in self.plan.absorbed} if self.plan else set()
        host_list = ListSnapshot()
        shown: list[Message | None] = []
        first_number = self.thread.version
        for index, item in enumerate(known):
            logged, message_id = self._log_item(item, decoded.get(index), absorbed_ids)
            shown.append(logged)
            host_list.add(copies.get(index) or reference_items.get(message_id) or frozen_copy(items[index]), message_id)
        history = merge_history(self.history, items, shown, known)
        self._replace_view(visible_part(history, shown, absorbed_ids), history, host_list)
        return Observation("edited", tuple(self.thread.messages[first_number:]))

    def _is_logged(self, item: KnownItem | None) -> bool:
        """True for an item that needs no reading: the log has it, or the plan writes it again."""
        return (
            item is not None
            and item.is_unchanged
            and (self.plan is not None or self.thread.get(item.message_id) is not None)
        )

    def _log_item(
        self, item: KnownItem | None, decoded: Message | None, absorbed_ids: Collection[str]
    ) -> tuple[Message | None, str]:
        """Return the message and id of an item, after logging what is new. A summary or pointer has no message.

        `decoded` is the host's form of an item that is new or changed. Without a plan, a message of ours is one of the
        host's own from now on, because nothing writes it again. Only the outputs of stopped calls are always written.
        """
        message = None if item is None else self.thread.get(item.message_id)
        if item is not None and (decoded is None or (message is None and (self.plan or decoded.answers))):
            return message, item.message_id
        assert decoded is not None
        # The host may mark a message that the plan hides, for example as protected. Then it is shown again.
        if message is None or (message.id in absorbed_ids and decoded.meta != message.meta):
            (message,) = self.log([decoded])
        else:
            message = self._restate(message, decoded)
        return message, message.id or ""

    def _restate(self, message: Message, restated: Message) -> Message:
        """Use the host's new form of a message that says the same. Requests already sent keep the form they had."""
        message_id = message.id or ""
        changed = with_meta_of(message, restated)
        short = self.forms.get(message)
        self.forms.restate(message_id, sent_count=self.sent.count)
        self._keys.pop(message_id, None)
        self.redaction.forget(message_id)
        logged = self.thread.restate(message_id, changed)
        if short is not message and changed.text == message.text and self.codec is not None:
            # The host moved a cache mark. The text that enters the prompt stays the same, and so does its prefix.
            self.truncate_message(message_id, with_text_of(logged, short, self.codec))
        return logged

    def _replace_view(self, view: list[Message], history: list[Message], host_list: ListSnapshot) -> None:
        """Start a new view. Requests of the old one can still be rendered."""
        self.old_views[self.view_version] = self.view
        if len(self.old_views) > _MAX_OLD_VIEWS:
            del self.old_views[min(self.old_views)]
        self.view_version += 1
        self.view = view
        self.history = history
        self.host_list, self.returned_list = host_list, ListSnapshot()
        self.is_request_current = False
        self._last_match = None

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
        self.forms.truncate(self.thread.get(message_id), short, message_id, sent_count=self.sent.count)

    def extend_request(self, new: Sequence[Message], options: RenderOptions) -> bool:
        """Append new messages to the request. Return False if it must be rendered from the view instead."""
        request = self.request
        if request.has_ephemeral:
            return False
        assert self.codec is not None
        index = len(self.host_list.items) - len(new)
        forms = self.forms.apply(new)
        for message, form, tokens in zip(new, forms, self.count_messages(forms, options), strict=True):
            is_truncated = form is not message
            origin = None if is_truncated else index
            request.add(form, tokens, origin, protected_flag=options.protected_flag, rules=self.codec.rules)
            if is_truncated and request.is_host_list:
                request.is_host_list = False
                self.returned_list = ListSnapshot()
                for item, message_id in zip(self.host_list.items[:index], self.host_list.ids[:index], strict=True):
                    self.returned_list.add(without_meta(item), message_id)
            if not request.is_host_list:
                item = source_item(form) if is_truncated else self.host_list.items[index]
                self.returned_list.add(without_meta(item), message.id or "")
            index += 1
        return request.is_normal and not request.open_calls

    def render(self, options: RenderOptions) -> NormalizedMessages:
        """Render the view under the current plan. Return the messages, with the repairs of normalization."""
        assert self.codec is not None
        messages = self.render_view(self.forms.apply(self.view), self.plan)
        normal = normalize(messages, self.codec, protected_flag=options.protected_flag)
        self.set_request(normal.messages, options)
        return normal

    def render_request(
        self, plan: CompactionPlan | None, forms: Mapping[str, Message], options: RenderOptions
    ) -> Request:
        """Return the request under a plan with truncated messages, which need not be those of the session."""
        assert self.codec is not None
        messages = self.render_view(apply_forms(forms, self.view), plan)
        return self._request_of(
            normalize(messages, self.codec, protected_flag=options.protected_flag).messages, options
        )

    def render_view(self, messages: Sequence[Message], plan: CompactionPlan | None) -> list[Message]:
        """Return the messages of a view under a plan, before normalization."""
        assert self.codec is not None
        if plan is None:
            return list(messages)
        # A plan contains placeholders in place of secrets. Only the prompt has the values.
        host_messages = {id(message) for message in messages}
        return [
            message if id(message) in host_messages else self.redaction.restore_message(message)
            for message in get_renderer(plan.renderer).render(messages, plan, self.codec)
        ]

    def set_request(self, messages: Sequence[Message], options: RenderOptions) -> None:
        """Replace the request with these messages."""
        self.use_request(self._request_of(messages, options))

    def use_request(self, request: Request) -> None:
        """Replace the request."""
        self.request = request
        self.is_request_current = True
        self.returned_list = request.returned_list(self.host_list)

    def _request_of(self, messages: Sequence[Message], options: RenderOptions) -> Request:
        assert self.codec is not None
        counts = self.count_messages(messages, options)
        return Request.of(messages, counts, self.host_list, options.protected_flag, self.codec.rules)

    def count_messages(self, messages: Sequence[Message], options: RenderOptions) -> list[int]:
        """Return the tokens of each message in the prompt. Logged messages are counted once."""
        return self.forms.count_tokens(messages, self.thread, options.count_message)

    def record_sent(self, injected: tuple[Message, ...] = ()) -> None:
        """Remember how to render the current request again."""
        plan_version = self.plan.version if self.plan else 0
        self.sent.append(SentRequest(self.number, self.view_version, len(self.view), plan_version, injected))
        if self.sent.evicted_count:
            self._forget_unused_forms(plan_version)

    def _forget_unused_forms(self, plan_version: int) -> None:
        """Forget the plans and message forms that only forgotten requests used."""
        self.forms.forget_before(self.sent.first_number)
        if len(self.plans) > 1:
            used = {plan_version, *self.sent.plan_versions(self.number)}
            self.plans = {version: plan for version, plan in self.plans.items() if version in used}
