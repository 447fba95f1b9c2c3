"""The four groups and their rights.

Missing groups are created after every migration. Existing groups are never changed, so that an administrator's edits
persist.
"""

from __future__ import annotations

from typing import Any

from viewer.accounts.access import ALL_RIGHTS, Right

_OPERATOR = frozenset({Right.SESSIONS})
ROLES: dict[str, frozenset[Right]] = {
    # Summaries and counts, but no conversation text.
    "operators": _OPERATOR,
    "developers": _OPERATOR | {Right.PAYLOAD, Right.TAIL, Right.KEYS},
    "auditors": _OPERATOR | {Right.PAYLOAD, Right.TRANSCRIPTS, Right.AUDIT},
    "admins": ALL_RIGHTS,
}


def create_missing_groups(using: str = "default", **_: Any) -> None:
    """Receive `post_migrate`, which is also sent after a flush. A migration would run only once."""
    from django.contrib.auth.models import Group, Permission  # noqa: PLC0415 - the registry is not ready at import

    permissions = Permission.objects.using(using).filter(
        content_type__app_label="viewer", content_type__model="membership"
    )
    for name, rights in ROLES.items():
        group, is_new = Group.objects.using(using).get_or_create(name=name)
        if is_new:
            group.permissions.set(permissions.filter(codename__in=rights))
