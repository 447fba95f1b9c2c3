"""Claude Code."""

from compact.agents.agent import Agent
from compact.agents.claude_code import log

AGENT = Agent(
    name=log.NAME,
    title="Claude Code",
    directory=".claude/projects",
    variable="CLAUDE_CONFIG_DIR",
    below="projects",
    patterns=("*.jsonl",),
    recognizes=log.is_log_line,
    parser=log.ClaudeCodeParser,
    content=log.CONTENT,
    is_of_subagent=log.is_of_subagent,
)
