"""Encode columns of values as Postgres arrays, because psycopg takes three times as long. Pure.

Statements insert them as `VALUES (cell, unnest(…), unnest(…))`. A cluster plans that as one row of one cell. It plans
`INSERT … SELECT … FROM unnest(…)` for all shards and routes each row, which takes three times the CPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID


def encode_array(values: Iterable[object]) -> str:
    """Return the text of an array. Values other than integers, UUIDs and None are quoted."""
    return f"{{{','.join(map(_element, values))}}}"


def _element(value: object) -> str:
    if value is None:
        return "NULL"
    if type(value) is int:
        return str(value)
    if type(value) is UUID:
        # Without hyphens, which takes a third of the time.
        return value.hex
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
