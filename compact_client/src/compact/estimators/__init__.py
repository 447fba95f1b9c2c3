"""Token estimators: exact counts with tiktoken, and an approximation without a vocabulary."""

from __future__ import annotations

from compact.estimators.byte_estimator import NoopEstimator
from compact.estimators.tiktoken import TiktokenEstimator

__all__ = ["NoopEstimator", "TiktokenEstimator"]
