"""`manage.py verify_archive`: verify all transcripts, hash chains and audit entries. Exits with 1 on any problem."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.archive import verification
from ingest.models import Project
from viewer.audit import anchors, log


class Command(BaseCommand):
    help = "Verify the hash chains of the archive, the audit log, and the anchors outside the database."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--project", help="verify only the transcripts of this project (slug)")
        parser.add_argument("--anchor", action="store_true", help="if verified, write a signed anchor to DATA_DIR")

    def handle(self, *args: Any, **options: Any) -> None:
        problems, stored, deleted, sessions = 0, 0, 0, 0
        for result in verification.verify_all(self._project_ids(options["project"])):
            sessions, stored, deleted = sessions + 1, stored + result.stored, deleted + result.deleted
            problems += self._report([f"{result.session_id!r}: {fault}" for fault in result.faults])
        problems += self._report([*log.find_problems(), *anchors.find_problems()])
        self.stdout.write(f"Checked {stored} transcripts and {deleted} tombstones of {sessions} sessions.")
        if problems:
            raise CommandError(f"Verification failed with {problems} problems.")
        self.stdout.write(self.style.SUCCESS("Verified: archive, audit log and anchors are intact."))
        if options["anchor"]:
            anchor = anchors.write()
            self.stdout.write(f"Anchored {anchor['links']} links and audit entry {anchor['audit_position']}.")

    def _project_ids(self, slug: str | None) -> list[int] | None:
        if not slug:
            return None
        ids = list(Project.objects.filter(slug=slug).values_list("pk", flat=True))
        if not ids:
            raise CommandError(f"No project has the slug {slug!r}.")
        return ids

    def _report(self, problems: list[str]) -> int:
        for problem in problems:
            self.stdout.write(self.style.ERROR(problem))
        return len(problems)
