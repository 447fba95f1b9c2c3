"""Who may see what."""

from __future__ import annotations

import uuid

import pytest
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.utils import timezone

from ingest.models import Project, Session, session_key
from viewer.accounts import access
from viewer.accounts.access import ALL_RIGHTS, Right
from viewer.accounts.roles import ROLES
from viewer.models import Membership

pytestmark = pytest.mark.django_db


def person(name: str, group: str | None, *projects: Project) -> User:
    user = User.objects.create_user(name)
    if group:
        user.groups.add(Group.objects.get(name=group))
    for project in projects:
        Membership.objects.create(user=user, project=project)
    return user


def a_session(project: Project, session_id: str = "s") -> Session:
    now = timezone.now()
    return Session.objects.create(
        session_key=session_key(project.pk, session_id),
        project_id=project.pk,
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
def test_a_group_gives_its_rights_in_projects_of_which_one_is_a_member(group: str, ours: Project, theirs: Project):
    """The groups made at set-up hold exactly the rights of the table, and only where there is a membership."""
    grant = access.user_grant(person("ann", group, ours))
    assert grant.rights == {ours.pk: ROLES[group]}
    assert not any(grant.may(right, theirs.pk) for right in Right)


@pytest.mark.req("P-SEC-1")
def test_operators_have_no_right_to_payloads_or_transcripts():
    """An operator sees sessions and summaries, and nothing that holds an agent's texts."""
    assert ROLES["operators"] == {Right.SESSIONS}


def test_a_role_in_one_project_does_not_leak_into_another(ours: Project, theirs: Project):
    """An operator of two projects may be the auditor of one."""
    user = person("ann", "operators", ours, theirs)
    Membership.objects.filter(project=ours).update(role=Group.objects.get(name="auditors"))
    grant = access.user_grant(user)
    assert grant.projects(Right.TRANSCRIPTS) == {ours.pk}
    assert grant.projects(Right.SESSIONS) == {ours.pk, theirs.pk}


def test_nobody_has_an_empty_grant(ours: Project):
    """Anonymous and deactivated people may do nothing."""
    user = person("ann", "admins", ours)
    user.is_active = False
    assert access.user_grant(user) == access.EMPTY_GRANT
    assert access.user_grant(access.AnonymousUser()) == access.EMPTY_GRANT


def test_superusers_may_do_everything_everywhere(ours: Project, theirs: Project):
    """No membership needed."""
    grant = access.user_grant(User.objects.create_superuser("root"))
    assert grant.rights == {ours.pk: ALL_RIGHTS, theirs.pk: ALL_RIGHTS}


def test_a_token_has_never_more_than_its_owner(ours: Project, theirs: Project):
    """Scopes only take away, unknown ones give nothing, and the project narrows too."""
    grant = access.user_grant(person("ann", "developers", ours, theirs))
    narrowed = grant.restrict(scopes=["view_tail", "view_transcript", "everything"], project_id=ours.pk)
    assert narrowed.rights == {ours.pk: {Right.TAIL}}


@pytest.mark.req("P-SEC-1")
def test_a_session_of_another_project_does_not_exist(ours: Project, theirs: Project):
    """By its key or by its id, the answer is 404 and not 403."""
    a_session(theirs, "secret")
    grant = access.user_grant(person("ann", "admins", ours))
    for name in ("secret", session_key(theirs.pk, "secret"), uuid.uuid4(), "../secret", ""):
        with pytest.raises(Http404):
            access.get_session(grant, name)


def test_a_session_is_found_by_its_key_and_by_its_id(ours: Project, theirs: Project):
    """One id in two projects names each reader's own session."""
    mine, other = a_session(ours), a_session(theirs)
    grant = access.user_grant(person("ann", "operators", ours))
    assert access.get_session(grant, "s") == access.get_session(grant, mine.session_key) == mine
    both = access.user_grant(person("bob", "operators", ours, theirs))
    assert access.get_session(both, "s", project_id=theirs.pk) == other


def test_a_session_of_ours_without_the_right_is_refused(ours: Project):
    """Inside one's own project the answer is 403: its existence is no secret."""
    a_session(ours)
    with pytest.raises(PermissionDenied):
        access.get_session(access.user_grant(person("ann", "operators", ours)), "s", Right.TRANSCRIPTS)


@pytest.mark.req("P-SEC-1")
def test_without_the_right_a_payload_loses_its_texts(ours: Project):
    """Operators keep summaries and the fates of messages; texts, and fields nobody thought of, are gone."""
    operator = access.user_grant(person("ann", "operators", ours))
    developer = access.user_grant(person("bob", "developers", ours))
    ledger = {"ledger": [{"id": "m1", "fate": "kept", "content": "SECRET"}], "after": [{"id": "m1", "text": "SECRET"}]}
    summary = {"summary": "did it", "input": "SECRET"}
    seen = [
        access.visible_payload(operator, ours.pk, "generation", {"prompt": "SECRET"}),
        access.visible_payload(operator, ours.pk, "compact.pruned_messages", ledger),
        access.visible_payload(operator, ours.pk, "compact.summary_created", summary),
        access.visible_payload(operator, ours.pk + 1, "compact.summary_created", summary),
    ]
    fates = {"ledger": [{"id": "m1", "fate": "kept"}], "after": [{"id": "m1"}]}
    assert seen == [None, fates, {"summary": "did it"}, None]
    assert access.visible_payload(developer, ours.pk, "generation", {"prompt": "SECRET"}) == {"prompt": "SECRET"}
