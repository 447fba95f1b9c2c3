"""A right that ends has ended for pages, REST, MCP and websockets alike."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone
from people import client_for, create_project, create_user

from viewer.accounts import api_tokens
from viewer.accounts.access import Right
from viewer.accounts.identity import Identity
from viewer.mcp import reader
from viewer.models import ApiToken, Membership

pytestmark = [pytest.mark.django_db, pytest.mark.req("A-PRI-5", "P-SEC-1")]

End = Callable[[User, Client], Any]


def change_password(user: User, client: Client) -> None:
    user.set_password("a new passphrase")
    user.save()


def log_out(user: User, client: Client) -> None:
    client.logout()


def expire_login(client: Client) -> None:
    logins = Session.objects.filter(pk=client.session.session_key)
    assert logins.update(expire_date=timezone.now() - timedelta(seconds=1)) == 1


# How every right of a person can end.
ENDS: dict[str, End] = {
    "the membership": lambda user, client: Membership.objects.filter(user=user).delete(),
    "the group": lambda user, client: user.groups.clear(),
    "a right of the group": lambda user, client: Group.objects.get(name="developers").permissions.clear(),
    "the project": lambda user, client: Membership.objects.get(user=user).project.delete(),
    "the account's activity": lambda user, client: User.objects.filter(pk=user.pk).update(is_active=False),
    "the account": lambda user, client: User.objects.filter(pk=user.pk).delete(),
}
LOGIN_ENDS: dict[str, End] = {
    **ENDS,
    "the password": change_password,
    "the login": log_out,
    "the login's time": lambda user, client: expire_login(client),
}
TOKEN_ENDS: dict[str, End] = {
    **ENDS,
    "the token": lambda user, client: api_tokens.revoke(ApiToken.objects.get()),
    "the token's time": lambda user, client: ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1)),
    "the token's scopes": lambda user, client: ApiToken.objects.update(scopes=[]),
}


@pytest.mark.parametrize("end", LOGIN_ENDS)
def test_what_ends_a_page_ends_a_socket(end: str):
    """The socket keeps only the key of the login. Another person of the project keeps their rights."""
    project = create_project()
    user, other = create_user("developer", project), create_user("operator", project)
    client = client_for(user)
    socket, others_socket = (Identity(login_key=c.session.session_key) for c in (client, client_for(other)))

    def page_status() -> int:
        return client.get("/api/sessions/").status_code

    assert socket.grant().may(Right.TAIL, project.pk) and page_status() == 200
    project_id = project.pk
    LOGIN_ENDS[end](user, client)
    assert not socket.grant().projects(Right.SESSIONS)
    assert page_status() in {401, 403}
    if end != "the project":
        assert others_socket.grant().may(Right.SESSIONS, project_id)


@pytest.mark.parametrize("end", TOKEN_ENDS)
def test_what_ends_a_token_ends_its_sockets(end: str):
    project = create_project()
    user = create_user("developer", project)
    token, secret = api_tokens.create(user, label="ci", scopes=[Right.SESSIONS, Right.TAIL])
    socket, client = Identity(token_id=token.pk), Client(headers={"Authorization": f"Bearer {secret}"})

    def over_mcp() -> bool:
        known = reader.authenticate({"authorization": f"Bearer {secret}"}, {})
        return known is not None and bool(known.grant.projects(Right.SESSIONS))

    assert socket.grant().may(Right.TAIL, project.pk) and over_mcp()
    assert client.get("/api/sessions/").status_code == 200
    TOKEN_ENDS[end](user, client)
    assert not socket.grant().projects(Right.SESSIONS) and not over_mcp()
    assert client.get("/api/sessions/").status_code in {401, 403}


def test_a_socket_does_not_end_or_renew_a_login():
    """It asks for the rights of an old password, and the login of the new password continues."""
    project = create_project()
    user = create_user("developer", project)
    old, new = client_for(user), Client()
    user.set_password("a new passphrase")
    user.save()
    new.force_login(user)
    assert not Identity(login_key=old.session.session_key).grant().rights
    assert Identity(login_key=new.session.session_key).grant().rights
    assert new.get("/api/sessions/").status_code == 200


def test_without_a_login_or_a_token_there_are_no_rights():
    assert not Identity().grant().rights
    assert not Identity.of_socket({"session": Client().session}).grant().rights
    assert not Identity(login_key="unknown").grant().rights
