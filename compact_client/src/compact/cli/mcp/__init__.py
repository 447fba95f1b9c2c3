"""The MCP server over local session logs, and its entry in the settings of an agent."""
