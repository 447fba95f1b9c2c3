"""A Postgres server that is older than the bundled client programs, from PyPI or from the system's packages."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ariadne.runtime.postgres import THROWAWAY, Postgres

# Settings that these versions do not have are why a restore stopped.
_OLDER = (16, 15)


def binaries() -> Path | None:
    """Return the programs of an older version: those of Debian or Ubuntu, or of the wheel `pgserver`."""
    for major in _OLDER:
        folder = Path(f"/usr/lib/postgresql/{major}/bin")
        if (folder / "initdb").exists():
            return folder
    spec = importlib.util.find_spec("pgserver")
    if spec and spec.submodule_search_locations:
        return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"
    return None


@contextmanager
def older_postgres(folder: Path) -> Iterator[Postgres]:
    """Run an older server. Without one, the test is skipped, and fails on CI."""
    programs = binaries()
    if programs is None:
        reason = "No Postgres 15 or 16: the wheel pgserver has none for this Python, and no package is installed."
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    server = Postgres(folder, options=THROWAWAY, binaries=programs)
    server.start()
    try:
        yield server
    finally:
        server.stop()
