"""Common values are handled inline, with the same result as the functions for all other values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from ingest.decoding.schema import Event, InvalidEvent, to_raw


class _Text(str):
    """A string that the inline checks do not accept, because they compare the exact type."""

    __slots__ = ()


class _Number(float):
    """A number that the inline checks do not accept, because they compare the exact type."""

    __slots__ = ()


edges = st.sampled_from([0, 1, 127, 128, 129, 256, 512, 513])
ids = st.one_of(st.none(), st.text(max_size=3), st.builds(lambda size: "é" * size, edges))
times = st.one_of(st.none(), st.floats(-1, 8e9), st.floats(1e11, 1e20), st.just(float("inf")))
sessions = st.one_of(ids, st.integers())


@given(ids, ids, ids, sessions, sessions, times, times)
def test_inline_checks_agree_with_the_general_functions(
    trace_id: str | None,
    span_id: str | None,
    parent_id: str | None,
    session_id: str | int | None,
    in_data: str | int | None,
    started_at: float | None,
    ended_at: float | None,
) -> None:
    """Both give the same span, or the same error."""
    inline, general = (
        _outcome(
            Event(
                type="span",
                trace_id=_as(text, trace_id),
                span_id=_as(text, span_id),
                parent_id=_as(text, parent_id),
                session_id=_as(text, session_id),
                started_at=_as(number, started_at),
                ended_at=_as(number, ended_at),
                data={name: in_data},
            )
        )
        for text, number, name in ((str, float, "session_id"), (_Text, _Number, "session.id"))
    )
    assert inline == general


def _as(kind: type, value: object) -> object:
    return value if value is None or isinstance(value, int) else kind(value)


def _outcome(event: Event) -> tuple[object, ...]:
    try:
        raw = to_raw(event)
    except InvalidEvent as invalid:
        return invalid.path, invalid.message
    # Without `data`, which has the session under another key.
    return structs.astuple(structs.replace(raw, data={}, encoded_data=b""))
