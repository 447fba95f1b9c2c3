"""Configuration of a manager: the schema of settings, their sources, and the objects built from them."""

from __future__ import annotations

from compact.config.compact_config import CompactConfig, load_config
from compact.config.recall_options import RecallOptions
from compact.config.session_limits import SessionLimits

__all__ = ["CompactConfig", "RecallOptions", "SessionLimits", "load_config"]
