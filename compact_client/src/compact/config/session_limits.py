"""Limits of what a manager remembers."""

from __future__ import annotations

from dataclasses import dataclass, fields

from compact.exceptions import ConfigError


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Limits of a manager's memory. The entry that was not used for the longest time is evicted first."""

    max_sessions: int = 1024
    """Sessions per manager. The next call of an evicted session continues from its plan store, if there is one."""
    max_branches: int = 8
    """Histories per session that do not continue each other."""
    max_requests: int = 1000
    """Requests per session that `rerender` can return."""

    def __post_init__(self) -> None:
        for item in fields(self):
            if getattr(self, item.name) < 1:
                raise ConfigError(f"limits.{item.name}", "must be more than 0")
