"""After a provider's refusal: a shorter request, or the same error again. One way for all frameworks."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from compact.manager import CompactManager


def shorter(
    manager: CompactManager,
    session_id: str,
    items: Sequence[Any],
    error: Exception,
    *,
    attempt: int,
    tools: Sequence[Any] | None = None,
    instructions: str | None = None,
) -> list[Any]:
    """What to send instead of `items`; raises `error` if it was no overflow, or after too many tries."""
    front: Any = manager
    if not hasattr(front, "recover") or not _is_overflow(error) or attempt > manager.cfg.policy.overflow_max_retries:
        raise error
    made: list[Any] = front.recover(session_id, items, error, attempt=attempt, tools=tools, instructions=instructions)
    return made


async def ashorter(
    manager: CompactManager,
    session_id: str,
    items: Sequence[Any],
    error: Exception,
    *,
    attempt: int,
    tools: Sequence[Any] | None = None,
    instructions: str | None = None,
) -> list[Any]:
    """`shorter` for async callers."""
    front: Any = manager
    if not hasattr(front, "arecover") or not _is_overflow(error) or attempt > manager.cfg.policy.overflow_max_retries:
        raise error
    made: list[Any] = await front.arecover(
        session_id, items, error, attempt=attempt, tools=tools, instructions=instructions
    )
    return made


def _is_overflow(error: Exception) -> bool:
    recovery: Any = import_module("compact.recovery")
    return bool(recovery.is_context_length_error(error))
