"""`manage.py distribute`: distribute the growing tables over a Citus cluster, and add workers to it.

The command can be repeated. `manage.py setup` distributes the tables of a new version itself.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection

from ingest.storage.database import distribution


class Command(BaseCommand):
    help = "Distribute the growing tables over a Citus cluster by cell. Without Citus, do nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--shards",
            type=int,
            default=distribution.DEFAULT_SHARDS,
            help="shards for each table, at least as many as there will ever be workers",
        )
        parser.add_argument("--coordinator", metavar="HOST[:PORT]", help="address by which workers reach this database")
        parser.add_argument(
            "--worker", action="append", default=[], metavar="HOST[:PORT]", help="worker to add first; can be repeated"
        )

    def handle(
        self, *_args: Any, shards: int, worker: list[str], coordinator: str | None = None, **_options: Any
    ) -> None:
        if shards < 1:
            raise CommandError(f"--shards must be at least 1, not {shards}.")
        if not distribution.has_citus():
            self.stdout.write("Citus is not installed in this database. Nothing to distribute.")
            return
        with connection.cursor() as cursor:
            if coordinator:
                cursor.execute(
                    "SELECT citus_set_coordinator_host(%s, %s)", _host_and_port("--coordinator", coordinator)
                )
            for address in worker:
                cursor.execute("SELECT citus_add_node(%s, %s)", _host_and_port("--worker", address))
        tables = distribution.distribute(shards=shards)
        for table in tables:
            self.stdout.write(f"{table}: distributed by cell")
        if not tables:
            self.stdout.write("All tables are distributed already.")


def _host_and_port(option: str, address: str) -> tuple[str, int]:
    host, _, port = address.partition(":")
    if not host or (port and not port.isdigit()):
        raise CommandError(f"{option} must be HOST or HOST:PORT, not {address!r}.")
    return host, int(port or 5432)
