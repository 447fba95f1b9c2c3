"""Rights of users and tokens, by project."""

from __future__ import annotations

import uuid

import pytest
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.utils import timezone
from people import own_cell

from ingest.models import Project, Session, session_key
from viewer.accounts import access
from viewer.accounts.access import ALL_RIGHTS, Right
from viewer.accounts.roles import ROLES
from viewer.models import Membership

pytestmark = pytest.mark.django_db


def create_user(name: str, group: str | None, *projects: Project) -> User:
    user = User.objects.create_user(name)
    if group:
        user.groups.add(Group.objects.get(name=group))
    for project in projects:
        Membership.objects.create(user=user, project=project)
    return user


def create_session(project: Project, session_id: str = "s") -> Session:
    now = timezone.now()
    return Session.objects.create(
        session_key=session_key(project.pk, session_id),
        cell=own_cell(project),
        session_id=session_id,
        day=now.date(),
        created_at=now,
        last_seq=1,
    )


@pytest.fixture
def ours() -> Project:
    return Project.objects.create(slug="ours", name="Ours")


@pytest.fixture
def theirs() -> Project:
    return Project.objects.create(slug="theirs", name="Theirs")


@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize("group", sorted(ROLES))
def test_a_group_grants_its_rights_only_in_the_members_projects(group: str, ours: Project, theirs: Project):
    """The default groups have the rights of the table in the projects of the user, and none elsewhere."""
    grant = access.user_grant(create_user("ann", group, ours))
    assert grant.rights == {ours.pk: ROLES[group]}
    assert not any(grant.may(right, theirs.pk) for right in Right)


@pytest.mark.req("P-SEC-1")
def test_operators_may_not_view_payloads_or_transcripts():
    """Operators see sessions and summaries, but no conversation text."""
    assert ROLES["operators"] == {Right.SESSIONS}


def test_a_role_applies_only_to_its_project(ours: Project, theirs: Project):
    """An operator of two projects may be an auditor of one of them."""
    user = create_user("ann", "operators", ours, theirs)
    Membership.objects.filter(project=ours).update(role=Group.objects.get(name="auditors"))
    grant = access.user_grant(user)
    assert grant.projects(Right.TRANSCRIPTS) == {ours.pk}
    assert grant.projects(Right.SESSIONS) == {ours.pk, theirs.pk}


def test_anonymous_and_inactive_users_have_an_empty_grant(ours: Project):
    user = create_user("ann", "admins", ours)
    user.is_active = False
    assert access.user_grant(user) == access.EMPTY_GRANT
    assert access.user_grant(access.AnonymousUser()) == access.EMPTY_GRANT


def test_superusers_have_all_rights_in_all_projects(ours: Project, theirs: Project):
    """They need no membership."""
    grant = access.user_grant(User.objects.create_superuser("root"))
    assert grant.rights == {ours.pk: ALL_RIGHTS, theirs.pk: ALL_RIGHTS}


def test_a_token_never_has_more_rights_than_its_owner(ours: Project, theirs: Project):
    """Scopes and the project only restrict. Unknown scopes are ignored."""
    grant = access.user_grant(create_user("ann", "developers", ours, theirs))
    restricted = grant.restrict(scopes=["view_tail", "view_transcript", "everything"], project_id=ours.pk)
    assert restricted.rights == {ours.pk: {Right.TAIL}}


@pytest.mark.req("P-SEC-1")
def test_a_session_of_another_project_does_not_exist(ours: Project, theirs: Project):
    """The response is 404, not 403, by key and by id."""
    create_session(theirs, "secret")
    grant = access.user_grant(create_user("ann", "admins", ours))
    for name in ("secret", session_key(theirs.pk, "secret"), uuid.uuid4(), "../secret", ""):
        with pytest.raises(Http404):
            access.get_session(grant, name)


def test_a_session_is_found_by_its_key_and_by_its_id(ours: Project, theirs: Project):
    """If two projects use the same id, each user gets the session of their own project."""
    mine, other = create_session(ours), create_session(theirs)
    grant = access.user_grant(create_user("ann", "operators", ours))
    assert access.get_session(grant, "s") == access.get_session(grant, mine.session_key) == mine
    both = access.user_grant(create_user("bob", "operators", ours, theirs))
    assert access.get_session(both, "s", project_id=theirs.pk) == other


def test_a_session_of_the_users_project_is_forbidden_without_the_right(ours: Project):
    """The response is 403, because members may know that the session exists."""
    create_session(ours)
    with pytest.raises(PermissionDenied):
        access.get_session(access.user_grant(create_user("ann", "operators", ours)), "s", Right.TRANSCRIPTS)
