"""The recorder process. A recorder that is slow, stopped or dead costs gaps and nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from compact.gateway.frames import Frame, Kind
from compact.gateway.relay.frame_process import FrameProcess

_FLUSH_DELAY_S = 0.01
"""Copies that arrive within this time share a system call."""
_MAX_CLIENTS = 10_000


class RecorderProcess(FrameProcess):
    """Where the relay's copies go. It lowers its own priority."""

    def __init__(self, command: Sequence[str], limit_bytes: int) -> None:
        self.figures: dict[str, float] = {}
        self.sessions: dict[str, dict[str, Any]] = {}
        """The last session of each client."""
        super().__init__(command, limit_bytes, flush_delay_s=_FLUSH_DELAY_S)

    def _take(self, frame: Frame) -> None:
        try:
            content = frame.json()
            if frame.kind is Kind.SESSION:
                if len(self.sessions) >= _MAX_CLIENTS:
                    self.sessions.pop(next(iter(self.sessions)))
                self.sessions[str(content["client"])] = content
            elif frame.kind is Kind.FIGURES:
                self.figures.update({str(name): float(value) for name, value in content.items()})
        except (ValueError, KeyError, TypeError, AttributeError, json.JSONDecodeError):
            pass  # The recorder is another program, and its mistakes must not reach the agents.
