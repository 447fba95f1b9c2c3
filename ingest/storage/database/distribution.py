"""Distribute the growing tables over the nodes of a Citus cluster, by cell.

A growing table is one with the column `cell`, so a table that a migration adds needs no entry here. The tables are
colocated: the rows of a cell are on one node, and so is every commit. The small tables stay on the coordinator. As
reference tables, with a copy on each node, they could not be written while a node is down, when people must be able to
sign in, and Citus would restart the ids of all tables that refer to them.
"""

from __future__ import annotations

from django.db import OperationalError, connection, transaction
from django.db.backends.utils import CursorWrapper
from psycopg.errors import DeadlockDetected

# Shards can be moved but not easily split. 32 shards allow for 32 workers.
DEFAULT_SHARDS = 32

_MAX_ATTEMPTS = 10
FIRST = "ingest_cell"
"""The table that the others are colocated with. Each commit takes its lock on a cell from it first."""

GROWING = f"""
SELECT c.relname::text FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'cell' AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = current_schema()::regnamespace
ORDER BY c.relname <> '{FIRST}', c.relname
"""  # noqa: S608 - a constant
# Citus rejects triggers by default because some read other rows. Those of these tables only refuse changes.
_SETTINGS = """
SELECT set_config('citus.shard_count', %s, true), set_config('citus.enable_unsafe_triggers', 'on', true),
  set_config('citus.multi_shard_modify_mode', 'sequential', true), set_config('client_min_messages', 'warning', true)
"""
_DISTRIBUTED = "SELECT logicalrelid::text FROM pg_dist_partition"
_DISTRIBUTE = "SELECT create_distributed_table(%s::regclass, 'cell', colocate_with => %s)"
_TRUNCATE = "SELECT truncate_local_data_after_distributing_table(%s::regclass)"


def has_citus() -> bool:
    """True if this database has Citus. Creates the extension if the server preloads it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_extension WHERE extname = 'citus'")
        if cursor.fetchone():
            return True
        cursor.execute("SELECT current_setting('shared_preload_libraries') ~ '\\mcitus\\M'")
        (is_loaded,) = cursor.fetchone() or (False,)
        if is_loaded:
            cursor.execute("CREATE EXTENSION citus")
    return bool(is_loaded)


def is_distributed() -> bool:
    """True if the growing tables of this database are distributed."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('pg_dist_partition') IS NOT NULL")
        (has_metadata,) = cursor.fetchone() or (False,)
        return bool(has_metadata) and FIRST in _names(cursor, _DISTRIBUTED)


def distribute(*, shards: int = DEFAULT_SHARDS) -> list[str]:
    """Distribute the tables that are not distributed yet, and return their names.

    It is one transaction, so a commit finds all tables on one server or all on the cluster. Writers and readers wait
    until it ends.
    """
    for attempt in range(_MAX_ATTEMPTS):
        try:
            return _distribute(shards)
        except OperationalError as error:
            # Another transaction holds one of the tables and waits for another one.
            if not isinstance(error.__cause__, DeadlockDetected) or attempt == _MAX_ATTEMPTS - 1:
                raise
    return []


def _distribute(shards: int) -> list[str]:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_SETTINGS, [str(shards)])
        done = set(_names(cursor, _DISTRIBUTED))
        new = [table for table in _names(cursor, GROWING) if table not in done]
        if new:
            # All at once, so that a deadlock ends the attempt before rows are copied.
            cursor.execute(f"LOCK TABLE {', '.join(new)}")
        for table in new:
            cursor.execute(_DISTRIBUTE, [table, "none" if table == FIRST else FIRST])
        # The rows are on the shards now. The coordinator's copy of the append-only tables has triggers.
        cursor.execute("SELECT set_config('session_replication_role', 'replica', true)")
        for table in new:
            cursor.execute(_TRUNCATE, [table])
    return new


def _names(cursor: CursorWrapper, query: str) -> list[str]:
    cursor.execute(query)
    return [name for (name,) in cursor.fetchall()]


_SHARD = f"get_shard_id_for_distribution_column('{FIRST}', %s::bigint)"
_PLACE = f"""
SELECT nodename, nodeport, (
  SELECT sum(s.shard_size) FROM citus_shards s JOIN pg_dist_shard o USING (shardid), pg_dist_shard f
  WHERE f.shardid = {_SHARD} AND o.shardminvalue = f.shardminvalue AND s.nodeport = n.nodeport
    AND s.nodename = n.nodename)
FROM pg_dist_placement p JOIN pg_dist_node n ON n.groupid = p.groupid AND n.noderole = 'primary'
WHERE p.shardid = {_SHARD}
"""  # noqa: S608 - constants
_IS_ALONE = f"""
SELECT shardminvalue::int = shardmaxvalue::int FROM pg_dist_shard WHERE shardid = {_SHARD}
"""  # noqa: S608 - constants


def place_of(cell: int) -> tuple[str, int, int]:
    """Return the host and port of the node that holds a cell, and the bytes of its shards."""
    with connection.cursor() as cursor:
        cursor.execute(_PLACE, [cell, cell])
        host, port, size = cursor.fetchone() or ("", 0, 0)
    return host, port, int(size or 0)


def isolate(cell: int) -> None:
    """Give a cell shards of its own. Writers of its old shards wait."""
    with connection.cursor() as cursor:
        cursor.execute(_IS_ALONE, [cell])
        if (cursor.fetchone() or (False,))[0]:
            return
        # Without blocking, the split of Citus 13.2 never ends if a row of an old shard is updated.
        cursor.execute(f"SELECT isolate_tenant_to_new_shard('{FIRST}', %s::bigint, 'CASCADE', 'block_writes')", [cell])


def move(cell: int, host: str, port: int) -> None:
    """Move the shards of a cell to another node, with those of the cells beside it."""
    old_host, old_port, _ = place_of(cell)
    if (old_host, old_port) == (host, port):
        return
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT citus_move_shard_placement({_SHARD}, %s, %s, %s, %s)", [cell, old_host, old_port, host, port]
        )
