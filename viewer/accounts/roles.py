"""The four groups and what each may do where its people are members.

They are made when missing, after every migration, and never changed again: what an administrator gives or takes stays.
"""

from __future__ import annotations

from typing import Any

from viewer.accounts.access import EVERY_RIGHT, Right

_OPERATOR = frozenset({Right.SESSIONS})
ROLES: dict[str, frozenset[Right]] = {
    # Summaries and counts, not the texts they were made of.
    "operators": _OPERATOR,
    "developers": _OPERATOR | {Right.PAYLOAD, Right.TAIL, Right.KEYS},
    "auditors": _OPERATOR | {Right.PAYLOAD, Right.TRANSCRIPTS, Right.AUDIT},
    "admins": EVERY_RIGHT,
}


def make_missing_groups(using: str = "default", **_: Any) -> None:
    """Connected to `post_migrate`, which also follows a flush: a migration would run only once."""
    from django.contrib.auth.models import Group, Permission  # noqa: PLC0415 - the registry is not ready at import

    own = Permission.objects.using(using).filter(content_type__app_label="viewer", content_type__model="membership")
    for name, rights in ROLES.items():
        group, is_new = Group.objects.using(using).get_or_create(name=name)
        if is_new:
            group.permissions.set(own.filter(codename__in=rights))
