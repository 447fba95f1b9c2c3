"""The reading half of the server."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class ViewerConfig(AppConfig):
    name = "viewer"

    def ready(self) -> None:
        from viewer import roles  # noqa: PLC0415 - models load first

        post_migrate.connect(roles.make_missing_groups, sender=self, dispatch_uid="viewer.roles")
