"""`manage.py expire_archive`: delete transcripts that are older than their project keeps them.

The server does this by itself every hour; the command is for seeing what would go, and for servers that are off.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from ingest.archive import transcripts


class Command(BaseCommand):
    help = "Delete transcripts past their project's retention; legal holds are honoured."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only say how many would go")

    def handle(self, *args: Any, **options: Any) -> None:
        for project, count in transcripts.expire(is_dry=options["dry_run"]).items():
            self.stdout.write(f"{project.slug}: {count} transcripts older than {project.retention_days} days")
