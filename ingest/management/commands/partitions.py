"""`manage.py partitions`: create upcoming partitions and delete sessions past their project's retention.

Web processes do this on a timer. Use the command for a preview (`--dry-run`), or from cron if no web process runs.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from ingest.storage import retention


class Command(BaseCommand):
    help = "Create upcoming partitions and delete sessions past their project's retention. Honors legal holds."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="print the changes without making them")

    def handle(self, *_args: Any, dry_run: bool, **_options: Any) -> None:
        report = retention.run(is_dry=dry_run)
        changes = {
            "created": report.created_days,
            "dropped": report.dropped_days,
            "reduced": report.reduced_days,
        }
        for change, days in changes.items():
            for day in days:
                self.stdout.write(f"{change} {day}")
        count = report.session_count
        self.stdout.write(f"{count} sessions {'would be deleted' if dry_run else 'deleted'}")
