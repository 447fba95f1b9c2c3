"""The description of Claude Code."""

from compact.agents.agent import Agent
from compact.agents.claude_code import NAME, log
from compact.agents.claude_code.hooks import HOOKS
from compact.agents.claude_code.mcp_settings import MCP
from compact.agents.claude_code.wire import WIRE

AGENT = Agent(
    name=NAME,
    title="Claude Code",
    directory=".claude/projects",
    variable="CLAUDE_CONFIG_DIR",
    below="projects",
    patterns=("*.jsonl",),
    recognizes=log.is_log_line,
    parser=log.ClaudeCodeParser,
    content=log.CONTENT,
    is_of_subagent=log.is_of_subagent,
    hooks=HOOKS,
    mcp=MCP,
    wire=WIRE,
)
