"""Reduce a session that fails to the few steps that its failure needs.

Each attempt plays a whole session, so their number and time are limited: steps are removed in halves, then each one,
and then each value is replaced by its default. Without the limit, a few failures of long sessions took hours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass, replace
from time import monotonic
from typing import Any

from providers.histories.grammar import Respond, Session

Failure = str | None
_MAX_ATTEMPTS = 200
_MAX_SECONDS = 60.0


def reduce_session(
    session: Session, fail: Callable[[Session], Failure], *, max_seconds: float = _MAX_SECONDS
) -> Session:
    """Return the smallest session that was found with the same failure. `fail` returns the failure of a session."""
    end = monotonic() + max_seconds
    wanted = fail(session)
    attempts = _MAX_ATTEMPTS
    candidates = _smaller(session)
    while attempts and monotonic() < end and (candidate := next(candidates, None)) is not None:
        attempts -= 1
        if fail(candidate) == wanted:
            session, candidates = candidate, _smaller(candidate)
    return session


def _smaller(session: Session) -> Iterator[Session]:
    """Yield sessions that are simpler, the much simpler ones first."""
    steps = session.steps
    size = len(steps) // 2
    while size:
        for start in range(0, len(steps), size):
            yield replace(session, steps=steps[:start] + steps[start + size :])
        size //= 2
    for index, step in enumerate(steps):
        for simpler in _simpler(step):
            yield replace(session, steps=(*steps[:index], simpler, *steps[index + 1 :]))
    for simpler in _simpler(session):
        if simpler.steps:
            yield simpler


def _simpler(value: Any) -> Iterator[Any]:
    """Yield copies of a dataclass with one field simpler."""
    for field in fields(value):
        current = getattr(value, field.name)
        if isinstance(current, tuple) and current and field.name != "steps":
            yield from (replace(value, **{field.name: part}) for part in _shorter(current))
        elif field.default is not MISSING and current != field.default:
            yield replace(value, **{field.name: field.default})
        elif isinstance(value, Respond) and field.name == "times" and current > 1:
            yield replace(value, times=current - 1)


def _shorter(values: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for index, value in enumerate(values):
        yield values[:index] + values[index + 1 :]
        if is_dataclass(value):
            yield from ((*values[:index], simpler, *values[index + 1 :]) for simpler in _simpler(value))
