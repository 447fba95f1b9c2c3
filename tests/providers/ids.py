"""Ids like those of the providers. They are unique within the process and in ascending order."""

from __future__ import annotations

import itertools

_COUNTER = itertools.count(1)


def new_id(prefix: str) -> str:
    return f"{prefix}{next(_COUNTER):024x}"
