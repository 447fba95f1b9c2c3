"""Labels of sessions: the environments, users, tags and services that the list shows and filters by.

Labels under keys that no convention declares, such as the id of a person, need the right to view payloads. Without it
they are neither shown nor matched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from django.db.models import OuterRef, QuerySet, Subquery

from ingest.cells import cells_of
from ingest.decoding.labels import LABEL_KEYS
from ingest.models import Label, Session
from viewer.sessions.queries import newest_sessions
from viewer.visibility.public_parts import Visibility, public_trace_metadata

_KIND_OF_KEY = {key: kind for kind, keys in LABEL_KEYS.items() for key in keys}
# Menus offer the labels of the newest sessions, so that they cost the same in a larger project.
_MENU_SESSIONS = 500
_MENU_VALUES = 100
# A label of at most this many sessions is rare.
_RARE = 1_000


@dataclass(frozen=True, slots=True, order=True)
class LabelValue:
    """A label as pages show it. `kind` is also the name of its filter."""

    kind: str
    value: str


def session_labels(sessions: Sequence[Session], visibility: Visibility) -> dict[UUID, list[LabelValue]]:
    """Return the labels of sessions that a reader sees, by session."""
    result: dict[UUID, set[LabelValue]] = {}
    rows = Label.objects.filter(
        cell__in={session.cell for session in sessions}, session_key__in=[session.session_key for session in sessions]
    )
    for session_key, key, value in rows.values_list("session_key", "key", "value"):
        if _is_visible(key, value, visibility):
            result.setdefault(session_key, set()).add(LabelValue(_KIND_OF_KEY[key], value))
    return {session_key: sorted(labels) for session_key, labels in result.items()}


def labels_json(labels: Iterable[LabelValue]) -> dict[str, list[str]]:
    """Return the values of a session by kind, for REST."""
    values: dict[str, list[str]] = {kind: [] for kind in LABEL_KEYS}
    for label in labels:
        values[label.kind].append(label.value)
    return values


def menu_labels(project_id: int, visibility: Visibility) -> dict[str, list[str]]:
    """Return the values of each kind in recent sessions, for the filter menus."""
    cells = cells_of(project_id)
    newest = [
        session.session_key for session in newest_sessions(cells, _MENU_SESSIONS, Session.objects.only("last_seq"))
    ]
    stored = Label.objects.filter(cell__in=cells, session_key__in=newest, key__in=_KIND_OF_KEY)
    rows = stored.values_list("key", "value").distinct()
    labels = sorted(
        {LabelValue(_KIND_OF_KEY[key], value) for key, value in rows if _is_visible(key, value, visibility)}
    )
    return {kind: values[:_MENU_VALUES] for kind, values in labels_json(labels).items()}


def visible_keys(kind: str, value: str, visibility: Visibility) -> list[str]:
    """Return the keys of metadata under which a reader may see this value."""
    return [key for key in LABEL_KEYS[kind] if _is_visible(key, value, visibility)]


def with_labels(
    sessions: QuerySet[Session], cell: int, filters: Mapping[str, str], visibility: Visibility
) -> QuerySet[Session]:
    """Limit the sessions of a cell to those with a value of each kind.

    Values that the reader may not see match nothing. Sessions with a rare value are read by their keys. For a frequent
    one, the list is read in its order until a page is full. A join could do neither and would read all sessions.
    """
    for kind, value in filters.items():
        keys = visible_keys(kind, value, visibility)
        rows = Label.objects.filter(cell=cell, key__in=keys, value=value)
        session_keys = set(rows.values_list("session_key", flat=True)[: _RARE + 1]) if keys else set()
        if len(session_keys) <= _RARE:
            sessions = sessions.filter(session_key__in=session_keys)
        else:
            own = Label.objects.filter(cell=cell, session_key=OuterRef("session_key"), key__in=keys, value=value)
            label = Subquery(own.values("value")[:1])
            sessions = sessions.alias(**{f"label_{kind}": label}).filter(**{f"label_{kind}__isnull": False})
    return sessions


def filters_of(query: Mapping[str, str]) -> dict[str, str]:
    """Return the label filters in an address, by kind."""
    values = {kind: str(query.get(kind, "")).strip()[:200] for kind in LABEL_KEYS}
    return {kind: value for kind, value in values.items() if value}


@lru_cache(maxsize=4096)
def _is_visible(key: str, value: str, visibility: Visibility) -> bool:
    if key not in _KIND_OF_KEY:
        return False
    return visibility is Visibility.CONTENT or public_trace_metadata({key: value}).get(key) == value
