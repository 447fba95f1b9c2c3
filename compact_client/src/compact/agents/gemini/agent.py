"""The description of Gemini CLI."""

from compact.agents.agent import Agent
from compact.agents.gemini import log
from compact.agents.gemini.mcp_settings import MCP

AGENT = Agent(
    name=log.NAME,
    title="Gemini CLI",
    directory=".gemini/tmp",
    variable="GEMINI_CLI_HOME",
    below=".gemini/tmp",
    patterns=("chats/**/*.jsonl", "chats/session-*.json"),
    file_names=("*.jsonl", "session-*.json"),
    recognizes=log.is_log_line,
    parser=log.GeminiParser,
    content=log.CONTENT,
    mcp=MCP,
)
