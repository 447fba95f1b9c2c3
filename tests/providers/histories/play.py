"""Play a session: build its history call by call, compact it, and check every prompt."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from compact import CallbackExporter, CompactConfig, CompactManager, CompactPolicy, NoopEstimator
from compact.adapters.plan_stores import MemoryCompactionStore
from compact.engine.session.continuation import is_instruction
from compact.messages import Message
from compact.messages.codecs import get_codec
from providers.histories.grammar import Change, Compact, Instruct, Respond, Say, Session, Step, Switch
from providers.histories.history import History, Item, bare, choose
from providers.histories.routes import ROUTES

ESTIMATOR = NoopEstimator()
_SHORTENED = ("tokens truncated", "chars truncated", "truncated…", "[read: ", "[run: ")


@dataclass
class Player:
    """Plays one session. `new_history` returns the empty history of a tenant."""

    session: Session
    new_history: Callable[[str], History]
    events: list[Any] = field(default_factory=list)
    calls: int = 0
    compactions: int = 0

    def play(self) -> None:
        self.store = MemoryCompactionStore()
        self.manager = self._manager(self.session.window)
        seats = [_Seat(self._history(name)) for name in "ab"[: self.session.tenants]]
        for step in self.session.steps:
            if isinstance(step, Switch):
                self.manager = self._manager(step.window)
            for seat in seats:
                self._play_step(seat, step)
        for seat in seats:
            if seat.history.may_call():
                self._call(seat)

    def _history(self, tenant: str) -> History:
        history = self.new_history(tenant)
        history.thinks, history.has_cache_marks = self.session.has_thinking, self.session.has_cache_marks
        history.route = choose(ROUTES[history.form], self.session.route)
        return history

    def _manager(self, window: int) -> CompactManager:
        policy = CompactPolicy(
            hard_cap_buffer=100,
            renderer=self.session.renderer,
            keep_recent_turns=self.session.keep_recent_turns,
            keep_tool_io_pairs=self.session.keep_tool_io_pairs,
        )
        return CompactManager(
            CompactConfig(
                "gpt-5",
                window,
                policy=policy,
                token_estimator=ESTIMATOR,
                exporter=CallbackExporter(self.events.append),
                plan_store=self.store,
            )
        )

    def _play_step(self, seat: _Seat, step: Step) -> None:
        history = seat.history
        match step:
            case Respond():
                for _ in history.respond(step):
                    self._call(seat)
            case Say():
                history.say(step)
            case Instruct():
                history.instruct(step)
            case Change():
                history.change(step)
                if self.session.adopts:
                    history.pinned.clear()
            case Switch():
                history.will_think = False
                seat.last_prompt = None
                if self.session.adopts:
                    history.pinned.clear()
            case Compact():
                self.manager.request_compaction("s")

    def _call(self, seat: _Seat) -> None:
        history = seat.history
        items = history.list_to_send()
        before = json.dumps(items)
        self.events.clear()
        self.calls += 1
        prompt = history.route.send(self.manager, items, history.codec)
        assert json.dumps(items) == before, "the host's list was changed"
        self.compactions += bool(_events_of(self.events, "compact.pruned_messages"))
        if self.session.adopts and "session_reset" in _codes(self.events):
            # The list that the host got is too short to be recognized, and it has no marks of protection.
            history.pinned.clear()
        check_prompt(prompt, items, history, self.events, self.manager)
        self._check_prefix(seat, prompt)
        history.is_edited = False
        if self.session.adopts:
            history.adopt(prompt)

    def _check_prefix(self, seat: _Seat, prompt: list[Item]) -> None:
        """Until the next compaction, a prompt starts with the one before, so the provider's cache is used."""
        unmarked = bare(prompt)
        changed = ("compact.pruned_messages", "compact.truncated", "compact.warning", "compact.error")
        if seat.last_prompt is not None and not seat.history.is_edited and not _events_of(self.events, *changed):
            assert unmarked[: len(seat.last_prompt)] == seat.last_prompt, "the prefix of the prompt has changed"
        # A reduced prompt is for one call only.
        seat.last_prompt = None if _events_of(self.events, "compact.warning", "compact.over_budget") else unmarked


@dataclass
class _Seat:
    """One tenant's history, and its last prompt without cache marks."""

    history: History
    last_prompt: list[Item] | None = None


def check_prompt(
    prompt: list[Item], items: Sequence[Item], history: History, events: Sequence[Any], manager: CompactManager
) -> None:
    """Assert what is true of every prompt."""
    failures = [event for event in events if event["event"] == "compact.error"]
    assert all(event["properties"]["error_type"] == "InsufficientBudget" for event in failures), failures
    items = history.route.plain(items)
    history.validate(history.route.on_wire(prompt))
    text = json.dumps(prompt)
    other = "b" if history.tenant == "a" else "a"
    assert f"SECRET-{other}" not in text, "a prompt has the secret of another tenant"
    own = [history.own(item) for item in prompt]
    check_newest(own, items)
    check_kept(own, text, history)
    check_size(prompt, history, events, manager)
    check_marks(prompt, items)


def check_newest(prompt: list[Item], items: Sequence[Item]) -> None:
    """The newest message is last: unchanged, or visibly shortened. An instruction may be after it."""
    newest, last = (bare([item for item in listed if not is_instruction(item)][-1]) for listed in (items, prompt))
    if last != newest:
        assert last.keys() == newest.keys(), "the newest message is not last"
        assert any(mark in json.dumps(last, ensure_ascii=False) for mark in _SHORTENED), "the newest message changed"


def check_kept(prompt: list[Item], text: str, history: History) -> None:
    """Protected messages, instructions and the newest todo list stay."""
    unmarked = bare(prompt)
    for item in map(bare, history.route.plain(history.pinned)):
        assert item in unmarked, f"a protected message is lost: {str(item)[:200]}"
    todo = history.todo()
    assert todo is None or todo in text, "the newest todo list is lost"


def check_size(prompt: list[Item], history: History, events: Sequence[Any], manager: CompactManager) -> None:
    """A prompt over the window is reported, and has only what must stay."""
    window = manager.cfg.max_context_tokens
    tokens = ESTIMATOR.estimate(decode(prompt, history.codec), "gpt-5")
    if window is None or tokens <= window:
        return
    assert _events_of(events, "compact.over_budget") or _codes(events) & {"prompt_reduced"}, (
        f"{tokens} tokens exceed the window of {window}, and no event says so"
    )


def check_marks(prompt: list[Item], items: Sequence[Item]) -> None:
    """The marks of the provider's cache are those of the host, at the messages that are still there."""
    marked, shown = ([bare(item) for item in listed if _is_marked(item)] for listed in (prompt, items))
    assert len(marked) <= len(shown), "a cache mark was added"
    unmarked = bare(prompt)
    for item in shown:
        assert item in marked or item not in unmarked, "a cache mark is lost"


def _is_marked(item: Item) -> bool:
    content = item.get("content")
    return isinstance(content, list) and any("cache_control" in block for block in content)


def decode(prompt: Sequence[Item], codec: str) -> list[Message]:
    return [get_codec(codec).decode(item, index) for index, item in enumerate(prompt)]


def _events_of(events: Sequence[Any], *names: str) -> list[Any]:
    return [event for event in events if event["event"] in names]


def _codes(events: Sequence[Any]) -> set[str]:
    return {event["properties"].get("code", "") for event in _events_of(events, "compact.warning")}
