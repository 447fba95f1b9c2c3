"""`manage.py distribute`: no effect without Citus, and a schema that Citus can distribute."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from ingest.storage.database.distribution import FIRST, GROWING


@pytest.mark.django_db
def test_without_citus_nothing_changes() -> None:
    """On plain Postgres, the command reports that Citus is missing, also on a second run."""
    output = StringIO()
    call_command("distribute", stdout=output)
    call_command("distribute", stdout=output)
    assert output.getvalue().count("Citus is not installed") == 2


@pytest.mark.django_db
def test_schema_can_be_distributed() -> None:
    """Tables meet the rules of Citus: unique keys contain the cell, no foreign keys, no identity columns."""
    with connection.cursor() as cursor:
        cursor.execute(GROWING)
        tables = [table for (table,) in cursor.fetchall()]
        assert tables[0] == FIRST
        assert {"ingest_span", "ingest_chainlink", "viewer_comment", "viewer_auditentry"} <= set(tables)
        for table in tables:
            cursor.execute(
                """SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = %s::regclass AND indisunique AND NOT
                   (SELECT attnum FROM pg_attribute WHERE attrelid = indrelid AND attname = 'cell') = ANY(indkey)""",
                [table],
            )
            assert cursor.fetchall() == [], f"unique keys of {table} without the cell"
            cursor.execute(
                "SELECT conname FROM pg_constraint WHERE contype = 'f' AND %s::regclass IN (conrelid, confrelid)",
                [table],
            )
            assert cursor.fetchall() == [], f"foreign keys of {table}"
            cursor.execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attidentity <> ''"
                " AND NOT attisdropped",
                [table],
            )
            assert cursor.fetchall() == [], f"identity columns of {table}"


@pytest.mark.django_db
def test_cells_are_shown_only_of_a_cluster() -> None:
    with pytest.raises(CommandError, match="not distributed"):
        call_command("cells")


@pytest.mark.django_db
@pytest.mark.parametrize("arguments", [{"shards": 0}])
def test_invalid_shard_count_is_rejected(arguments: dict[str, int]) -> None:
    """The number of shards must be at least one."""
    with pytest.raises(CommandError, match="at least 1"):
        call_command("distribute", **arguments)
