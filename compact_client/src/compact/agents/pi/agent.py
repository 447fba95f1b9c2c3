"""The description of pi."""

from compact.agents.agent import Agent
from compact.agents.pi import log

AGENT = Agent(
    name=log.NAME,
    title="pi",
    directory=".pi/agent/sessions",
    variable="PI_CODING_AGENT_DIR",
    below="sessions",
    patterns=("*.jsonl",),
    recognizes=log.is_log_line,
    parser=log.PiParser,
    content=log.CONTENT,
)
