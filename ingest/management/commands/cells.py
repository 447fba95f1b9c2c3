"""`manage.py cells`: show the cells of a Citus cluster, move those of one project to a node, or give it more cells.

A node that holds only one project serves a large customer without neighbors. Writers of the cells beside it wait while
its shards are split off. The move to the node then blocks them only for the last moment, in which that node takes over.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection

from ingest.cells import AUDIT_LOG, cells_of, learn
from ingest.models import Project
from ingest.storage import sequence
from ingest.storage.database import distribution

MAX_COUNT = 64


class Command(BaseCommand):
    help = "Show on which node of a Citus cluster each cell is. Move a project to a node, or give it more cells."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--isolate", metavar="PROJECT", help="slug of a project that gets shards of its own")
        parser.add_argument("--node", metavar="HOST:PORT", help="the node to which its shards move")
        parser.add_argument("--grow", metavar="PROJECT", help="slug of a project whose new sessions get more cells")
        parser.add_argument("--count", type=int, help=f"its number of cells, up to {MAX_COUNT}. It can't be reduced")

    def handle(
        self,
        *_args: Any,
        isolate: str | None = None,
        node: str | None = None,
        grow: str | None = None,
        count: int | None = None,
        **_options: Any,
    ) -> None:
        learn(Project.objects.values_list("pk", "cell_count"))
        if grow:
            self._grow(_project(grow), count or 1)
            return
        if not distribution.is_distributed():
            raise CommandError("The tables of this database are not distributed. See manage.py distribute.")
        if isolate:
            self._isolate(_project(isolate), node)
        names = {cell: slug for slug, pk in Project.objects.values_list("slug", "pk") for cell in cells_of(pk)}
        for cell, name in sorted({AUDIT_LOG: "(audit log)", **names}.items()):
            host, port, size = distribution.place_of(cell)
            self.stdout.write(f"{cell:>10}  {name:<30}  {host}:{port}  shard of {size / 1e6:,.0f} MB")

    def _grow(self, project: Project, count: int) -> None:
        if not project.cell_count <= count <= MAX_COUNT:
            raise CommandError(f"{project.slug} has {project.cell_count} cells. Enter a --count up to {MAX_COUNT}.")
        sequence.set_cell_count(project.pk, count)
        self.stdout.write(f"New sessions of {project.slug} are stored in {count} cells.")

    def _isolate(self, project: Project, node: str | None) -> None:
        host, _, port = (node or "").rpartition(":")
        if node and not (host and port.isdigit()):
            raise CommandError(f"--node must be HOST:PORT, not {node!r}.")
        # Each step commits, so a failed move can be tried again.
        assert connection.get_autocommit()
        for cell in cells_of(project.pk):
            distribution.isolate(cell)
            if node:
                distribution.move(cell, host, int(port))


def _project(slug: str) -> Project:
    project = Project.objects.filter(slug=slug).first()
    if project is None:
        raise CommandError(f"There is no project {slug!r}.")
    return project
