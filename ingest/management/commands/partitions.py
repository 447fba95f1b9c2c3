"""`manage.py partitions`: make the coming days' partitions, drop what is past its project's retention.

The web processes do the same on a timer; this is for looking first (`--dry-run`) and for cron where there is none.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from ingest.storage import retention


class Command(BaseCommand):
    help = "Make partitions ahead and drop sessions past their project's retention; legal holds are honoured."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only say what would be done")

    def handle(self, *_args: Any, dry_run: bool, **_options: Any) -> None:
        report = retention.run(is_dry=dry_run)
        for word, days in (("made", report.made), ("dropped", report.dropped), ("thinned", report.thinned)):
            for day in days:
                self.stdout.write(f"{word} {day}")
        self.stdout.write(f"{report.sessions} sessions {'would go' if dry_run else 'went'}")
