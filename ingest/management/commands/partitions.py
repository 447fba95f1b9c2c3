"""`manage.py partitions`: create upcoming partitions and delete data past its project's retention.

Web processes do this on a timer. Use the command for a preview (`--dry-run`), or to accept a clock that was refused.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.storage import retention, retention_clock


class Command(BaseCommand):
    help = "Create upcoming partitions and delete data past its project's retention. Honors legal holds."

    def add_arguments(self, parser: CommandParser) -> None:
        action = parser.add_mutually_exclusive_group()
        action.add_argument("--dry-run", action="store_true", help="print what is past retention, and change nothing")
        action.add_argument(
            "--accept-clock",
            metavar="REASON",
            help="delete again by a clock that was refused. The reason is recorded in the audit log",
        )

    def handle(self, *_args: Any, dry_run: bool = False, accept_clock: str | None = None, **_options: Any) -> None:
        if accept_clock is not None:
            self._accept(accept_clock.strip())
            return
        report = retention.preview() if dry_run else retention.run()
        changes = {
            "created": report.created_days,
            "dropped": report.dropped_days,
            "reduced": report.reduced_days,
        }
        for change, days in changes.items():
            for day in days:
                self.stdout.write(f"{change} {day}")
        done = "would be deleted after a day of grace" if dry_run else "deleted"
        self.stdout.write(f"{report.session_count} sessions and {report.transcript_count} transcripts {done}")
        if report.problem:
            self.stdout.write(report.problem)

    def _accept(self, reason: str) -> None:
        if not reason:
            raise CommandError("Enter a reason. It is recorded in the audit log.")
        try:
            retention_clock.accept(retention_clock.read_clocks(), reason)
        except retention_clock.ImplausibleClock as error:
            raise CommandError(str(error)) from None
        self.stdout.write("The clock is accepted. Retention continues with its next run.")
