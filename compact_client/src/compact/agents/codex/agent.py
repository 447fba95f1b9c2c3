"""The description of Codex."""

from compact.agents.agent import Agent
from compact.agents.codex import NAME, log
from compact.agents.codex.hooks import HOOKS
from compact.agents.codex.mcp_settings import MCP
from compact.agents.codex.wire import WIRE

AGENT = Agent(
    name=NAME,
    title="Codex",
    directory=".codex/sessions",
    variable="CODEX_HOME",
    below="sessions",
    patterns=("rollout-*.jsonl",),
    recognizes=log.is_first_line,
    parser=log.CodexParser,
    content=log.CONTENT,
    session_of=log.session_of,
    hooks=HOOKS,
    mcp=MCP,
    wire=WIRE,
)
