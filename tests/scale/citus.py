"""A Citus cluster on this machine, for tests: fresh databases on it, and its nodes, which can be killed and restarted.

Everything is read from the coordinator at `CITUS_URL`, which knows its workers.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg import sql
from wait import wait_until

_NODES = "SELECT groupid, nodename, nodeport FROM pg_dist_node WHERE noderole = 'primary' ORDER BY groupid"
_POSTGRES_DIRECTORIES = (
    "SELECT current_setting('data_directory'), (SELECT setting FROM pg_config WHERE name = 'BINDIR')"
)


@dataclass
class CitusNode:
    """One server of the cluster. The coordinator has the group 0."""

    group: int
    host: str
    port: int
    user: str
    data: Path
    programs: Path

    def url(self, database: str) -> str:
        return f"postgresql://{self.user}@{self.host}:{self.port}/{database}"

    def execute(self, database: str, statement: sql.Composable | str, *arguments: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url(database), autocommit=True, connect_timeout=5) as connection:
            cursor = connection.execute(statement, arguments or None)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def kill(self) -> None:
        """Kill the postmaster. Its children notice and exit."""
        os.kill(int((self.data / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)

    def start(self) -> None:
        assert wait_until(self._is_started, timeout_s=60), f"{self.data} does not start"

    def _is_started(self) -> bool:
        # As the owner of the data, because Postgres does not run as root.
        owner = self.data.stat()
        account = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.getuid() == 0 else {}
        command = [self.programs / "pg_ctl", "-s", "-w", "-D", self.data, "-l", f"{self.data}.log", "start"]
        subprocess.run(command, check=False, stderr=subprocess.DEVNULL, cwd="/", **account)  # type: ignore[call-overload]
        with suppress(psycopg.OperationalError):
            self.execute("postgres", "SELECT 1")
            return True
        return False


class Citus:
    """The cluster of a coordinator's address."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        user = parts.username or "postgres"
        with psycopg.connect(url) as connection:
            addresses = connection.execute(_NODES).fetchall()
        self.nodes = []
        for group, host, port in addresses:
            with psycopg.connect(f"postgresql://{user}@{host}:{port}/{parts.path[1:]}") as connection:
                ((data, programs),) = connection.execute(_POSTGRES_DIRECTORIES).fetchall()
            self.nodes.append(CitusNode(group, host, port, user, Path(data), Path(programs)))
        self.coordinator, *self.workers = self.nodes

    def create_database(self, name: str, *, workers: int = 0) -> str:
        """Create an empty database on each node, with its workers or the first few. Return its address."""
        used = self.workers[: workers or None]
        self.drop_database(name)
        for node in self.nodes:
            node.execute("postgres", sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
            node.execute(name, "CREATE EXTENSION citus")
        self.coordinator.execute(
            name, "SELECT citus_set_coordinator_host(%s, %s)", self.coordinator.host, self.coordinator.port
        )
        for node in used:
            self.coordinator.execute(name, "SELECT citus_add_node(%s, %s)", node.host, node.port)
        return self.coordinator.url(name)

    def drop_database(self, name: str) -> None:
        for node in self.nodes:
            node.execute("postgres", sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def node_of(self, database: str, cell: int) -> CitusNode:
        """Return the node that holds a cell."""
        ((group,),) = self.coordinator.execute(
            database,
            "SELECT groupid FROM pg_dist_placement"
            " WHERE shardid = get_shard_id_for_distribution_column('ingest_cell', %s::bigint)",
            cell,
        )
        return next(node for node in self.nodes if node.group == group)
