"""`manage.py verify_archive`: is every transcript, every link and every audit line what it was? Exits 1 if not."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.archive import verification
from ingest.models import Project
from viewer.audit import anchors, log


class Command(BaseCommand):
    help = "Check every chain of the archive, the audit log, and the anchors kept outside the database."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--project", help="only this project's transcripts (its slug)")
        parser.add_argument("--anchor", action="store_true", help="if all is well, write a signed anchor to DATA_DIR")

    def handle(self, *args: Any, **options: Any) -> None:
        projects = None
        if slug := options["project"]:
            projects = list(Project.objects.filter(slug=slug).values_list("pk", flat=True))
            if not projects:
                raise CommandError(f"there is no project {slug}")
        wrong, stored, deleted, sessions = 0, 0, 0, 0
        for finding in verification.verify_all(projects):
            sessions, stored, deleted = sessions + 1, stored + finding.stored, deleted + finding.deleted
            for fault in finding.faults:
                wrong += 1
                self.stdout.write(self.style.ERROR(f"{finding.session_id!r}: {fault}"))
        for fault in [*log.faults(), *anchors.faults()]:
            wrong += 1
            self.stdout.write(self.style.ERROR(fault))
        self.stdout.write(f"{stored} transcripts and {deleted} tombstones of {sessions} sessions checked")
        if wrong:
            raise CommandError(f"{wrong} faults: the archive is not what it was")
        self.stdout.write(self.style.SUCCESS("whole: archive, audit log and anchors agree"))
        if options["anchor"]:
            anchor = anchors.write()
            self.stdout.write(f"anchored {anchor['links']} links and audit line {anchor['audit_position']}")
