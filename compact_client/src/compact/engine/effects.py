"""Run the same steps for sync and async callers.

The engine is written once, as generators that yield each call which may block: a summarizer, a store, an archive.
`run` runs everything on the current thread. `arun` runs everything in a worker thread, because a compaction is up to
a few hundred milliseconds of Python, and awaits awaitable results on the event loop.

A model call is written in the same way, as steps that yield the calls of the manager and of the model. `drive` and
`adrive` run them where the caller is.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from compact.exceptions import CompactError, StoreFailed

T = TypeVar("T")
R = TypeVar("R")

Effect = Callable[[], Any]
Steps = Generator[Effect, Any, T]

_MAX_WORKERS = 32


def run(steps: Steps[T]) -> T:
    """Run the steps to the end on this thread. Wait for awaitable results, if no event loop runs here."""
    return drive(steps, _resolve)


def drive(steps: Steps[T], resolve: Callable[[Any], Any] = lambda result: result) -> T:
    """Run the steps to the end on this thread, with the results of their calls as they are."""
    resume: Effect = functools.partial(next, steps)
    while True:
        try:
            effect = resume()
        except StopIteration as stop:
            value: T = stop.value
            return value
        try:
            result = resolve(effect())
        except BaseException as error:  # thrown into the steps
            resume = functools.partial(steps.throw, error)
        else:
            resume = functools.partial(steps.send, result)


async def adrive(steps: Steps[T]) -> T:
    """Run the steps to the end on the event loop, and await the results of their calls that are awaitable."""
    resume: Effect = functools.partial(next, steps)
    while True:
        try:
            effect = resume()
        except StopIteration as stop:
            value: T = stop.value
            return value
        resume = await _call(steps, effect)


async def _call(steps: Generator[Any, Any, Any], effect: Effect) -> Effect:
    """Make the call of a step. Return the function that resumes the steps with its result or its error."""
    try:
        result = effect()
        if inspect.isawaitable(result):
            result = await result
    except BaseException as error:  # thrown into the steps
        return functools.partial(steps.throw, error)
    return functools.partial(steps.send, result)


@dataclass(frozen=True, slots=True)
class Visible:
    """Events of a stream that its consumer may see."""

    events: Sequence[Any]


StreamSteps = Generator[Effect | Visible, Any, None]


def drive_stream(steps: StreamSteps) -> Iterator[Any]:
    """Yield the visible events of the steps of a stream."""
    while (visible := drive(_until_visible(steps))) is not None:
        yield from visible.events


async def adrive_stream(steps: StreamSteps) -> AsyncIterator[Any]:
    """Yield the visible events of the steps of a stream on the event loop."""
    while (visible := await adrive(_until_visible(steps))) is not None:
        for event in visible.events:
            yield event


def _until_visible(steps: StreamSteps) -> Steps[Visible | None]:
    """Run the steps of a stream until there is something to see. Return None at their end."""
    resume: Effect = functools.partial(next, steps)
    while True:
        try:
            effect = resume()
        except StopIteration:
            return None
        if isinstance(effect, Visible):
            return effect
        try:
            result = yield effect
        except BaseException as error:  # thrown into the steps
            resume = functools.partial(steps.throw, error)
        else:
            resume = functools.partial(steps.send, result)


class Guard(Protocol):
    """Marks the threads that run the steps of a session, for `arun`."""

    def run_worker(self) -> AbstractContextManager[None]:
        """Return a context for the time in which this thread runs steps and the calls that they yield."""
        ...

    def run_steps(self) -> AbstractContextManager[None]:
        """Return a context for the time in which this thread runs steps, and may change the session."""
        ...


@dataclass(frozen=True, slots=True)
class _Finished:
    """The result of the steps."""

    value: Any


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An awaitable that a step's call returned."""

    awaitable: Awaitable[Any]


async def arun(steps: Steps[T], guard: Guard) -> T:
    """Run the steps to the end in a worker thread. Only their awaitables are awaited on the event loop."""
    context = contextvars.copy_context()
    resume: Effect = functools.partial(next, steps)
    while True:
        outcome = await _in_worker(functools.partial(context.run, _run_until_awaitable, steps, resume, guard))
        if isinstance(outcome, _Finished):
            value: T = outcome.value
            return value
        try:
            result = await outcome.awaitable
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # codespell:ignore
                steps.close()
                raise
            resume = functools.partial(steps.throw, CompactError("The async call was canceled."))
        except Exception as error:
            resume = functools.partial(steps.throw, error)
        else:
            resume = functools.partial(steps.send, result)


def _run_until_awaitable(steps: Steps[Any], resume: Effect, guard: Guard) -> _Finished | _Waiting:
    """Run steps and their calls on this thread, until they end or a call returns an awaitable."""
    with guard.run_worker():
        while True:
            try:
                with guard.run_steps():
                    effect = resume()
            except StopIteration as stop:
                return _Finished(stop.value)
            try:
                result = effect()
            except Exception as error:
                resume = functools.partial(steps.throw, error)
                continue
            if inspect.isawaitable(result):
                return _Waiting(result)
            resume = functools.partial(steps.send, result)


async def _in_worker(function: Callable[[], R]) -> R:
    """Run a function in a thread of our own pool, and wait for its end even if the task is canceled."""
    future = asyncio.get_running_loop().run_in_executor(_worker_pool(), function)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        # The thread cannot be stopped, and the session must not be used before it ends.
        while not future.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([future])
        raise


@functools.cache
def _worker_pool() -> ThreadPoolExecutor:
    # Not asyncio's default pool: with few cores it has few threads, and slow summarizers could occupy all of them.
    return ThreadPoolExecutor(_MAX_WORKERS, thread_name_prefix="compact-worker")


if hasattr(os, "register_at_fork"):
    # The threads of a pool do not survive a fork.
    os.register_at_fork(after_in_child=_worker_pool.cache_clear)


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
