"""`manage.py restart_anchors --reason "…"`: start a new series of anchors after a backup was restored intentionally."""

from __future__ import annotations

import getpass
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from viewer.audit.anchors import anchor_series
from viewer.audit.log import Origin, clean


class Command(BaseCommand):
    help = (
        "Start a new series of anchors after you restored a backup. Verification fails until then, because the anchors "
        "are newer than the database. The old file is kept under another name, and the restart is in the audit log."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--reason", required=True, help="why the backup was restored, for the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        reason = clean(options["reason"].strip())
        if not reason:
            raise CommandError("Enter a reason. It is recorded in the audit log.")
        try:
            anchor = anchor_series.restart(Origin(None, f"{_user()} (command line)"), reason)
        except anchor_series.NothingToRestart:
            raise CommandError("The anchors match the database. There is nothing to restart.") from None
        self.stdout.write(
            self.style.SUCCESS(f"Anchor {anchor.number} starts a new series. {anchor_series.verify().sentence}")
        )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown user"
