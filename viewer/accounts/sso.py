"""Single sign-on with OpenID Connect. The provider's subject id becomes the username.

A name or email address that is chosen at the provider never matches a local account. A new user is a member of no
project until an administrator adds them. Groups may come from a claim.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.db.models import QuerySet
from mozilla_django_oidc.auth import OIDCAuthenticationBackend

from viewer.accounts.roles import ROLES
from viewer.audit import log

_DIGEST = "sha256:"
# Printable ASCII that fits into a username, and that does not look like the digest of another subject.
_PLAIN = re.compile(rf"(?!{_DIGEST})[!-~]{{1,146}}")


class Backend(OIDCAuthenticationBackend):  # type: ignore[misc]
    def verify_claims(self, claims: dict[str, Any]) -> bool:
        subject = claims.get("sub")
        return isinstance(subject, str) and bool(subject) and claims.get("email_verified") not in (False, "false")

    def filter_users_by_claims(self, claims: dict[str, Any]) -> QuerySet[User]:
        return User.objects.filter(username=_username(claims))

    def create_user(self, claims: dict[str, Any]) -> User:
        user = User.objects.create_user(_username(claims))
        user.set_unusable_password()
        return self.update_user(user, claims)

    def update_user(self, user: User, claims: dict[str, Any]) -> User:
        user.first_name = log.clean(str(claims.get("name") or claims.get("preferred_username") or ""))[:150]
        user.email = log.clean(str(claims.get("email") or ""))[:254]
        user.save()
        if settings.OIDC_GROUPS_CLAIM:
            claimed = claims.get(settings.OIDC_GROUPS_CLAIM)
            names = [name for name in ROLES if name in claimed] if isinstance(claimed, list) else []
            user.groups.set([*user.groups.exclude(name__in=ROLES), *Group.objects.filter(name__in=names)])
        return user


def _username(claims: dict[str, Any]) -> str:
    """Return a username that no other subject has, of characters that a username may have."""
    subject: str = claims["sub"]
    if _PLAIN.fullmatch(subject):
        return f"sso:{subject}"
    # Shortened or cleaned, two subjects could be one account.
    return f"sso:{_DIGEST}{hashlib.sha256(subject.encode('utf-8', 'surrogatepass')).hexdigest()}"
