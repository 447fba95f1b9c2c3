"""`manage.py recount`: count every figure of stored sessions again from their spans.

Run it once after an upgrade that counts something new or in another way. Sessions that arrive later are counted when
they are stored.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.models import Project
from ingest.storage.figures.recount import recount

_REPORT_EVERY = 1_000
Position = tuple[int, uuid.UUID]


def _text(position: Position) -> str:
    return f"{position[0]}.{position[1]}"


def _position(text: str) -> Position:
    cell, _, key = text.partition(".")
    return int(cell), uuid.UUID(key)


class Command(BaseCommand):
    help = "Count every figure of stored sessions again from their spans. Agents can send at the same time."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--project", metavar="SLUG", help="only the sessions of this project")
        parser.add_argument("--after", metavar="POSITION", type=_position, help="continue after what a run reported")

    def handle(self, *_args: Any, project: str | None = None, after: Position | None = None, **_options: Any) -> None:
        owner = Project.objects.filter(slug=project).first() if project else None
        if project and owner is None:
            raise CommandError(f"There is no project {project!r}.")
        count = 0
        for count, progress in enumerate(recount(owner.pk if owner else None, after=after), 1):
            if count % _REPORT_EVERY == 0:
                self.stdout.write(
                    f"{progress.count:,} of {progress.total:,} sessions, up to {_text(progress.position)}"
                )
        self.stdout.write(f"{count} sessions counted")
