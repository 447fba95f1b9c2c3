"""The description of opencode."""

from compact.agents.agent import Agent
from compact.agents.opencode import log, storage
from compact.agents.opencode.mcp_settings import MCP

AGENT = Agent(
    name=log.NAME,
    title="opencode",
    directory=".local/share/opencode",
    variable="XDG_DATA_HOME",
    below="opencode",
    patterns=(),
    file_names=(),
    recognizes=log.is_log_line,
    parser=log.OpencodeParser,
    content=log.CONTENT,
    storage=storage,
    mcp=MCP,
)
