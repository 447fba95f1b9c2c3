"""Count where each entity of a span was mentioned, and estimate how likely it is to be needed again.

Terms: an entity is *said* if the user or the assistant wrote it, including tool arguments, and *shown* if it appears in
tool output.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from compact.reading.entities import TYPE_WEIGHTS
from compact.summary.entries import Mentions

CHARS_PER_TOKEN: Final = 3.6
# Coefficients of a logistic regression on "was this entity used again", fitted on recorded sessions and rounded to
# values that held up when each source of sessions was left out. The signs matter more than the digits. Distance weighs
# less than in the regression: recent text stays in the prompt anyway, and a summary is for older text.
_INTERCEPT: Final = -2.0
_SAID: Final = 0.4  # per log mention in prose or as an argument
_SHOWN: Final = 0.15  # per log mention in tool output
_SHOWN_SYMBOL: Final = 0.7  # the same for a symbol of code, where 15 mentions make its use seven times as likely as one
_DISTANCE: Final = -0.2  # per log thousand tokens since the last mention
_BY_USER: Final = 0.6
_IN_LAST_REQUEST: Final = 0.5
_AS_ARGUMENT: Final = 0.1
_IN_SEVERAL_MESSAGES: Final = 0.7
# A fact that a summary kept is likely to be needed again. Without this, it would lose its value in each round.
_KEPT: Final = 1.5
_SHOWN_ONLY: Final = -1.3  # between -0.7 (service agents) and -1.8 (coding agents)
_OUTPUT_SIZE: Final = -0.2  # per log thousand characters: short outputs were asked for, long ones were searched
_BY_TYPE: Final[dict[str, float]] = {
    "acronym": -2.5,
    "argument": 0.6,
    "code": 0.8,
    "date": 0.6,
    "dotted": 0.5,
    "email": 1.0,
    "error": 0.5,
    "field": 2.6,
    "file": -0.4,
    "flag": 0.8,
    "id": 1.5,
    "ident": 0.6,
    "name": -1.0,
    "num": -1.0,
    "quoted": -0.3,
    "url": -0.6,
    "uuid": 0.6,
}

# The same for entities that only code and tool output contain. There, a quoted text is mostly a string literal, and a
# name is a word that happens to be capitalized.
_UNSAID_BY_TYPE: Final[dict[str, float]] = {"file": -0.5, "name": -1.0, "num": -1.0, "path": 0.4, "quoted": -1.0}


@dataclass(slots=True)
class EntityUsage:
    """Counts of where and by whom an entity was mentioned."""

    type: str
    first_line: str
    said: int = 0
    written: int = 0
    shown: int = 0
    smallest_output_chars: int = 1 << 30
    messages: int = 0
    last_position: int = -2  # before all messages, and before an earlier summary
    last_chars: int = 0
    by_user: bool = False
    in_last_request: bool = False
    as_argument: bool = False
    is_kept: bool = False  # by an earlier summary
    is_counted: bool = False  # in the messages that an earlier summary replaced

    @classmethod
    def continued(cls, entity_type: str, first_line: str, mentions: Mentions) -> EntityUsage:
        """Return the usage of an entity that messages before an earlier summary mentioned."""
        return cls(
            entity_type,
            first_line,
            said=mentions.said,
            shown=mentions.shown,
            messages=mentions.messages,
            by_user=mentions.by_user,
            is_kept=True,
            is_counted=True,
        )

    def mentions(self, key: str) -> Mentions:
        """Return what a summary remembers of the usage."""
        return Mentions(key, self.said or int(self.is_in_conversation), self.shown, self.messages, self.by_user)

    @property
    def is_in_conversation(self) -> bool:
        """True if the user or the assistant wrote the entity, including in tool arguments."""
        return self.said > 0 or self.written > 0


def reuse_scores(usages: Sequence[EntityUsage], chars: int) -> list[float]:
    """Return the weight of each entity times the probability that it is needed again.

    `chars` is the length of all indexed lines.
    """
    log1p, exp = math.log1p, math.exp
    scores = []
    for usage in usages:
        distance = (chars - usage.last_chars) / (CHARS_PER_TOKEN * 1000)
        logit = (
            _INTERCEPT
            + _SAID * log1p(usage.said)
            + (_SHOWN_SYMBOL if usage.type == "ident" else _SHOWN) * log1p(usage.shown)
            + _DISTANCE * log1p(distance)
            + _BY_USER * usage.by_user
            + _IN_LAST_REQUEST * usage.in_last_request
            + _AS_ARGUMENT * usage.as_argument
            + (0.0 if usage.said > 0 or usage.written > 0 else _shown_only(usage.smallest_output_chars))
            + _BY_TYPE.get(usage.type, 0.0)
            + (0.0 if usage.said else _UNSAID_BY_TYPE.get(usage.type, 0.0))
            + (_IN_SEVERAL_MESSAGES if usage.messages > 1 else 0.0)
            + _KEPT * usage.is_kept
        )
        scores.append(TYPE_WEIGHTS[usage.type] / (1.0 + exp(-logit)))
    return scores


@lru_cache(maxsize=4096)  # Hundreds of entities often share one output and its size.
def _shown_only(output_chars: int) -> float:
    return _SHOWN_ONLY + _OUTPUT_SIZE * math.log(min(max(output_chars, 100), 100_000) / 1000)
