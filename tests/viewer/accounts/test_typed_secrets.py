"""Names and reasons that people type are no place for a secret: colleagues with fewer rights read them."""

from __future__ import annotations

import pytest
from people import client_for, create_project, create_user

from ingest.models import IngestKey
from viewer.audit import log
from viewer.models import AuditEntry

pytestmark = pytest.mark.django_db
SECRET = "ghp_016C7kF5vN2mQ8rT4xZ9bL3wY6dJ1sHa0Pq2"


@pytest.mark.req("P-SEC-1")
def test_the_name_of_a_key_has_no_secret():
    """Neither on the page nor in the audit log. The rest of the name stays."""
    ours = create_project()
    client = client_for(create_user("developer", ours))
    page = client.post("/keys/", {"label": f"nightly {SECRET}", "project": "ours"}).content.decode()
    assert IngestKey.objects.get().label == "nightly <REDACTED>" and SECRET not in page
    assert not any(SECRET in repr(entry) for entry in AuditEntry.objects.values())


def test_a_reason_has_no_secret_and_keeps_names_of_people():
    assert log.clean_input(f" ada@lovelace.org lost {SECRET} ") == "ada@lovelace.org lost <REDACTED>"
