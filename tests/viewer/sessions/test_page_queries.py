"""A request reads the login, the rights, the session and what the reader may see of it once."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from people import client_for, create_project, create_session, create_user

pytestmark = pytest.mark.django_db(transaction=True)
_READ_ONCE = ("django_session", "auth_user", "auth_permission", "viewer_membership", "ingest_session")
_DEMANDS_REASON = 'AND "ingest_project"."requires_view_reason"'


@pytest.mark.parametrize("path", ["/sessions/run/", "/api/sessions/run/tree/", "/api/sessions/run/tokens/"])
@pytest.mark.parametrize("demands_reason", [False, True])
def test_a_request_reads_what_it_depends_on_once(path: str, demands_reason: bool) -> None:
    """The session of another project with the same id is not read, and its content is not sent."""
    ours, theirs = create_project("ours"), create_project("theirs")
    type(ours).objects.update(requires_view_reason=demands_reason)
    create_session(ours, session_id="run", text="ours")
    create_session(theirs, session_id="run", text="their-secret")
    reader = client_for(create_user("developer", ours))
    reader.get(path)
    with CaptureQueriesContext(connection) as queries:
        response = reader.get(path)
    assert response.status_code == 200 and b"their-secret" not in response.content
    statements = [query["sql"] for query in queries]
    for table in _READ_ONCE:
        assert sum(f'FROM "{table}"' in statement for statement in statements) == 1, table
    assert sum(_DEMANDS_REASON in statement for statement in statements) == 1
    assert sum('FROM "viewer_auditentry"' in statement for statement in statements) == int(demands_reason)
