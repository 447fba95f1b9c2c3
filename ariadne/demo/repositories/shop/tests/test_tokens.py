"""Tokens of signed-in customers."""

from __future__ import annotations

import jwt
import pytest

from shop.auth import refresh_job, tokens


def test_issued_token_is_valid():
    assert tokens.decode(tokens.issue(7).access)["sub"] == 7


def test_access_token_is_no_refresh_token():
    with pytest.raises(jwt.InvalidTokenError):
        tokens.refresh(tokens.issue(7).access)


def test_job_refreshes_what_expires_soon(session, device):
    assert refresh_job.run(session) == 1
