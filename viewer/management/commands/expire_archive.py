"""`manage.py expire_archive`: delete transcripts that are past the retention of their project.

The server does this every hour. The command shows what would be deleted, and works while the server is stopped.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from ingest.archive import transcripts


class Command(BaseCommand):
    help = "Delete transcripts past the retention of their project. Transcripts on legal hold are kept."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="show how many would be deleted")

    def handle(self, *args: Any, **options: Any) -> None:
        for project, count in transcripts.expire(is_dry=options["dry_run"]).items():
            self.stdout.write(f"{project.slug}: {count} transcripts older than {project.retention_days} days")
