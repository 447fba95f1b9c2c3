"""`manage.py cells`: show the cells of a Citus cluster, or move those of one project to a node of their own.

A node that holds only one project serves a large customer without neighbors. Writers of the cells beside it wait while
its shards are split off. The move to the node then blocks them only for the last moment, in which that node takes over.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection

from ingest.cells import AUDIT_LOG, cells_of
from ingest.models import Project
from ingest.storage.database import distribution


class Command(BaseCommand):
    help = "Show on which node of a Citus cluster each cell is. With --isolate, move a project to a node."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--isolate", metavar="PROJECT", help="slug of a project that gets shards of its own")
        parser.add_argument("--node", metavar="HOST:PORT", help="the node to which its shards move")

    def handle(self, *_args: Any, isolate: str | None, node: str | None, **_options: Any) -> None:
        if not distribution.is_distributed():
            raise CommandError("The tables of this database are not distributed. See manage.py distribute.")
        if isolate:
            self._isolate(isolate, node)
        names = {cell: slug for slug, pk in Project.objects.values_list("slug", "pk") for cell in cells_of(pk)}
        for cell, name in sorted({AUDIT_LOG: "(audit log)", **names}.items()):
            host, port, size = distribution.place_of(cell)
            self.stdout.write(f"{cell:>10}  {name:<30}  {host}:{port}  shard of {size / 1e6:,.0f} MB")

    def _isolate(self, slug: str, node: str | None) -> None:
        project = Project.objects.filter(slug=slug).first()
        if project is None:
            raise CommandError(f"There is no project {slug!r}.")
        host, _, port = (node or "").rpartition(":")
        if node and not (host and port.isdigit()):
            raise CommandError(f"--node must be HOST:PORT, not {node!r}.")
        # Each step commits, so a failed move can be tried again.
        assert connection.get_autocommit()
        for cell in cells_of(project.pk):
            distribution.isolate(cell)
            if node:
                distribution.move(cell, host, int(port))
