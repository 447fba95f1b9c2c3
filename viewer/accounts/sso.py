"""Single sign-on with OpenID Connect. The provider's subject id becomes the username.

A name or email address that is chosen at the provider never matches a local account. A new user is a member of no
project until an administrator adds them. Groups may come from a claim.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.db.models import QuerySet
from mozilla_django_oidc.auth import OIDCAuthenticationBackend

from viewer.accounts.roles import ROLES


class Backend(OIDCAuthenticationBackend):  # type: ignore[misc]
    def verify_claims(self, claims: dict[str, Any]) -> bool:
        return bool(claims.get("sub")) and claims.get("email_verified") is not False

    def filter_users_by_claims(self, claims: dict[str, Any]) -> QuerySet[User]:
        return User.objects.filter(username=_username(claims))

    def create_user(self, claims: dict[str, Any]) -> User:
        user = User.objects.create_user(_username(claims))
        user.set_unusable_password()
        return self.update_user(user, claims)

    def update_user(self, user: User, claims: dict[str, Any]) -> User:
        user.first_name = str(claims.get("name") or claims.get("preferred_username") or "")[:150]
        user.email = str(claims.get("email") or "")[:254]
        user.save()
        if settings.OIDC_GROUPS_CLAIM:
            claimed = claims.get(settings.OIDC_GROUPS_CLAIM)
            names = set(claimed) & set(ROLES) if isinstance(claimed, list) else set()
            user.groups.set([*user.groups.exclude(name__in=ROLES), *Group.objects.filter(name__in=names)])
        return user


def _username(claims: dict[str, Any]) -> str:
    return f"sso:{claims['sub']}"[:150]
