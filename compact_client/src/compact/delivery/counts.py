"""Counters shared by the stages of a delivery."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    """Items sent, rejected and dropped, and failed attempts, since this process started."""

    sent: int = 0
    rejected: int = 0
    dropped: int = 0
    failures: int = 0
    reported_drops: int = 0

    @property
    def unreported_drops(self) -> int:
        return self.dropped - self.reported_drops

    def take_drops(self) -> int:
        """Return the number of drops since the last call."""
        drops = self.unreported_drops
        self.reported_drops += drops
        return drops

    def reset(self) -> None:
        """Set every counter to 0, as a forked child must."""
        self.sent = self.rejected = self.dropped = self.failures = self.reported_drops = 0
