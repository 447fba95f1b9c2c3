"""The status page has the faults of the server, and only people with all rights see it."""

from __future__ import annotations

import html
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from people import client_for, create_project, create_user
from small_disk import SmallDisk, small_disk

from ingest import notices
from ingest.models import RetentionClock
from ingest.notices import NoticeHandler, Notices
from ingest.storage.notifications import channel_layer

LINE = logging.Formatter("%(levelname)s %(name)s %(message)s")


def write(file: Path, *messages: str) -> None:
    handler = NoticeHandler(file)
    handler.setFormatter(LINE)
    for message in messages:
        handler.handle(logging.LogRecord("ariadne.ingest", logging.WARNING, "f.py", 1, message, (), None))


@pytest.mark.django_db
@pytest.mark.req("A-FLT-1")
def test_the_page_shows_problems_and_the_newest_warnings(tmp_path: Path, settings: Any) -> None:
    settings.DATA_DIR = tmp_path
    client = client_for(User.objects.create_superuser("root"))
    assert "No warnings yet" in client.get("/status/").getvalue().decode()
    RetentionClock.objects.create(checked_at="2026-01-01T00:00Z", problem="The clock says 2027.")
    write(tmp_path / notices.FILE_NAME, "writes_fail reason='disk full' action='make room'", "<b>second</b>\nforged")
    text = client.get("/status/").getvalue().decode()
    channel_layer.fail("test", ConnectionRefusedError())
    try:
        assert "Check REDIS_URL" in client.get("/status/").getvalue().decode()
    finally:
        channel_layer.succeed("test")
    assert "Check REDIS_URL" not in client.get("/status/").getvalue().decode()
    assert "The clock says 2027." in text and "<b>second" not in text and "forged" not in text
    plain = html.unescape(text)
    assert plain.index("<b>second</b>") < plain.index("writes_fail reason='disk full' action='make room'")


@pytest.mark.django_db
@pytest.mark.parametrize("role", ["operator", "developer", "auditor", "admin"])
def test_members_of_a_project_do_not_see_the_server(role: str, tmp_path: Path, settings: Any) -> None:
    """Warnings are about all projects."""
    settings.DATA_DIR = tmp_path
    write(tmp_path / notices.FILE_NAME, "Planted-Sesame")
    response = client_for(create_user(role, create_project())).get("/status/")
    assert response.status_code == 403 and b"Planted-Sesame" not in response.content


def test_the_file_of_notices_stays_small_and_private(tmp_path: Path) -> None:
    """The newest lines are kept when it is moved, and only its owner can read it."""
    file = tmp_path / notices.FILE_NAME
    for number in range(3 * notices.MAX_BYTES // 10_000):
        Notices(file).add(f"{number} {'x' * 10_000}")
    newest = Notices(file).newest(5)
    assert [int(line.split()[2]) for line in newest] == [number - i for i in range(5)]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2.2 * notices.MAX_BYTES
    assert {path.stat().st_mode & 0o077 for path in tmp_path.iterdir()} == {0}


@pytest.mark.req("A-FLT-1")
def test_notices_of_a_full_disk_are_written_when_there_is_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", size_mb=4) as disk:
        assert isinstance(disk, SmallDisk)
        lines = Notices(disk.folder / notices.FILE_NAME)
        disk.fill()
        lines.add("disk full")
        assert "disk full" in lines.newest(1)[0]
        disk.make_room()
        lines.add("works again")
        newest = Notices(disk.folder / notices.FILE_NAME).newest(9)
    assert [line.split(" ", 2)[2] for line in newest] == ["works again", "disk full"], os.linesep.join(newest)
