"""A page is computed in one thread, so that it waits for a busy event loop once and not for each middleware."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from asgiref.sync import SyncToAsync
from asgiref.testing import ApplicationCommunicator
from django.http import HttpRequest, HttpResponse
from django.urls import path

from ariadne.runtime.page_handler import PageHandler

pytestmark = pytest.mark.django_db(transaction=True)
threads: list[int] = []


def show_thread(request: HttpRequest) -> HttpResponse:
    threads.append(threading.get_ident())
    return HttpResponse(str(request.user.is_authenticated))


async def show_async(request: HttpRequest) -> HttpResponse:
    return HttpResponse("async")


urlpatterns = [path("thread/", show_thread), path("async/", show_async)]
handler500 = "viewer.middleware.server_error"


async def get(address: str) -> tuple[int, bytes]:
    scope = {
        "type": "http",
        "method": "GET",
        "path": address,
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }
    page = ApplicationCommunicator(PageHandler(), scope)
    await page.send_input({"type": "http.request", "body": b""})
    start, body = await page.receive_output(10), await page.receive_output(10)
    await page.wait()
    return start["status"], body["body"]


@pytest.mark.urls(__name__)
async def test_middleware_and_view_run_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    changes: list[Any] = []
    call = SyncToAsync.__call__

    async def count(self: SyncToAsync[..., Any], *args: Any, **options: Any) -> Any:
        changes.append(self.func)
        return await call(self, *args, **options)

    monkeypatch.setattr(SyncToAsync, "__call__", count)
    assert await get("/thread/") == (200, b"False")
    assert threads.pop() != threading.get_ident()
    # The signal at the start of the request, the page, and closing the response.
    assert len(changes) <= 3


@pytest.mark.urls(__name__)
async def test_an_asynchronous_view_still_works() -> None:
    assert await get("/async/") == (200, b"async")
