"""`manage.py distribute` has no effect without Citus."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command


@pytest.mark.django_db
def test_without_citus_nothing_changes() -> None:
    """On plain Postgres, the command reports that Citus is missing, also on a second run."""
    output = StringIO()
    call_command("distribute", stdout=output)
    call_command("distribute", stdout=output)
    assert output.getvalue().count("Citus is not installed") == 2


@pytest.mark.django_db
@pytest.mark.parametrize("arguments", [{"shards": 0}])
def test_invalid_shard_count_is_rejected(arguments: dict[str, int]) -> None:
    """The number of shards must be at least one."""
    with pytest.raises(CommandError, match="at least 1"):
        call_command("distribute", **arguments)
