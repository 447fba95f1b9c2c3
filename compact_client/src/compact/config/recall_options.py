"""Settings of recall."""

from __future__ import annotations

from dataclasses import dataclass

from compact.exceptions import ConfigError


@dataclass(frozen=True, slots=True)
class RecallOptions:
    """Settings for an agent with a tool that calls `manager.recall`. `recall_tool` of an integration enables it."""

    enabled: bool = False
    """End each summary with a line that tells the model to call the tool."""
    tool_name: str = "recall"
    """The name of the tool in that line."""

    def __post_init__(self) -> None:
        if not self.tool_name:
            raise ConfigError("recall.tool_name", "must not be empty")
