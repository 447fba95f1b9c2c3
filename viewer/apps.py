"""The reading half of the server."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class ViewerConfig(AppConfig):
    name = "viewer"

    def ready(self) -> None:
        from axes.signals import user_locked_out  # noqa: PLC0415 - models load first
        from django.contrib.auth import signals  # noqa: PLC0415

        from ingest.archive.transcripts import expired  # noqa: PLC0415
        from viewer.accounts import roles  # noqa: PLC0415
        from viewer.audit import log  # noqa: PLC0415

        post_migrate.connect(roles.make_missing_groups, sender=self, dispatch_uid="viewer.accounts.roles")
        signals.user_logged_in.connect(log.note_login, dispatch_uid="viewer.audit.log")
        signals.user_logged_out.connect(log.note_logout, dispatch_uid="viewer.audit.log")
        signals.user_login_failed.connect(log.note_login_failure, dispatch_uid="viewer.audit.log")
        user_locked_out.connect(log.note_lockout, dispatch_uid="viewer.audit.log")
        expired.connect(log.note_expiry, dispatch_uid="viewer.audit.log")
