"""Tests use a data folder of their own, never the one of the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.data_folder import CHECKOUT_DATA, CheckoutDataAccess

ROOT = Path(__file__).resolve().parent.parent
READ = "import pathlib, sys; pathlib.Path(sys.argv[1]).read_bytes()"
WRITE = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text('changed')"


def test_settings_name_a_temporary_folder() -> None:
    """Keys, anchors and static files of a test run are outside the checkout. Child processes inherit the folder."""
    from django.conf import settings

    assert Path(os.environ["DATA_DIR"]) == settings.DATA_DIR
    assert not settings.DATA_DIR.is_relative_to(ROOT)
    assert (Path(os.environ["DATA_DIR"]) / "secret_key").read_text() == settings.SECRET_KEY


@pytest.mark.parametrize(
    "access",
    [
        (CHECKOUT_DATA / "secret_key").read_text,
        lambda: (CHECKOUT_DATA / "new").write_text("x"),
        lambda: list(CHECKOUT_DATA.iterdir()),
        lambda: os.listdir(os.path.relpath(CHECKOUT_DATA)),
        (CHECKOUT_DATA / "static").mkdir,
        lambda: Path("x").rename(CHECKOUT_DATA / "x"),
        (CHECKOUT_DATA / "anchors.jsonl").unlink,
    ],
)
def test_data_of_the_checkout_is_refused(access, tmp_path, monkeypatch) -> None:
    """Each kind of access fails loudly, for root, too, and whether or not the folder exists."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckoutDataAccess, match="must not use the data folder"):
        access()


@pytest.mark.parametrize(("program", "is_found"), [(WRITE, True), (READ, True), ("pass", False)])
def test_folder_guard_finds_what_a_process_reads_and_writes(program: str, is_found: bool, tmp_path: Path) -> None:
    """`.ci/run` runs all tests under this tool, which also sees the processes that tests start."""
    if program == READ and os.statvfs(tmp_path).f_flag & os.ST_NOATIME:
        is_found = False
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "secret_key").write_text("secret")
    (folder / "other").write_text("other")
    command = [
        sys.executable,
        "-m",
        "tools.folder_guard",
        str(folder),
        sys.executable,
        "-c",
        program,
        f"{folder}/secret_key",
    ]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == int(is_found)
    assert ("secret_key\n" in result.stderr) == is_found
    assert f"{folder}/other" not in result.stderr


def test_folder_guard_keeps_the_exit_code_of_the_command(tmp_path: Path) -> None:
    """A failed test run fails `.ci/run`."""
    command = [sys.executable, "-m", "tools.folder_guard", str(tmp_path), sys.executable, "-c", "raise SystemExit(3)"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 3
