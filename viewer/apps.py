"""The reading half of the server."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class ViewerConfig(AppConfig):
    name = "viewer"

    def ready(self) -> None:
        from axes.signals import user_locked_out  # noqa: PLC0415 - models load first
        from django.contrib.auth import signals  # noqa: PLC0415

        from ingest.transcripts import expired  # noqa: PLC0415
        from viewer import audit, roles  # noqa: PLC0415

        post_migrate.connect(roles.make_missing_groups, sender=self, dispatch_uid="viewer.roles")
        signals.user_logged_in.connect(audit.note_login, dispatch_uid="viewer.audit")
        signals.user_logged_out.connect(audit.note_logout, dispatch_uid="viewer.audit")
        signals.user_login_failed.connect(audit.note_login_failure, dispatch_uid="viewer.audit")
        user_locked_out.connect(audit.note_lockout, dispatch_uid="viewer.audit")
        expired.connect(audit.note_expiry, dispatch_uid="viewer.audit")
