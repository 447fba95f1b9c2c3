"""The inspector of a span stays small, however many properties the span has."""

from __future__ import annotations

import pytest
from people import add_events, client_for, create_project, create_session, create_user

from ingest.models import Span

pytestmark = pytest.mark.django_db


def test_a_span_with_many_properties_shows_the_first_and_counts_the_others() -> None:
    """The raw data has all of them. Another project cannot open the span."""
    ours, theirs = create_project("ours"), create_project("theirs")
    session = create_session(ours, session_id="run")
    add_events(session, {"compact.warning": ({f"attribute_{number}": number for number in range(1_000)}, {})})
    span = Span.objects.get(kind="compact.warning")
    address = f"/sessions/run/inspector/?span={span.trace_id}:{span.span_id}"
    page = client_for(create_user("developer", ours)).get(address).content.decode()
    assert page.count("<dt>Attribute ") == 200
    assert "800 more properties are in the raw data" in page
    assert "attribute_999" in page
    assert client_for(create_user("developer", theirs)).get(address).status_code == 404
