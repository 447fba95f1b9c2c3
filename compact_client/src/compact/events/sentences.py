"""The sentences that this library writes into events and ledgers: rules, reasons and notes.

Everybody with access to a session sees them, so they are templates with typed values. A reader without the right to
the content sees no other text in their place. A test compares the table with the code that writes them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_NAME = r"[A-Za-z0-9_][A-Za-z0-9_:+-]{0,63}"
_VALUES: Final = {
    "number": r"-?[0-9][0-9,]{0,19}(?:\.[0-9]{1,6})?",
    "name": _NAME,
    "names": rf"{_NAME}(?:, {_NAME}){{0,20}}",
    "durability": "ephemeral|anchoring|replayable|non_replayable",
    "role": "system|developer|user|assistant|tool",
    "agent": "Claude Code|Codex|Gemini CLI|opencode|pi|[Tt]he agent",
    "threshold": (
        r"auto_compact_token_limit|(?:new turn above soft_)?trigger_pct [0-9.]{1,8}|trigger"
        r"|at most [0-9]{1,3}% of the window left|over the budget of [0-9,]{1,20}|at most [0-9,]{1,20} tokens left"
    ),
}
"""The values of templates. The names of files have a dot or a slash, so they are no names of tools."""
_RULES: Final = (
    "",
    # Units that stay
    "role {role}",
    "protected",
    "protected tool {names}",
    "provider compaction item",
    "turn-aborted marker",
    "non-replayable",
    "story",
    "newest unit",
    "last user message",
    "user input",
    "user message within {number} tokens",
    "recent {number} of {number}",
    "tool pair {number} of {number}",
    "stage of a kept tool pair",
    "semantic cluster near the current work",
    "within the budget",
    "middle truncated",
    # Messages that leave
    "older than the recent window",
    "large tool result",
    "merged into the next summary",
    "over budget: summaries of earlier spans merged into one",
    "its span is gone",
    "summary of an earlier span",
    "pointer to externalized content",
    "pointer moved into the summary",
    "no room for a summary",
    "no less aggressive strategy freed enough",
    "summarizer failed",
    "{number} tokens, threshold {number}",
    # Compactions of other programs
    "older than the compaction",
    "no summary in the log",
    "none of its facts are in the new prompt",
    "the provider does not disclose this summary",
    "the compaction failed",
    "old tool result",
    "not a cleared tool result",
    "thinking of an old turn",
    "no cleared thinking",
    "preserved by Claude Code",
    "in the replacement history",
    "in the replacement history, shortened",
    "Codex keeps the latest user messages",
    "instructions",
    "in the new history",
    "in the kept tail",
    "after the first kept entry",
    "sent again",
    "another result",
    "the same call has a shorter result",
    "reminder of the agent",
    "in the request for the summary",
    "not in the next prompt",
)
_REASONS: Final = (
    # Rules of a decision, and what started the compaction of another program
    *("manual", "token_limit", "tokens_left", "trigger_pct", "min_left_pct", "soft_trigger_pct", "budget", "below"),
    *("unknown_window", "overflow", "auto", "preflight"),
    # Why there is a compaction, or none
    "requested by the caller",
    "the window is unknown and auto_compact_token_limit is not set, so no rule can fire",
    "{number} tokens: at or over {number} ({threshold})",
    "{number} tokens: {number} below {number} ({threshold})",
    "{number} tokens are {number}% of {number}: at or over {number} ({threshold})",
    "{number} tokens are {number}% of {number}: {number} below {number} ({threshold})",
    "{number} of {number} tokens: at or over {number} ({threshold})",
    "the last compactions freed almost nothing, so the next one waits for new messages or the budget limit",
    "{agent} compacted",
    "{agent} cleared tool results",
    "opencode cleared old tool results",
    # Reductions
    "over budget: keep_recent_turns {number} -> {number}",
    "over budget: keep_tool_io_pairs {number} -> {number}",
    "over budget with 1 turn and 1 tool pair: last turn only",
    "over budget with 1 turn: newest unit and last user message only",
    "over budget: newest unit only",
    "over budget: the last user message is limited to {number} tokens",
    "over budget: summaries of earlier spans merged into one: {number}",
    # Notes
    "The provider does not disclose this summary.",
    "The provider could not write a summary, and the prompt stayed as it was.",
    "The request has fewer of them than the provider reports as cleared, so the ledger lists only those.",
)
_CLEARED: Final = "{durability} result of {name}"
_PLACEHOLDER: Final = re.compile(r"\\\{([a-z]+)\\\}")
_MAX_CHARS: Final = 2_000


def _expression(template: str) -> str:
    return _PLACEHOLDER.sub(lambda match: f"(?:{_VALUES[match[1]]})", re.escape(template))


_cleared = _expression(_CLEARED)
_KNOWN: Final = re.compile(
    rf"(?:(?:{'|'.join(map(_expression, _RULES))})(?:, middle truncated)?"
    rf"|{'|'.join(map(_expression, _REASONS))}|{_cleared}(?:, {_cleared}){{0,50}})"
)


@lru_cache(maxsize=4096)
def is_known_sentence(text: str) -> bool:
    """True if this library writes such a sentence."""
    return len(text) <= _MAX_CHARS and _KNOWN.fullmatch(text) is not None
