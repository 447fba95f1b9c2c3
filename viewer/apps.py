"""The app that reads and displays what `ingest` stores."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class ViewerConfig(AppConfig):
    name = "viewer"

    def ready(self) -> None:
        from axes.signals import user_locked_out  # noqa: PLC0415 - models load first
        from django.contrib.auth import signals  # noqa: PLC0415

        from ingest.archive.transcripts import expired  # noqa: PLC0415
        from ingest.storage.retention import deleted, expiring  # noqa: PLC0415
        from ingest.storage.retention_clock import accepted  # noqa: PLC0415
        from viewer.accounts import roles  # noqa: PLC0415
        from viewer.audit import receivers  # noqa: PLC0415
        from viewer.comments.queries import delete_expired  # noqa: PLC0415

        post_migrate.connect(roles.create_missing_groups, sender=self, dispatch_uid="viewer.accounts.roles")
        signals.user_logged_in.connect(receivers.record_login, dispatch_uid="viewer.audit")
        signals.user_logged_out.connect(receivers.record_logout, dispatch_uid="viewer.audit")
        signals.user_login_failed.connect(receivers.record_login_failure, dispatch_uid="viewer.audit")
        user_locked_out.connect(receivers.record_lockout, dispatch_uid="viewer.audit")
        accepted.connect(receivers.record_accepted_clock, dispatch_uid="viewer.audit")
        deleted.connect(receivers.record_deletion, dispatch_uid="viewer.audit")
        expired.connect(receivers.record_expiry, dispatch_uid="viewer.audit")
        expiring.connect(delete_expired, dispatch_uid="viewer.comments")
