"""`manage.py distribute`: spread the big tables over a Citus cluster. Elsewhere it says that there is nothing to do.

Spans and sessions are placed by session, so that a session page asks one machine; traces and message texts by their own
keys, which is how they are asked for. Safe to run again: what is distributed is left as it is. The archive of
transcripts stays on the coordinator, because its append-only triggers would not exist on the shards.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.db.backends.utils import CursorWrapper

# Table, distribution column, table to lie beside. A table comes after the one that it lies beside.
DISTRIBUTED = (
    ("ingest_session", "session_key", "none"),
    ("ingest_span", "session_key", "ingest_session"),
    ("ingest_trace", "trace_key", "none"),
    ("ingest_stray", "trace_key", "ingest_trace"),
    ("ingest_message", "hash", "none"),
)
# Shards can be moved but not easily split: enough for 32 workers from the first day.
DEFAULT_SHARDS = 32


class Command(BaseCommand):
    help = "Distribute spans, sessions, traces and messages over a Citus cluster; without Citus, do nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--shards", type=int, default=DEFAULT_SHARDS, help="shards a table, once and for all")
        parser.add_argument("--coordinator", metavar="HOST[:PORT]", help="how workers reach this database, said once")
        parser.add_argument(
            "--worker", action="append", default=[], metavar="HOST[:PORT]", help="add this worker first; repeatable"
        )

    def handle(
        self, *_args: Any, shards: int, worker: list[str], coordinator: str | None = None, **_options: Any
    ) -> None:
        if shards < 1:
            raise CommandError(f"--shards {shards}: a table has at least one shard")
        with connection.cursor() as cursor:
            if not _has_citus(cursor):
                self.stdout.write("Citus is not here: nothing to distribute. One Postgres serves as it is.")
                return
            if coordinator:
                cursor.execute("SELECT citus_set_coordinator_host(%s, %s)", _parted("--coordinator", coordinator))
            for address in worker:
                cursor.execute("SELECT citus_add_node(%s, %s)", _parted("--worker", address))
            cursor.execute("SELECT set_config('citus.shard_count', %s, false)", [str(shards)])
            for table, column, beside in DISTRIBUTED:
                if _is_distributed(cursor, table):
                    self.stdout.write(f"{table}: distributed already")
                    continue
                cursor.execute(
                    "SELECT create_distributed_table(%s::regclass, %s, colocate_with => %s)", [table, column, beside]
                )
                # The rows were copied to the shards; the coordinator's own copy only takes room.
                cursor.execute("SELECT truncate_local_data_after_distributing_table(%s::regclass)", [table])
                self.stdout.write(f"{table}: distributed by {column}, {shards} shards")


def _has_citus(cursor: CursorWrapper) -> bool:
    """Whether the extension is in this database, making it where the server offers it preloaded."""
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


def _parted(option: str, address: str) -> tuple[str, int]:
    host, _, port = address.partition(":")
    if not host or (port and not port.isdigit()):
        raise CommandError(f"{option} {address}: give host or host:port")
    return host, int(port or 5432)
