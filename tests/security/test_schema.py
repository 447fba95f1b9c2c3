"""Schemathesis against our own OpenAPI document: whatever it thinks of, the API answers as it says it does."""

from __future__ import annotations

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
)

CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance]
_QUICK = settings(
    max_examples=15, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.req("P-SEC-1")
def test_the_api_keeps_its_word(server, as_person):
    """No 500, and no answer that the document does not describe, whatever is asked at any address."""
    person: httpx.Client = as_person("admin")
    schema = schemathesis.openapi.from_dict(person.get("/api/schema/?format=json").json())
    schema.config.update(base_url=server.url)
    cookie = {"Cookie": f"sessionid={person.cookies['sessionid']}"}
    tried = []
    with requests.Session() as session:
        for found in schema.get_all_operations():
            operation = found.ok()
            if operation.path == "/api/schema/":
                continue

            @_QUICK
            @given(case=operation.as_strategy())
            def attack(case):
                case.validate_response(case.call(session=session, headers=cookie), checks=CHECKS)

            attack()
            tried.append(operation.label)
    assert len(tried) >= 12, tried
