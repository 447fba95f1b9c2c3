"""`manage.py expire_archive`: delete transcripts that are older than their project keeps them. Run it daily.

A project under legal hold, or without a number of days, keeps everything. Each deletion leaves a tombstone.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from ingest import transcripts
from ingest.models import Project, Transcript
from viewer import audit
from viewer.audit import Action, Origin

# One transaction holds this many, and looks once for texts that nobody uses any more.
_BATCH = 500


class Command(BaseCommand):
    help = "Delete transcripts past their project's retention; legal holds are honoured."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only say how many would go")

    def handle(self, *args: Any, **options: Any) -> None:
        for project in Project.objects.filter(retention_days__isnull=False, legal_hold=False):
            before = timezone.now() - timedelta(days=project.retention_days or 0)
            old = Transcript.objects.filter(project_id=project.pk, received_at__lt=before).order_by("received_at")
            count = old.count()
            self.stdout.write(f"{project.slug}: {count} transcripts older than {project.retention_days} days")
            if options["dry_run"] or not count:
                continue
            reason = f"older than {project.retention_days} days"
            while batch := list(old[:_BATCH]):
                transcripts.delete(batch, reason=reason, by="retention")
            origin = Origin(None, "retention")
            audit.record(origin, Action.TRANSCRIPT_DELETE, project_id=project.pk, reason=reason, count=count)
