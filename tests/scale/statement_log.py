"""The statements that a Postgres server executed, from its log, and the cells that each of them reads or writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

CONFIGURATION = """
logging_collector = on
log_destination = 'jsonlog'
log_directory = 'log'
log_filename = 'statements'
log_statement = 'all'
log_rotation_size = 0
log_rotation_age = 0
"""
_STATEMENT = re.compile(r"(?:statement|execute [^:]*): (.*)", re.DOTALL)
_PARAMETER = re.compile(r"\$\d+ = (NULL|'(?:[^']|'')*')")
_LITERAL = re.compile(r"'(?:[^']|'')*'|\b\d+\b")
SCHEMA = "one_cell"
# Statements that differ only in their values have the same plan, unless one of them has several cells.
_EXAMPLES = 3


@dataclass(frozen=True)
class Statement:
    """A statement with its parameters as literals."""

    text: str
    parameters: tuple[str, ...]
    application: str

    @property
    def shape(self) -> str:
        """The statement without its values, so that each kind is checked once."""
        return " ".join(_LITERAL.sub("?", self.text).split())


def read(cluster: Path) -> Iterator[Statement]:
    """Yield the statements in the log of a cluster, with a few examples of each shape."""
    counts: dict[str, int] = {}
    with (cluster / "log" / "statements.json").open() as lines:
        for line in lines:
            entry = json.loads(line)
            match = _STATEMENT.match(entry.get("message", ""))
            if match is None or entry.get("backend_type") != "client backend":
                continue
            parameters = tuple(_PARAMETER.findall(entry.get("detail", "")))
            statement = Statement(match[1].strip(), parameters, entry.get("application_name", ""))
            counts[statement.shape] = counts.get(statement.shape, 0) + 1
            if counts[statement.shape] <= _EXAMPLES:
                yield statement


def create_shadow(database: psycopg.Connection[Any], tables: Iterable[str], cells: Iterable[int]) -> None:
    """Create an empty copy of each table in another schema, with a partition for each cell."""
    schema = sql.Identifier(SCHEMA)
    database.execute(sql.SQL("CREATE SCHEMA {}").format(schema))
    for table in tables:
        name, original = sql.Identifier(SCHEMA, table), sql.Identifier("public", table)
        database.execute(
            sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING DEFAULTS) PARTITION BY LIST (cell)").format(name, original)
        )
        key = database.execute(
            "SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY k.n) FROM pg_index i,"
            " unnest(i.indkey) WITH ORDINALITY k (column_number, n), pg_attribute a"
            " WHERE i.indrelid = %s::regclass AND i.indisprimary AND a.attrelid = i.indrelid"
            " AND a.attnum = k.column_number",
            [f"public.{table}"],
        ).fetchone()
        assert key and key[0].split(", ")[0] == "cell", (table, key)
        database.execute(sql.SQL("ALTER TABLE {} ADD PRIMARY KEY ({})").format(name, sql.SQL(key[0])))
        for cell in cells:
            part = sql.Identifier(SCHEMA, f"{table}_cell_{cell}")
            database.execute(
                sql.SQL("CREATE TABLE {} PARTITION OF {} FOR VALUES IN ({})").format(part, name, sql.Literal(cell))
            )


def cells_read(database: psycopg.Connection[Any], statement: Statement) -> set[int]:
    """Return the cells of all tables in the plan of a statement."""
    with _prepared(database, statement) as execute:
        (plan,) = database.execute(f"EXPLAIN (FORMAT JSON) {execute}").fetchone() or ([],)  # type: ignore[arg-type]
    names = " ".join(_relations(plan[0].get("Plan", {})))
    return {int(cell) for cell in re.findall(r"_cell_(\d+)\b", names)}


def cells_written(database: psycopg.Connection[Any], statement: Statement, tables: Iterable[str]) -> set[int]:
    """Return the cells of the rows that an INSERT adds to the empty copy, which is rolled back."""
    if not statement.text.lstrip().upper().startswith("INSERT"):
        return set()
    cells: set[int] = set()
    with database.transaction(force_rollback=True):
        with _prepared(database, statement) as execute:
            database.execute(execute)  # type: ignore[arg-type]
        for table in tables:
            if re.search(rf"\b{table}\b", statement.text):
                cells |= {cell for (cell,) in database.execute(f"SELECT DISTINCT cell FROM {SCHEMA}.{table}")}  # type: ignore[arg-type]
    return cells


class _prepared:
    """A statement as the server runs it: as text, or prepared if it has parameters."""

    def __init__(self, database: psycopg.Connection[Any], statement: Statement) -> None:
        self.database, self.statement = database, statement

    def __enter__(self) -> str:
        if not self.statement.parameters:
            return self.statement.text
        self.database.execute(f"PREPARE one AS {self.statement.text}")  # type: ignore[arg-type]
        return f"EXECUTE one ({', '.join(self.statement.parameters)})"

    def __exit__(self, *_: object) -> None:
        if self.statement.parameters and self.database.info.transaction_status.name != "INERROR":
            self.database.execute("DEALLOCATE one")


def _relations(plan: dict[str, Any]) -> Iterator[str]:
    if "Relation Name" in plan:
        yield plan["Relation Name"]
    for child in plan.get("Plans", []):
        yield from _relations(child)
