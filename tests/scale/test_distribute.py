"""`manage.py distribute`: nothing without Citus; with it, hot queries ask one shard."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from ingest.management.commands.distribute import DISTRIBUTED


@pytest.mark.django_db
def test_without_citus_it_says_so_and_changes_nothing() -> None:
    """A plain Postgres is told that there is nothing to do, twice as well as once."""
    said = StringIO()
    call_command("distribute", stdout=said)
    call_command("distribute", stdout=said)
    assert said.getvalue().count("Citus is not here") == 2


@pytest.mark.django_db
def test_the_schema_can_be_distributed() -> None:
    """What Citus demands of a table holds: unique keys have the distribution column, no foreign key, no trigger."""
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
def test_nonsense_is_refused(arguments: dict[str, int]) -> None:
    """No table without shards."""
    with pytest.raises(CommandError, match="at least one shard"):
        call_command("distribute", **arguments)
