"""A Citus cluster on this machine, for tests: fresh databases on it, and its nodes, which can be killed and restarted.

Everything is read from the coordinator at `CITUS_URL`, which knows its workers.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from live_server import ROOT
from psycopg import sql
from scale.agent import span
from wait import wait_until

from ingest.cells import cells_of
from ingest.http.decode_jobs import decode_events
from ingest.storage.commit import write
from ingest.storage.database.connections import Node, connect
from ingest.storage.database.pipeline import Pipeline
from ingest.storage.messages import KnownMessages

URL = os.environ.get("CITUS_URL", "")
SETTINGS = {"DJANGO_SETTINGS_MODULE": "tests.server_settings"}
"""Commands and servers have the same hash of passwords, which is a fast one."""
_NODES = "SELECT groupid, nodename, nodeport FROM pg_dist_node WHERE noderole = 'primary' ORDER BY groupid"
_POSTGRES_DIRECTORIES = (
    "SELECT current_setting('data_directory'), (SELECT setting FROM pg_config WHERE name = 'BINDIR')"
)


@dataclass(frozen=True)
class Tenant:
    """A project of its own, and an ingest key of it."""

    project: int
    slug: str
    key: str


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
        # Not with the home of this user, where libpq looks for certificates.
        environment = {name: value for name, value in os.environ.items() if name != "HOME"}
        subprocess.run(  # type: ignore[call-overload]
            command, check=False, stderr=subprocess.DEVNULL, cwd="/", env=environment, **account
        )
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
        statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))

        def is_dropped(node: CitusNode) -> bool:
            # The maintenance daemon of Citus may connect at the same moment.
            with suppress(psycopg.errors.ObjectInUse):
                node.execute("postgres", statement)
                return True
            return False

        for node in self.nodes:
            assert wait_until(lambda node=node: is_dropped(node))  # type: ignore[misc]

    def node_of(self, database: str, cell: int) -> CitusNode:
        """Return the node that holds a cell."""
        ((group,),) = self.coordinator.execute(
            database,
            "SELECT groupid FROM pg_dist_placement"
            " WHERE shardid = get_shard_id_for_distribution_column('ingest_cell', %s::bigint)",
            cell,
        )
        return next(node for node in self.nodes if node.group == group)

    def add_tenant(self, database: str, *, apart_from: int) -> Tenant:
        """Create a project with an ingest key whose cell is on another node than that of project `apart_from`."""
        (node,) = {self.node_of(database, cell).group for cell in cells_of(apart_from)}
        while True:
            tenant = add_tenant(self.coordinator.url(database))
            if self.node_of(database, cells_of(tenant.project)[0]).group != node:
                return tenant

    def remote_commands_of_a_commit(self, database: str, project: int, blocker: Any) -> list[str]:
        """Write spans of a project on the node that holds its cell. Return what that sends to other nodes."""
        node = self.node_of(database, cells_of(project)[0])
        commands: list[str] = []

        async def commit() -> None:
            connection = await connect(application="test", node=Node(node.host, node.port))
            connection.add_notice_handler(lambda notice: commands.append(notice.message_primary or ""))
            await connection.execute("SET citus.log_remote_commands = on")
            pipeline = Pipeline(connection)
            for number in range(2):
                spans = decode([span(f"remote-{n}", f"{number}", trace_id=f"t-{number}-{n}") for n in range(10)])
                async with pipeline.transaction():
                    await write(
                        pipeline,
                        cells_of(project)[0],
                        spans,
                        maybe_stored=None,
                        known_messages=KnownMessages(),
                    )
            await connection.close()

        with django_on(self.coordinator.url(database), blocker):
            asyncio.run(commit())
        return [command for command in commands if not re.match("executing the (command|copy) locally", command)]


def add_tenant(url: str) -> Tenant:
    """Create a project with an ingest key, without members."""
    name = f"tenant-{secrets.token_hex(4)}"
    key = f"ari_{name}"
    with psycopg.connect(url) as connection:
        ((project,),) = connection.execute(
            "INSERT INTO ingest_project (slug, name, created_at, legal_hold)"
            " VALUES (%s, %s, now(), false) RETURNING id",
            [name, name],
        ).fetchall()
        connection.execute(
            "INSERT INTO ingest_ingestkey (project_id, label, hint, created_at, digest)"
            " VALUES (%s, 'test', 'test', now(), %s)",
            [project, hashlib.sha256(key.encode()).hexdigest()],
        )
    return Tenant(project, name, key)


def recreate_database(url: str, name: str) -> tuple[str, Path]:
    """Create an empty database on a single server. Return its address and the server's data directory."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        ((data,),) = connection.execute("SELECT current_setting('data_directory')").fetchall()
    return urlsplit(url)._replace(path=f"/{name}").geturl(), Path(data)


def decode(events: list[dict[str, Any]]) -> list[Any]:
    return list(decode_events(json.dumps({"batch": events}).encode(), "json", 1_000).records)


def manage(url: str, data_dir: Path, *arguments: str) -> str:
    """Run a command of `manage.py` on a database, and return its output."""
    result = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env={**os.environ, **SETTINGS, "DATABASE_URL": url, "DATA_DIR": str(data_dir)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout


@contextmanager
def django_on(url: str, blocker: Any) -> Iterator[None]:
    """Connect Django to a database inside the block."""
    from django.db import connection

    from ariadne.settings import database

    with blocker.unblock():
        before = dict(connection.settings_dict)
        connection.close()
        connection.settings_dict.update(database(url, Path("unused")))
        try:
            yield
        finally:
            connection.close()
            connection.settings_dict.clear()
            connection.settings_dict.update(before)


def rows_of_tables(url: str) -> dict[str, list[str]]:
    """Return the sorted rows of every table that is not a partition."""
    with psycopg.connect(url) as connection:
        names = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition"
            " AND relnamespace = 'public'::regnamespace ORDER BY relname"
        ).fetchall()
        tables = {}
        for (name,) in names:
            rows = connection.execute(sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(name))).fetchall()
            tables[name] = sorted(row for (row,) in rows)
    return tables
