"""Token estimators: tiktoken's exact vocabularies, and one that needs none."""

from __future__ import annotations

from compact.estimators.noop import NoopEstimator
from compact.estimators.tiktoken import TiktokenEstimator

__all__ = ["NoopEstimator", "TiktokenEstimator"]
