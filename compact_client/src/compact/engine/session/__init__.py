"""State of one session between calls: its log, the host's message list, its plan and its last request."""

from __future__ import annotations

from compact.engine.session.request import Request, SentRequest
from compact.engine.session.session import Observation, RenderOptions, Session

__all__ = ["Observation", "RenderOptions", "Request", "SentRequest", "Session"]
