"""The status of the server for people with all rights: what does not work, and the newest warnings of this host."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import Any

from asgiref.sync import async_to_sync
from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from ingest import notices
from ingest.http.health import check_channel_layer
from ingest.http.service import find_service
from ingest.storage import retention_clock
from ingest.storage.notifications import channel_layer
from viewer.accounts import access
from viewer.audit.anchors import anchor_series
from viewer.page_response import send_page

_SHOWN_LINES = 200
# Postgres needs room for its log, and stops without it.
_LOW_DISK_BYTES = 500_000_000


@dataclass(frozen=True, slots=True)
class Problem:
    """A part of the server that does not work, and the reason with what to do."""

    part: str
    reason: str


@access.requires_superuser
def server_status(request: HttpRequest) -> HttpResponseBase:
    return send_page(request, "status/server_status.html", {}, _load)


def _load() -> dict[str, Any]:
    lines = notices.Notices(settings.DATA_DIR / notices.FILE_NAME).newest(_SHOWN_LINES)
    return {"problems": find_problems(), "lines": lines, "data_dir": settings.DATA_DIR}


def find_problems() -> list[Problem]:
    """Return what does not work at the moment, as this process sees it."""
    problems = [
        Problem("Writes", _write_problem()),
        Problem("Disk", _disk_problem()),
        Problem("Retention", retention_clock.known_problem()),
        Problem("Live updates", _live_problem()),
    ]
    problems += [Problem(f"Anchors at the {copy.service}", copy.error) for copy in anchor_series.read_state().external]
    return [problem for problem in problems if problem.reason]


def _write_problem() -> str:
    service = find_service()
    if service is None:
        return ""
    reason = async_to_sync(service.write_check.result)().reason
    return f"{reason}. Senders get 503 and keep their events." if reason else ""


def _live_problem() -> str:
    async_to_sync(check_channel_layer)()
    return channel_layer.problem


def _disk_problem() -> str:
    free = shutil.disk_usage(settings.DATA_DIR).free
    return f"{free / 1e6:.0f} MB free in {settings.DATA_DIR}. Make room." if free < _LOW_DISK_BYTES else ""
