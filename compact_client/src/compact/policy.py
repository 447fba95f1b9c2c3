"""The compaction policy: when to compact and what to keep.

A policy is immutable and validated on creation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from compact.exceptions import ConfigError

SummaryStyle = Literal[
    "task_state", "brief", "decision_log", "code_delta", "step_ledger", "requirements_ledger", "extractive_brief"
]
Pruning = Literal["recency", "fifo", "stage_aware", "semantic"]
RendererName = Literal["layered", "inplace", "bridge"]
Truncation = Literal["none", "bytes", "tokens"]
Rung = Literal["externalize", "summarize", "clear", "drop"]
Floor = Literal["turn", "newest"]
InsufficientBudgetAction = Literal["reduce", "raise"]

STYLES: tuple[str, ...] = get_args(SummaryStyle)
LADDER: tuple[Rung, ...] = get_args(Rung)

_TUPLES = ("roles_never_prune", "protected_tools", "state_tools", "keep_keys", "ladder")
_SHARES = (
    "trigger_pct",
    "min_left_pct",
    "target_pct",
    "summary_room_pct",
    "summary_ratio",
    "story_pct",
    "min_gain_pct",
    "tool_output_share",
)
_NOT_NEGATIVE = (
    "hard_cap_buffer",
    "keep_recent_turns",
    "keep_tool_io_pairs",
    "user_message_tokens",
    "headroom_calls",
    "externalize_threshold_tokens",
    "overflow_max_retries",
)
_POSITIVE = ("trigger_tokens_left", "auto_compact_token_limit", "summary_max_tokens", "tool_output_max_tokens")
_CHOICES: dict[str, tuple[str | None, ...]] = {
    "strategy": STYLES,
    "renderer": get_args(RendererName),
    "pruning": get_args(Pruning),
    "tool_output_truncation": get_args(Truncation),
    "floor": (*get_args(Floor), None),
    "on_insufficient_budget": get_args(InsufficientBudgetAction),
}


@dataclass(frozen=True, slots=True)
class CompactPolicy:
    """When to compact, what to keep, and how to render the result."""

    trigger_pct: float = 0.85
    hard_cap_buffer: int = 1500
    keep_recent_turns: int = 6
    keep_tool_io_pairs: int = 4
    floor: Floor | None = None
    """The least that a compaction keeps beside pinned messages. `turn`: one turn and one tool pair, and below that
    `InsufficientBudget` is raised. `newest`: the newest unit alone. None: `turn` for `preflight`, `newest` for the
    framework integrations."""
    on_insufficient_budget: InsufficientBudgetAction = "reduce"
    """The reaction of an integration if the messages that must stay exceed the budget. `reduce`: send them and the
    newest unit, with the warning `prompt_reduced`. `raise`: raise `InsufficientBudget` to the caller."""
    roles_never_prune: tuple[str, ...] = ("system", "developer")
    protected_flag: str = "protected"
    strategy: str = "task_state"

    min_left_pct: float = 0.05
    """Compact when at most this share of the window is left, regardless of `trigger_pct`."""
    trigger_tokens_left: int | None = None
    """Compact when at most this many tokens are left."""
    auto_compact_token_limit: int | None = None
    """Compact at this many tokens. The only rule if the window is unknown."""
    soft_trigger_pct: float | None = None
    """Compact from this share of the window on, but only when a user turn begins."""

    renderer: RendererName = "layered"
    pruning: Pruning = "recency"
    semantic_keep: bool = False
    """Required for `pruning="semantic"`."""
    ladder: tuple[Rung, ...] = LADDER
    target_pct: float = 0.6
    """The ladder stops once the request is at most this share of the window."""
    headroom_calls: int = 12
    """The number of average calls for which a summary leaves space before the next compaction."""
    growth_tokens: float | None = None
    """Tokens that an average call adds. None: measured in the session, which a new process has to do again."""
    protected_tools: tuple[str, ...] = ("manage_todo_list",)
    state_tools: tuple[str, ...] = ("manage_todo_list", "TodoWrite", "todo_write", "write_todos", "update_plan")
    """Tools whose result replaces the one before it. Of a protected one, only the newest result is pinned."""
    keep_keys: tuple[str, ...] = ()
    """Fields that a summary must contain verbatim."""

    summary_max_tokens: int = 16_000
    summary_room_pct: float = 0.6
    """The summary's share of the tokens that pinned messages, tools and schemas leave."""
    summary_ratio: float = 0.5
    """Maximum length of a summary as a share of the text that it covers."""
    story_pct: float = 0.5
    """Share of the same tokens up to which messages older than the recent window stay word for word, newest first, with
    excerpts of their tool outputs. The recent messages count, too. 0: a summary replaces all older messages."""
    user_message_tokens: int = 20_000
    """Tokens of user messages that the bridge renderer keeps, newest first. The one that exceeds them is truncated."""

    tool_output_truncation: Truncation = "tokens"
    tool_output_max_tokens: int = 5000
    tool_output_share: float = 0.5
    """Truncate an output when it arrives if it takes more than this share of the window. 0 truncates every output over
    `tool_output_max_tokens`, as document 004 does. A compaction that cannot keep the recent window also truncates."""
    tool_output_serialization_buffer: float = 1.2
    tool_output_line_count: bool = False
    externalize_threshold_tokens: int = 1000

    overflow_max_retries: int = 3
    min_gain_pct: float = 0.02
    """Share of the window that a compaction must free to be worth invalidating the provider's cache."""

    def __post_init__(self) -> None:
        self._convert_lists()
        self._validate_numbers()
        for name, choices in _CHOICES.items():
            names = ", ".join("null" if choice is None else choice for choice in choices)
            _require(getattr(self, name) in choices, name, f"must be one of {names}")
        _require(self.pruning != "semantic" or self.semantic_keep, "pruning", "semantic requires semantic_keep=True")
        _require(all(rung in LADDER for rung in self.ladder), "ladder", f"may only contain {', '.join(LADDER)}")

    def _convert_lists(self) -> None:
        for name in _TUPLES:
            value = getattr(self, name)
            # A text would become a tuple of its letters, and protect nothing.
            is_list = isinstance(value, Iterable) and not isinstance(value, str | bytes)
            _require(is_list, name, f"must be a list of names, not {value!r}")
            if not isinstance(value, tuple):
                object.__setattr__(self, name, tuple(value))

    def _validate_numbers(self) -> None:
        for name in _SHARES:
            _require(_is_number(getattr(self, name), 0.0, 1.0), name, "must be 0.0-1.0")
        if self.soft_trigger_pct is not None:
            is_valid = _is_number(self.soft_trigger_pct, 0.0, self.trigger_pct)
            _require(is_valid, "soft_trigger_pct", "must be 0.0-trigger_pct")
        for name in _NOT_NEGATIVE:
            value = getattr(self, name)
            _require(isinstance(value, int) and value >= 0, name, f"must be a whole number, 0 or more, not {value!r}")
        for name in _POSITIVE:
            value = getattr(self, name)
            is_valid = value is None or (isinstance(value, int) and value > 0)
            _require(is_valid, name, f"must be a whole number, more than 0, not {value!r}")
        _require(self.growth_tokens is None or _is_number(self.growth_tokens), "growth_tokens", "must be 0 or more")
        buffer = self.tool_output_serialization_buffer
        _require(_is_number(buffer) and buffer > 0, "tool_output_serialization_buffer", "must be more than 0")

    def to_dict(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def _is_number(value: Any, minimum: float = 0.0, maximum: float = math.inf) -> bool:
    return isinstance(value, int | float) and minimum <= value <= maximum


def _require(condition: bool, name: str, problem: str) -> None:
    if not condition:
        raise ConfigError(f"policy.{name}", problem)
