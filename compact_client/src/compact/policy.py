"""What to keep and when to compact: the policy, its defaults, and what counts as nonsense.

Frozen and checked when it is made, so that a plan can name the policy it followed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from compact.exceptions import ConfigError

SummaryStyle = Literal[
    "task_state", "brief", "decision_log", "code_delta", "step_ledger", "requirements_ledger", "extractive_brief"
]
Pruning = Literal["recency", "fifo", "stage_aware", "semantic"]
RendererName = Literal["layered", "inplace", "bridge"]
Truncation = Literal["none", "bytes", "tokens"]
Rung = Literal["externalize", "summarize", "clear", "drop"]

STYLES = ("task_state", "brief", "decision_log", "code_delta", "step_ledger", "requirements_ledger", "extractive_brief")
LADDER: tuple[Rung, ...] = ("externalize", "summarize", "clear", "drop")


@dataclass(frozen=True, slots=True)
class CompactPolicy:
    """When to compact, what stays, and in which shape it is rendered."""

    trigger_pct: float = 0.85
    hard_cap_buffer: int = 1500
    keep_recent_turns: int = 6
    keep_tool_io_pairs: int = 4
    roles_never_prune: tuple[str, ...] = ("system", "developer")
    protected_flag: str = "protected"
    strategy: str = "task_state"

    min_left_pct: float = 0.05
    """Compact when at most this share of the window is left, whatever `trigger_pct` says."""
    trigger_tokens_left: int | None = None
    """Compact when at most this many tokens are left."""
    auto_compact_token_limit: int | None = None
    """Compact at this many tokens; the only rule when the window is unknown."""
    soft_trigger_pct: float | None = None
    """From here on, compact when a user turn begins; from `trigger_pct` on, at any call."""

    renderer: RendererName = "layered"
    pruning: Pruning = "recency"
    semantic_keep: bool = False
    """The flag of semantic pruning; its vectoriser is built in."""
    ladder: tuple[Rung, ...] = LADDER
    target_pct: float = 0.6
    """A rung stops the ladder once the request is at most this share of the window."""
    headroom_calls: int = 12
    """How many calls at the session's own pace a summary should leave room for before the next compaction."""
    protected_tools: tuple[str, ...] = ("manage_todo_list",)
    keep_keys: tuple[str, ...] = ()
    """Fields a summary must carry over word for word."""

    summary_max_tokens: int = 16_000
    summary_room_pct: float = 0.6
    """The summary's share of what is left beside pinned messages, tools and schemas."""
    summary_ratio: float = 0.5
    """At most this share of everything that was summarised so far."""
    user_message_tokens: int = 20_000
    """How much of the users' own words the bridge renderer keeps, newest first."""

    tool_output_truncation: Truncation = "tokens"
    tool_output_max_tokens: int = 5000
    tool_output_serialization_buffer: float = 1.2
    tool_output_line_count: bool = False
    externalize_threshold_tokens: int = 1000

    overflow_max_retries: int = 3
    min_gain_pct: float = 0.02
    """A compaction that would free less than this share of the window is not worth a broken cache."""

    def __post_init__(self) -> None:
        for name in ("roles_never_prune", "protected_tools", "keep_keys", "ladder"):
            value = getattr(self, name)
            if not isinstance(value, tuple):
                object.__setattr__(self, name, tuple(value))
        for name in ("trigger_pct", "min_left_pct", "target_pct", "summary_room_pct", "summary_ratio", "min_gain_pct"):
            _require(0.0 <= getattr(self, name) <= 1.0, name, "must be 0.0-1.0")
        if self.soft_trigger_pct is not None:
            _require(0.0 <= self.soft_trigger_pct <= self.trigger_pct, "soft_trigger_pct", "must be 0.0-trigger_pct")
        for name in (
            "hard_cap_buffer",
            "keep_recent_turns",
            "keep_tool_io_pairs",
            "user_message_tokens",
            "headroom_calls",
        ):
            _require(getattr(self, name) >= 0, name, "must be 0 or more")
        for name in ("trigger_tokens_left", "auto_compact_token_limit"):
            value = getattr(self, name)
            _require(value is None or value > 0, name, "must be more than 0")
        _require(self.summary_max_tokens > 0, "summary_max_tokens", "must be more than 0")
        _require(self.tool_output_max_tokens > 0, "tool_output_max_tokens", "must be more than 0")
        _require(self.strategy in STYLES, "strategy", f"must be one of {', '.join(STYLES)}")
        _require(self.renderer in ("layered", "inplace", "bridge"), "renderer", "must be layered, inplace or bridge")
        _require(
            self.pruning in ("recency", "fifo", "stage_aware", "semantic"),
            "pruning",
            "must be recency, fifo, stage_aware or semantic",
        )
        _require(
            self.pruning != "semantic" or self.semantic_keep, "pruning", "semantic needs the flag semantic_keep=True"
        )
        _require(
            self.tool_output_truncation in ("none", "bytes", "tokens"),
            "tool_output_truncation",
            "must be none, bytes or tokens",
        )
        _require(all(rung in LADDER for rung in self.ladder), "ladder", f"may only name {', '.join(LADDER)}")

    def to_dict(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def _require(holds: bool, name: str, problem: str) -> None:
    if not holds:
        raise ConfigError(f"policy.{name}", problem)
