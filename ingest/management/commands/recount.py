"""`manage.py recount`: count the trends and billed tokens of sessions again from their spans.

Run it once after an upgrade from a version without trends or costs. Sessions that arrive later are counted when they
are stored.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.models import Project
from ingest.storage.figures.recount import recount


class Command(BaseCommand):
    help = "Count the trends and billed tokens of sessions again from their spans. Agents can send at the same time."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--project", metavar="SLUG", help="only the sessions of this project")

    def handle(self, *_args: Any, project: str | None = None, **_options: Any) -> None:
        owner = Project.objects.filter(slug=project).first() if project else None
        if project and owner is None:
            raise CommandError(f"There is no project {project!r}.")
        count = sum(1 for _ in recount(owner.pk if owner else None))
        self.stdout.write(f"{count} sessions counted")
