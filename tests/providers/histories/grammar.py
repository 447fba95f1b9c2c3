"""The grammar of histories: what users, hosts and models do in a session, independent of any format.

A seed draws a session. Numbers choose among what a format has, so that one session is a session in every format. A
session that fails is reduced to few and simple steps by `reduction.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

RENDERERS = ("layered", "bridge", "inplace")
# Tokens. The least is below what the instructions of real agents need, so that protected messages alone exceed it.
WINDOWS = (2_000, 8_000, 12_000, 30_000)
_TOOLS = ("read", "read", "read", "run", "manage_todo_list")
_WORDS = (3, 30, 30, 150, 150, 600, 2_500)


@dataclass(frozen=True)
class ToolCall:
    """A call that the client answers."""

    kind: int = 0
    """Chooses the row of the table."""
    tool: str = "read"
    output_words: int = 30
    attachment: int = 0
    """Chooses an image or document of the output. 0 for none."""
    is_answered: bool = True
    """False if the user stops the tool."""


@dataclass(frozen=True)
class Say:
    """The user speaks."""

    words: int = 3
    attachments: tuple[int, ...] = ()
    is_protected: bool = False


@dataclass(frozen=True)
class Respond:
    """The model is called and responds, and the host runs its tools."""

    words: int = 3
    calls: tuple[ToolCall, ...] = ()
    extras: tuple[int, ...] = ()
    """Choose parts beside text and calls: results of the provider's own tools, listings, redacted thinking."""
    layout: Literal["plain", "reversed", "split", "program", "paused"] = "plain"
    """`reversed`: outputs in the order in which tools end. `split`: each call in a message of its own. `program`: a
    program of the provider makes the calls. `paused`: a tool of the provider ends in a later response."""
    times: int = 1


@dataclass(frozen=True)
class Instruct:
    """The host adds an instruction."""

    words: int = 3
    extra: int = 0


@dataclass(frozen=True)
class Change:
    """The host changes its list: the text of an old user message, or the number of turns that it goes back."""

    how: Literal["edit", "rewind"] = "edit"
    turn: int = 0


@dataclass(frozen=True)
class Switch:
    """From the next turn on, another model with another window answers, which does not think."""

    window: int = 8_000


@dataclass(frozen=True)
class Compact:
    """The user asks for a compaction at the next call."""


Step = Say | Respond | Instruct | Change | Switch | Compact


@dataclass(frozen=True)
class Session:
    """A history, and the setting in which it is compacted."""

    steps: tuple[Step, ...]
    renderer: str = "layered"
    window: int = 2_000
    has_thinking: bool = False
    has_cache_marks: bool = False
    adopts: bool = False
    """True for a host that goes on with the list that it got back."""
    tenants: int = 1
    """The number of users whose sessions have the same id."""
    keep_recent_turns: int = 6
    keep_tool_io_pairs: int = 4
    route: int = 0
    """Chooses an integration of the format."""


def draw_session(seed: int) -> Session:
    """Return the session of a seed. It has 5 to 60 responses."""
    random = Random(seed)
    return Session(
        steps=_draw_steps(random, calls=random.choice((5, 5, 10, 20, 60))),
        renderer=random.choice(RENDERERS),
        window=random.choice(WINDOWS),
        has_thinking=random.random() < 0.5,
        has_cache_marks=random.random() < 0.5,
        adopts=random.random() < 0.3,
        tenants=2 if random.random() < 0.2 else 1,
        keep_recent_turns=random.randint(1, 6),
        keep_tool_io_pairs=random.randint(0, 4),
        route=random.randint(0, 59),
    )


def _draw_steps(random: Random, *, calls: int) -> tuple[Step, ...]:
    steps: list[Step] = []
    while calls > 0:
        (draw,) = random.choices(list(_STEPS), weights=list(_STEPS.values()))
        step = draw(random)
        if isinstance(step, Respond):
            step = replace(step, times=min(step.times, calls))
            calls -= step.times
        steps.append(step)
    return tuple(steps)


def _draw_respond(random: Random) -> Respond:
    return Respond(
        words=random.choice((0, 3, 30, 150)),
        calls=tuple(_draw_call(random) for _ in range(random.choice((0, 1, 1, 1, 2, 3)))),
        extras=tuple(random.randint(0, 40) for _ in range(random.choice((0, 0, 1, 2)))),
        layout=random.choice(("plain", "plain", "plain", "reversed", "split", "program", "paused")),
        times=random.choice((1, 1, 1, 2, 5, 10)),
    )


def _draw_call(random: Random) -> ToolCall:
    return ToolCall(
        kind=random.randint(0, 40),
        tool=random.choice(_TOOLS),
        output_words=random.choice(_WORDS),
        attachment=random.choice((0, 0, 0, 1, 2)),
        is_answered=random.random() < 0.95,
    )


def _draw_say(random: Random) -> Say:
    attachments = tuple(random.randint(0, 40) for _ in range(random.choice((0, 0, 0, 1, 2))))
    return Say(random.choice(_WORDS), attachments, is_protected=random.random() < 0.1)


def _draw_change(random: Random) -> Change:
    return Change("edit" if random.random() < 0.5 else "rewind", random.randint(0, 4))


_STEPS: dict[Callable[[Random], Step], int] = {
    _draw_respond: 10,
    _draw_say: 6,
    lambda random: Instruct(random.choice((3, 30)), random.randint(0, 40)): 1,
    _draw_change: 1,
    lambda random: Switch(random.choice(WINDOWS)): 1,
    lambda random: Compact(): 1,
}
"""The steps that a session may have, with their weights."""
