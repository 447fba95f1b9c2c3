"""Choose the older units that stay in the prompt with shortened tool outputs.

What the user and the agent said is the story of a session. It is short, and most of a session is tool output. So older
units stay word for word as long as they fit, newest first, while their outputs are shortened in place. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compact.messages.units import Unit

RULE = "story"
# Tokens of each output, from the largest limit to the smallest. The smallest one shows a first and a last line.
_LIMITS = (100, 50, 24)
_MARKER_TOKENS = 16  # the line that says how much is left out
# A unit that would take more of the room, such as one that writes a whole file, is summarized.
_MAX_UNIT_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class StoryUnit:
    """An older unit: its tokens, and those of each output that can be shortened."""

    unit: Unit
    tokens: int
    outputs: tuple[int, ...]

    def tokens_at(self, limit: int) -> int:
        """Return the tokens of the unit with its outputs shortened to a limit."""
        return self.tokens - sum(max(0, tokens - limit - _MARKER_TOKENS) for tokens in self.outputs)


@dataclass(frozen=True, slots=True)
class Story:
    """The older units to keep, and the tokens to which their outputs are shortened."""

    units: tuple[Unit, ...] = ()
    output_tokens: int = 0


def choose_story(candidates: Sequence[StoryUnit], room_tokens: int) -> Story:
    """Choose the units that fit into the room, newest first. `candidates` are in the order of the conversation.

    Outputs get the largest limit with which all units fit.
    """
    limit = _LIMITS[-1]
    for limit in _LIMITS:
        small = list(_small_units(candidates, limit, room_tokens))
        if sum(candidate.tokens_at(limit) for candidate in small) <= room_tokens:
            return Story(tuple(candidate.unit for candidate in small), limit)
    units, left = [], room_tokens
    for candidate in reversed(list(_small_units(candidates, limit, room_tokens))):
        left -= candidate.tokens_at(limit)
        if left < 0:
            break
        units.append(candidate.unit)
    return Story(tuple(reversed(units)), limit)


def _small_units(candidates: Iterable[StoryUnit], limit: int, room_tokens: int) -> Iterable[StoryUnit]:
    largest = room_tokens * _MAX_UNIT_SHARE
    return (candidate for candidate in candidates if candidate.tokens_at(limit) <= largest)
