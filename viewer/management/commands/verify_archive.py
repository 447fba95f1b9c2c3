"""`manage.py verify_archive`: verify all transcripts, hash chains and audit entries. Exits with 1 on any problem."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.archive import verification
from ingest.cells import learn
from ingest.models import Project
from viewer.audit.anchors import anchor_series


class Command(BaseCommand):
    help = "Verify the hash chains of the archive, the audit log, and the anchors outside the database."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--project", help="verify only the transcripts of this project (slug)")
        parser.add_argument(
            "--anchor",
            action="store_true",
            help="if verified, write a signed anchor now. The server does this every hour",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        problems, stored, deleted, sessions = 0, 0, 0, 0
        for result in verification.verify_all(self._project_ids(options["project"])):
            sessions, stored, deleted = sessions + 1, stored + result.stored, deleted + result.deleted
            problems += self._report([f"{result.session_id!r}: {fault}" for fault in result.faults])
        report = anchor_series.verify()
        problems += self._report(report.problems)
        self.stdout.write(f"Checked {stored} transcripts and {deleted} tombstones of {sessions} sessions.")
        for status in report.state.external:
            self.stdout.write(f"{status.service}: {status.error or f'anchor {status.number} of {status.at}'}")
        if problems:
            raise CommandError(f"Verification failed with {problems} problems. {report.state.sentence}")
        style = self.style.SUCCESS if report.status == "anchored" else self.style.WARNING
        self.stdout.write(style(report.sentence))
        if options["anchor"]:
            anchor = anchor_series.write()
            self.stdout.write(f"Anchored {anchor.root.count} links and audit entry {anchor.audit_position}.")

    def _project_ids(self, slug: str | None) -> list[int] | None:
        if not slug:
            return None
        counts = dict(Project.objects.filter(slug=slug).values_list("pk", "cell_count"))
        if not counts:
            raise CommandError(f"No project has the slug {slug!r}.")
        learn(counts.items())
        return list(counts)

    def _report(self, problems: list[str]) -> int:
        for problem in problems:
            self.stdout.write(self.style.ERROR(problem))
        return len(problems)
