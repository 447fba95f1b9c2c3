"""aider, which keeps its history as Markdown. It is recorded by the gateway only."""
