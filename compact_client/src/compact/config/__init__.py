"""Configuration: what a manager needs, the table of settings, and the objects built from them."""

from __future__ import annotations

from compact.config.compact_config import CompactConfig, load_config

__all__ = ["CompactConfig", "load_config"]
