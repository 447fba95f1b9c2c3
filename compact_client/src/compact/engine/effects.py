"""Run the same steps for sync and async callers.

The engine is written once, as generators that yield the calls which may block: a summariser, a store, an archive.
The sync driver makes them here; the async driver makes them off the event loop and awaits what is awaitable.
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
    """Drive the steps to their end on this thread."""
    try:
        effect = next(steps)
        while True:
            try:
                result = _settled(effect())
            except Exception as error:
                effect = steps.throw(error)
            else:
                effect = steps.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value


async def arun(steps: Steps[T]) -> T:
    """Drive the steps to their end without blocking the event loop."""
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


def of_store(name: str, effect: Effect) -> Steps[Any]:
    """What somebody else's store answers. It may fail in any way; the engine knows only that it did."""
    try:
        return (yield effect)
    except CompactError:
        raise
    except Exception as error:
        raise StoreFailed(f"the {name} store failed: {error}") from error


def _settled(result: Any) -> Any:
    if not inspect.isawaitable(result):
        return result
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_awaited(result))
    if inspect.iscoroutine(result):
        result.close()
    raise CompactError("an async summariser or store needs apreflight or amanual_compact inside an event loop")


async def _awaited(result: Any) -> Any:
    return await result
