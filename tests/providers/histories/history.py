"""A history as a host keeps it, and the parts of it that all formats share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from compact.messages.block_kinds import Format
from providers.histories.grammar import Change, Instruct, Respond, Say, ToolCall
from providers.histories.routes import Item, Preflight, Route

T = TypeVar("T")
_PHRASE = "the parser of src/orders/batch.py reads 17 rows because the cache is stale and we use Postgres for it"
_FILLER = _PHRASE.split()
_TODO = re.compile(r"todo-\w+-\d+")


def bare(value: Any) -> Any:
    """Return an item without the marks of the provider's cache and of this library. A text is no list of texts."""
    if isinstance(value, dict):
        return {key: bare(part) for key, part in value.items() if key not in ("cache_control", "meta")}
    if not isinstance(value, list):
        return value
    parts = [bare(part) for part in value]
    is_text = len(parts) == 1 and isinstance(parts[0], dict) and parts[0].keys() == {"type", "text"}
    return parts[0]["text"] if is_text else parts


@dataclass
class History:
    """The list of a host. Subclasses write it in the format of an API, and check prompts by its rules."""

    tenant: str = "a"
    thinks: bool = False
    has_cache_marks: bool = False
    route: Route = field(default_factory=Preflight)
    items: list[Item] = field(default_factory=list)
    pinned: list[Item] = field(default_factory=list)
    """The messages that must stay."""
    is_edited: bool = False
    """True if the list was changed since the last call, other than by new messages at its end."""
    must_say: bool = False
    """True if the model cannot be called before the user speaks."""
    will_think: bool | None = None
    """The behavior of the model from the next turn on, None if the model stays."""
    count: int = 0

    form = Format.SHARED
    codec = ""

    # What subclasses write.

    def user_item(self, text: str, step: Say) -> Item:
        raise NotImplementedError

    def response(self, step: Respond) -> Iterator[None]:
        """Add a response and the outputs of its calls. Yields before each model call."""
        raise NotImplementedError

    def instruction(self, text: str, step: Instruct) -> Item:
        return {"role": "developer", "content": text}

    def closing_item(self) -> Item:
        """Return a response that ends a turn."""
        return {"role": "assistant", "content": f"Turn {self.next_id()} is done."}

    def validate(self, prompt: Sequence[Item]) -> None:
        """Raise `Rejection` if the API would reject the prompt."""
        raise NotImplementedError

    def ends_with_calls(self) -> bool:
        """True if the newest response has calls."""
        return False

    def last_role(self) -> str:
        item = self.items[-1] if self.items else {}
        return str(item.get("role", "assistant"))

    # Steps.

    def say(self, step: Say) -> None:
        if self.will_think is not None and not self.ends_with_calls():
            self.thinks, self.will_think = self.will_think, None
        self.must_say = False
        item = self.user_item(self.text(step.words, "say"), step)
        self.add(item, is_protected=step.is_protected)

    def respond(self, step: Respond) -> Iterator[None]:
        """Let the model respond. Yields before each model call."""
        for _ in range(step.times):
            if not self.may_call():
                self.say(Say())
            yield from self.response(step)

    def instruct(self, step: Instruct) -> None:
        if not self.items or self.must_say or self.last_role() == "assistant":
            return
        item = self.instruction(self.text(step.words, "rule"), step)
        self.items.append(item)
        self.pinned.append(bare(item))

    def change(self, step: Change) -> None:
        """Edit the text of an old user message, or go back to before it."""
        turns = [index for index, item in enumerate(self.items) if self.is_spoken_by_user(item)]
        if len(turns) <= step.turn + 1:
            return
        index = turns[-1 - step.turn]
        self.is_edited = True
        if step.how == "edit":
            old = self.items[index]
            if bare(old) in self.pinned:
                self.pinned.remove(bare(old))
            self.items[index] = self.user_item(self.text(3, "say"), Say())
            return
        del self.items[index:]
        kept = [bare(item) for item in self.items]
        self.pinned = [item for item in self.pinned if item in kept]
        self.must_say = True

    def adopt(self, prompt: list[Item]) -> None:
        """Go on with the list that was sent."""
        self.items = list(prompt)

    # Parts.

    def add(self, item: Item, *, is_protected: bool = False) -> None:
        if is_protected:
            self.pinned.append(item)
            item = {**item, "meta": {"protected": True}}
        self.items.append(item)

    def may_call(self) -> bool:
        return bool(self.items) and not self.must_say and self.last_role() != "assistant"

    def own(self, item: Item) -> Item:
        """Return a message of a prompt without the outputs of stopped calls that this library has added to it."""
        return item

    def list_to_send(self) -> list[Item]:
        """Return the list that the host sends."""
        return list(self.items)

    def is_spoken_by_user(self, item: Item) -> bool:
        return item.get("role") == "user" and isinstance(item.get("content"), str)

    def next_id(self) -> str:
        self.count += 1
        return f"{self.tenant}{self.count}"

    def text(self, words: int, kind: str) -> str:
        """Return a text that no other message has, with the tenant's secret."""
        name = f"{kind}-{self.tenant}-{self.count}"
        self.count += 1
        shift = self.count % len(_FILLER)
        body = (_FILLER[shift:] + _FILLER[:shift]) * (words // len(_FILLER) + 1)
        return f"{name} SECRET-{self.tenant}: {' '.join(body[:words])}."

    def output_text(self, call: ToolCall) -> str:
        return self.text(call.output_words, "todo" if call.tool == "manage_todo_list" else "out")

    def todo(self) -> str | None:
        """Return the name of the newest todo list."""
        names = _TODO.findall(str(self.items))
        return names[-1] if names else None


def choose(values: Sequence[T], number: int) -> T:
    return values[number % len(values)]
