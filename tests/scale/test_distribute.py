"""`manage.py distribute`: no effect without Citus, and a schema that Citus can distribute."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from ingest.management.commands.distribute import DISTRIBUTED


@pytest.mark.django_db
def test_without_citus_nothing_changes() -> None:
    """On plain Postgres, the command reports that Citus is missing, also on a second run."""
    output = StringIO()
    call_command("distribute", stdout=output)
    call_command("distribute", stdout=output)
    assert output.getvalue().count("Citus is not installed") == 2


@pytest.mark.django_db
def test_schema_can_be_distributed() -> None:
    """Tables meet the rules of Citus: unique keys contain the distribution column, no foreign keys, no triggers."""
    with connection.cursor() as cursor:
        for table, column, _ in DISTRIBUTED:
            cursor.execute(
                """SELECT conname FROM pg_constraint WHERE conrelid = %s::regclass AND contype IN ('p', 'u') AND NOT
                   (SELECT attnum FROM pg_attribute WHERE attrelid = conrelid AND attname = %s) = ANY(conkey)""",
                [table, column],
            )
            assert cursor.fetchall() == [], f"unique keys of {table} without {column}"
            cursor.execute(
                "SELECT conname FROM pg_constraint WHERE contype = 'f' AND %s::regclass IN (conrelid, confrelid)",
                [table],
            )
            assert cursor.fetchall() == [], f"foreign keys of {table}"
            cursor.execute("SELECT tgname FROM pg_trigger WHERE tgrelid = %s::regclass", [table])
            assert cursor.fetchall() == [], f"triggers of {table}"
            cursor.execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attidentity <> ''", [table]
            )
            assert cursor.fetchall() == [], f"identity columns of {table}"


@pytest.mark.django_db
@pytest.mark.parametrize("arguments", [{"shards": 0}])
def test_invalid_shard_count_is_rejected(arguments: dict[str, int]) -> None:
    """The number of shards must be at least one."""
    with pytest.raises(CommandError, match="at least 1"):
        call_command("distribute", **arguments)
