"""API tokens: storage, scopes and expiry."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone

from ingest.models import Project
from viewer.accounts import access, api_tokens, authentication, identity
from viewer.accounts.access import Right
from viewer.models import ApiToken, Membership

pytestmark = pytest.mark.django_db


@pytest.fixture
def developer() -> User:
    user = User.objects.create_user("dev")
    user.groups.add(Group.objects.get(name="developers"))
    Membership.objects.create(user=user, project=Project.objects.create(slug="p", name="P"))
    return user


@pytest.mark.req("P-SEC-1")
def test_a_token_is_stored_as_a_digest_and_found_by_its_secret(developer: User):
    """The secret is not in the table."""
    token, text = api_tokens.create(developer, label="ci", scopes=[Right.TAIL])
    row = " ".join(str(value) for value in ApiToken.objects.values().get().values())
    assert text not in row and text[len(api_tokens.PREFIX) + 5 :] not in row
    assert api_tokens.check(text) == token


@pytest.mark.req("P-SEC-1")
def test_a_revoked_or_expired_token_or_one_of_an_inactive_user_is_invalid(developer: User):
    texts = [api_tokens.create(developer, label=str(n), scopes=[Right.TAIL])[1] for n in range(3)]
    api_tokens.revoke(api_tokens.check(texts[0]))
    ApiToken.objects.filter(label="1").update(expires_at=timezone.now() - timedelta(seconds=1))
    assert [api_tokens.check(text) is not None for text in texts] == [False, False, True]
    User.objects.update(is_active=False)
    assert api_tokens.check(texts[2]) is None


@pytest.mark.parametrize("text", ["", "arip_", "arip_x", "Bearer", "arip_' OR 1=1 --", "arip_\x00", "arip_\ud800"])
def test_an_invalid_secret_is_rejected(text: str):
    """It raises no exception."""
    assert api_tokens.check(text) is None


def test_a_token_cannot_have_management_rights(developer: User):
    token, _ = api_tokens.create(developer, label="x", scopes=list(Right))
    assert not {"manage_own_keys", "manage_project"} & set(token.scopes)


async def _socket_scope(user: User, token: ApiToken) -> access.Grant:
    return await identity.socket_grant({"user": user, "token": token})


@pytest.mark.django_db(transaction=True)
def test_an_open_socket_loses_its_rights_when_its_token_is_revoked(developer: User):
    """The grant is computed at each call."""
    from asgiref.sync import async_to_sync

    token, _ = api_tokens.create(developer, label="x", scopes=[Right.TAIL])
    assert async_to_sync(_socket_scope)(developer, token).projects(Right.TAIL)
    api_tokens.revoke(token)
    assert async_to_sync(_socket_scope)(developer, token) == access.EMPTY_GRANT


@pytest.mark.parametrize(
    ("origin", "host", "is_own"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1:8000", True),
        ("http://localhost:8000", "localhost:8000", True),
        ("http://127.0.0.1:9999", "127.0.0.1:8000", False),
        ("http://evil.example", "127.0.0.1:8000", False),
        ("http://evil.example", "evil.example", False),
        ("http://127.0.0.1:8000.evil.example", "127.0.0.1:8000", False),
        ("null", "127.0.0.1:8000", False),
        ("file://", "127.0.0.1:8000", False),
        ("", "127.0.0.1:8000", False),
        ("http://[", "127.0.0.1:8000", False),
        ("https://viewer.example", "10.0.0.5", True),
    ],
)
def test_only_pages_of_this_server_may_open_a_socket(settings, origin: str, host: str, is_own: bool):
    """The port must match, and the host must be allowed. Behind a proxy, trusted origins are accepted."""
    settings.CSRF_TRUSTED_ORIGINS = ["https://viewer.example"]
    settings.ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
    assert authentication.is_own_origin({b"origin": origin, b"host": host}) is is_own
