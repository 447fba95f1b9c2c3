"""Schemathesis checks the API against its OpenAPI schema."""

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

# The server responds within a minute. The default of Schemathesis, ten seconds, is too short on a busy machine.
TIMEOUT_S = 60
CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance]
_SETTINGS = settings(max_examples=15, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


@pytest.mark.req("P-SEC-1")
def test_the_api_conforms_to_its_schema(server, login_as):
    """No request gets a 500 or a response that the schema does not describe."""
    client: httpx.Client = login_as("admin")
    schema = schemathesis.openapi.from_dict(client.get("/api/schema/?format=json").json())
    schema.config.update(base_url=server.url)
    cookie = {"Cookie": f"sessionid={client.cookies['sessionid']}"}
    operations = []
    with requests.Session() as session:
        for result in schema.get_all_operations():
            operation = result.ok()
            if operation.path == "/api/schema/":
                continue

            @_SETTINGS
            @given(case=operation.as_strategy())
            def check_operation(case):
                response = case.call(session=session, headers=cookie, timeout=TIMEOUT_S)
                case.validate_response(response, checks=CHECKS)

            check_operation()
            operations.append(operation.label)
    assert len(operations) >= 12, operations
