"""The logs of agents that tests read. Each agent keeps its own in its folder, as the agent writes them."""

from __future__ import annotations

from pathlib import Path

from compact.importers import Conversation, read_log

AGENTS = Path(__file__).parent / "client" / "agents"
CLAUDE_CODE = AGENTS / "claude_code" / "logs"
CLAUDE_CODE_SESSION = CLAUDE_CODE / "version_2" / "7f3d9a10-4b1e-4c57-9a51-0d2b6f3c8e11.jsonl"
CODEX = AGENTS / "codex" / "logs"
CODEX_SESSION = CODEX / "records" / "rollout-2026-08-07T14-00-00-0199aaaa-0000-7000-8000-000000000001.jsonl"
GEMINI = AGENTS / "gemini" / "logs"
OPENCODE = AGENTS / "opencode" / "logs" / "exports"
PI = AGENTS / "pi" / "logs"
ALL = sorted(path for path in AGENTS.glob("*/logs/**/*.json*") if not path.name.endswith(".meta.json"))
SHORT_LOGS = Path(__file__).parent / "fixtures" / "logs"
"""One short log of Claude Code and one of Codex."""


def read(path: Path) -> Conversation:
    """Return the conversation of a log."""
    return read_log(path)[0]


def spans(conversation: Conversation, kind: str) -> list[tuple[str, str]]:
    """Return the keys and names of the spans of a kind."""
    return [(span.key, span.name) for span in conversation.spans if span.kind == kind]


def tokens(conversation: Conversation) -> int:
    """Return the tokens of all model calls."""
    return sum(span.usage["input_tokens"] + span.usage["output_tokens"] for span in conversation.spans if span.usage)
