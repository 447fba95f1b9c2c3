"""Write the hourly figures of a commit, also those of hours whose session has its model only now."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence

from ingest.storage.database.pipeline import Pipeline
from ingest.storage.figures import trends
from ingest.storage.figures.aggregates import SessionDelta
from ingest.storage.figures.trends import HourRow


async def update_trends(
    pipeline: Pipeline,
    cell: int,
    deltas: Mapping[uuid.UUID, SessionDelta],
    sessions: Sequence[tuple[uuid.UUID, str, str | None]],
) -> None:
    """Add the hourly figures of sessions, given with their latest model and the model that they count under."""
    rows: list[tuple[str, HourRow]] = []
    counted = {key: trend_model or model for key, model, trend_model in sessions if deltas[key].trend is not None}
    named = {key: model for key, model, trend_model in sessions if _is_newly_named(key in counted, model, trend_model)}
    if named:
        pipeline.queue(trends.SET_SESSION_MODEL, {"cell": cell, "keys": list(named), "models": list(named.values())})
        rows += await _move_activity(pipeline, cell, named)
    activity = [(key, model, row) for key, model in counted.items() for row in _trend_rows(deltas[key])]
    rows += [(model, row) for _, model, row in activity]
    queries = [*(trends.add_activity(cell, activity) if activity else ()), *trends.add_trends(cell, rows)]
    for query in queries:
        pipeline.queue(*query)


def _is_newly_named(is_counted: bool, model: str, trend_model: str | None) -> bool:
    """Return True if the hours of a session have no model so far, and get one now."""
    return is_counted if trend_model is None else not trend_model and bool(model)


def _trend_rows(delta: SessionDelta) -> list[HourRow]:
    return [] if delta.trend is None else delta.trend.rows()


async def _move_activity(pipeline: Pipeline, cell: int, models: dict[uuid.UUID, str]) -> list[tuple[str, HourRow]]:
    """Move the figures that were counted without a model to the models of their sessions. Return the changes."""
    changes = []
    for key, old_model, row in await _read_activity(pipeline, cell, models):
        changes += [(old_model, row.negate()), (models[key], row)]
    if changes:
        parameters = {"cell": cell, "keys": list(models), "models": list(models.values())}
        pipeline.queue(trends.SET_ACTIVITY_MODEL, parameters)
    return changes


async def _read_activity(
    pipeline: Pipeline, cell: int, keys: Iterable[uuid.UUID]
) -> list[tuple[uuid.UUID, str, HourRow]]:
    (rows,) = await pipeline.fetch((trends.READ_ACTIVITY, (cell, list(keys))))
    return [
        (key, model, trends.stored_row(hour, counts, kept_counts)) for key, hour, model, *counts, kept_counts in rows
    ]
