"""State of a session between calls. Each branch has a log, the host's message list, a plan and a last request."""

from __future__ import annotations

from compact.engine.session.branches import Branches, Evictions
from compact.engine.session.request import Request, SentRequest
from compact.engine.session.session import Candidate, Observation, RenderOptions, Session

__all__ = ["Branches", "Candidate", "Evictions", "Observation", "RenderOptions", "Request", "SentRequest", "Session"]
