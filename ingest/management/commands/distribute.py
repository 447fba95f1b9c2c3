"""`manage.py distribute`: distribute the large tables over a Citus cluster.

Spans and sessions are distributed by session, so that a session page reads from one worker. Traces and messages are
distributed by the keys by which they are looked up. The command can be repeated: tables that are already
distributed stay as they are. Archived transcripts stay on the coordinator because their append-only triggers would not
exist on the shards.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.db.backends.utils import CursorWrapper

# Table, distribution column, table to colocate with. A table comes after the one it is colocated with.
DISTRIBUTED = (
    ("ingest_session", "session_key", "none"),
    ("ingest_span", "session_key", "ingest_session"),
    ("ingest_usage", "session_key", "ingest_session"),
    ("ingest_label", "session_key", "ingest_session"),
    ("ingest_trace", "trace_key", "none"),
    ("ingest_spansession", "trace_key", "ingest_trace"),
    ("ingest_message", "cell", "none"),
)
# Shards can be moved but not easily split. 32 shards allow for 32 workers.
DEFAULT_SHARDS = 32


class Command(BaseCommand):
    help = "Distribute spans, sessions, traces and messages over a Citus cluster. Without Citus, do nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--shards", type=int, default=DEFAULT_SHARDS, help="shards for each table; cannot be changed later"
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
        with connection.cursor() as cursor:
            if not _has_citus(cursor):
                self.stdout.write("Citus is not installed in this database. Nothing to distribute.")
                return
            if coordinator:
                cursor.execute(
                    "SELECT citus_set_coordinator_host(%s, %s)", _host_and_port("--coordinator", coordinator)
                )
            for address in worker:
                cursor.execute("SELECT citus_add_node(%s, %s)", _host_and_port("--worker", address))
            cursor.execute("SELECT set_config('citus.shard_count', %s, false)", [str(shards)])
            for table, column, colocated_with in DISTRIBUTED:
                if _is_distributed(cursor, table):
                    self.stdout.write(f"{table}: already distributed")
                    continue
                cursor.execute(
                    "SELECT create_distributed_table(%s::regclass, %s, colocate_with => %s)",
                    [table, column, colocated_with],
                )
                # The rows are on the shards now. Remove the coordinator's copy.
                cursor.execute("SELECT truncate_local_data_after_distributing_table(%s::regclass)", [table])
                self.stdout.write(f"{table}: distributed by {column}, {shards} shards")


def _has_citus(cursor: CursorWrapper) -> bool:
    """True if this database has Citus. Creates the extension if the server preloads it."""
    cursor.execute("SELECT 1 FROM pg_extension WHERE extname = 'citus'")
    if cursor.fetchone():
        return True
    cursor.execute("SELECT current_setting('shared_preload_libraries') ~ '\\mcitus\\M'")
    (is_loaded,) = cursor.fetchone() or (False,)
    if is_loaded:
        cursor.execute("CREATE EXTENSION citus")
    return bool(is_loaded)


def _is_distributed(cursor: CursorWrapper, table: str) -> bool:
    cursor.execute("SELECT 1 FROM pg_dist_partition WHERE logicalrelid = %s::regclass", [table])
    return cursor.fetchone() is not None


def _host_and_port(option: str, address: str) -> tuple[str, int]:
    host, _, port = address.partition(":")
    if not host or (port and not port.isdigit()):
        raise CommandError(f"{option} must be HOST or HOST:PORT, not {address!r}.")
    return host, int(port or 5432)
