"""After a provider's refusal: a shorter request, or the same error again. One way for all frameworks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compact.engine.overflow_errors import is_context_length_error
from compact.exceptions import CompactError
from compact.manager import CompactManager


def shorter(
    manager: CompactManager, session_id: str, shown: Sequence[Any], error: Exception, *, attempt: int
) -> list[Any]:
    """What to send instead; `shown` is the list that was given to `preflight`.

    Raises the provider's own error if it was no overflow, or when nothing more can be done about it.
    """
    if not is_context_length_error(error):
        raise error
    try:
        return manager.recover(session_id, shown, error, attempt=attempt)
    except CompactError as reason:
        raise error from reason


async def ashorter(
    manager: CompactManager, session_id: str, shown: Sequence[Any], error: Exception, *, attempt: int
) -> list[Any]:
    """`shorter` for async callers."""
    if not is_context_length_error(error):
        raise error
    try:
        return await manager.arecover(session_id, shown, error, attempt=attempt)
    except CompactError as reason:
        raise error from reason
