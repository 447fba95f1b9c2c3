"""Give a test run a data folder of its own, and refuse every access to the one of the checkout.

A pytest plugin that `-p` loads, because Django reads its settings before any conftest.py. The refusal is an audit hook:
unlike permissions it also holds for root. `python -m tools.folder_guard` covers the processes that tests start.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

CHECKOUT_DATA = Path(__file__).resolve().parent.parent / ".ariadne"
_FILE_EVENTS = {"open", "sqlite3.connect", "shutil.copyfile", "shutil.copytree", "shutil.rmtree"}
_FILE_EVENTS |= {
    f"os.{call}" for call in ("listdir", "scandir", "mkdir", "rename", "remove", "rmdir", "link", "symlink")
}
_FILE_EVENTS |= {f"os.{call}" for call in ("chmod", "chown", "utime", "truncate")}


class CheckoutDataAccess(BaseException):
    """A test opened the data folder of the checkout. Not an `Exception`, which the code under test might handle."""


def refuse_checkout_data(event: str, arguments: tuple[object, ...]) -> None:
    """Raise if a file operation is about the data folder of the checkout."""
    if event not in _FILE_EVENTS:
        return
    for argument in arguments:
        name = os.fsdecode(argument) if isinstance(argument, (str, bytes, os.PathLike)) else ""
        if CHECKOUT_DATA.name in name and Path(os.path.abspath(name)).is_relative_to(CHECKOUT_DATA):
            raise CheckoutDataAccess(f"{event} {name}: tests must not use the data folder of the checkout")


def pytest_configure(config: pytest.Config) -> None:
    sys.addaudithook(refuse_checkout_data)


# At import, which is before the settings are read. `make` exports the variable, and each xdist worker inherits it.
_folder = tempfile.mkdtemp(prefix="ariadne-tests-")
os.environ["DATA_DIR"] = _folder


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(_folder, ignore_errors=True)
