"""Run the same steps for sync and async callers.

The engine is written once, as generators that yield each call which may block: a summarizer, a store, an archive.
`run` makes these calls on the current thread. `arun` makes them outside the event loop and awaits awaitable results.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from compact.exceptions import CompactError, StoreFailed

T = TypeVar("T")

Effect = Callable[[], Any]
Steps = Generator[Effect, Any, T]


def run(steps: Steps[T]) -> T:
    """Run the steps to the end on this thread."""
    try:
        effect = next(steps)
        while True:
            try:
                result = _resolve(effect())
            except Exception as error:
                effect = steps.throw(error)
            else:
                effect = steps.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value


async def arun(steps: Steps[T]) -> T:
    """Run the steps to the end without blocking the event loop."""
    try:
        effect = next(steps)
        while True:
            try:
                result = await asyncio.to_thread(effect)
                if inspect.isawaitable(result):
                    result = await result
            except Exception as error:
                effect = steps.throw(error)
            else:
                effect = steps.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value


def single_step(effect: Effect) -> Steps[Any]:
    """Return steps that consist of one call."""
    return (yield effect)


def call_store(name: str, effect: Effect) -> Steps[Any]:
    """Call a user-supplied store. Any failure of its own becomes a `StoreFailed`."""
    try:
        return (yield effect)
    except CompactError:
        raise
    except Exception as error:
        raise StoreFailed(f"The {name} store failed: {error}") from error


def _resolve(result: Any) -> Any:
    """Wait for an awaitable result, which is only possible outside an event loop."""
    if not inspect.isawaitable(result):
        return result
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_wait_for(result))
    if inspect.iscoroutine(result):
        result.close()
    raise CompactError(
        "An async summarizer or store cannot be used by a sync call inside an event loop. "
        "Call apreflight or amanual_compact instead."
    )


async def _wait_for(result: Any) -> Any:
    return await result
