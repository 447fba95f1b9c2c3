"""Pages are sent in two parts: the frame before the content is read, and the content as a whole or as an error."""

from __future__ import annotations

import logging
import re
import threading
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase
from django.test import Client
from django.urls import include, path
from people import client_for, create_project, create_session, create_transcript, create_user
from routes import ROUTES, Route

from ariadne.runtime.page_handler import PageHandler
from ingest.models import Project, session_key
from viewer.page_response import DecidedTooLate, send_page

pytestmark = pytest.mark.django_db(transaction=True)
NAME, OUR_SECRET, THEIR_SECRET = "parted-session", "words that ours sent", "words that theirs sent"
TEMPLATE = "comments/mention_list.html"
may_read = threading.Event()


def wait(request: HttpRequest) -> HttpResponseBase:
    def load() -> dict[str, Any]:
        assert may_read.wait(10)
        return {"rows": []}

    return send_page(request, TEMPLATE, {}, load)


def fail(request: HttpRequest) -> HttpResponseBase:
    def load() -> dict[str, Any]:
        raise {"404": Http404, "403": PermissionDenied}.get(request.GET.get("as", ""), RuntimeError)(OUR_SECRET)

    return send_page(request, TEMPLATE, {}, load)


def change_session(request: HttpRequest) -> HttpResponseBase:
    def load() -> dict[str, Any]:
        request.session["project"] = "ours"
        return {"rows": []}

    return send_page(request, TEMPLATE, {}, load)


def with_message(request: HttpRequest) -> HttpResponseBase:
    messages.success(request, "Saved it.")
    return send_page(request, TEMPLATE, {}, lambda: {"rows": []})


urlpatterns = [
    path("wait/", wait),
    path("fail/", fail),
    path("change/", change_session),
    path("message/", with_message),
    path("", include("ariadne.urls")),
]
handler500 = "viewer.middleware.server_error"
on_test_pages = pytest.mark.urls(__name__)


class Visit:
    """A request to the application that serves pages, of which a test reads one part after the other."""

    def __init__(self, client: Client, address: str) -> None:
        location, _, query = address.partition("?")
        cookie = "; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items())
        headers = [(b"host", b"localhost"), (b"cookie", cookie.encode())]
        scope = {"type": "http", "method": "GET", "path": location, "query_string": query.encode(), "headers": headers}
        self._application = ApplicationCommunicator(PageHandler(), scope)

    async def start(self) -> dict[str, Any]:
        await self._application.send_input({"type": "http.request", "body": b""})
        return await self._application.receive_output(10)  # type: ignore[no-any-return]

    async def part(self) -> str:
        return (await self._application.receive_output(10))["body"].decode()  # type: ignore[no-any-return]

    async def parts(self) -> list[str]:
        """Return the remaining parts of the body."""
        parts = []
        while True:
            message = await self._application.receive_output(10)
            parts.append(message.get("body", b"").decode(errors="replace"))
            if not message.get("more_body"):
                await self._application.wait()
                return [part for part in parts if part]


@async_to_sync
async def open_page(client: Client, address: str) -> tuple[dict[str, Any], list[str]]:
    visit = Visit(client, address)
    return await visit.start(), await visit.parts()


@pytest.fixture
def reader() -> Client:
    """The client of an admin of the first of two projects. Both have a session and a transcript with a secret."""
    ours, theirs = create_project("ours"), create_project("theirs")
    for project, secret in ((ours, OUR_SECRET), (theirs, THEIR_SECRET)):
        create_session(project, session_id=f"{NAME}-{project.slug}", text=secret)
        create_transcript(project, session=f"{NAME}-{project.slug}", texts=(secret, "x"))
    return client_for(create_user("admin", ours))


@on_test_pages
def test_the_frame_is_sent_before_the_content_is_read(reader: Client) -> None:
    @async_to_sync
    async def read() -> tuple[str, list[str]]:
        visit = Visit(reader, "/wait/")
        await visit.start()
        frame = await visit.part()
        may_read.set()
        return frame, await visit.parts()

    may_read.clear()
    frame, (content,) = read()
    assert "</head>" in frame
    assert 'id="main-nav"' in frame
    assert "<main" not in frame
    assert content.lstrip().startswith("<main")
    assert content.rstrip().endswith("</html>")


@on_test_pages
def test_content_that_fails_is_a_message_and_a_complete_page(reader: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "django.request"):
        start, (frame, content) = open_page(reader, "/fail/")
    assert start["status"] == 200
    assert "</html>" not in frame
    assert "Something went wrong" in content
    assert OUR_SECRET not in content
    assert content.rstrip().endswith("</html>")
    assert [record.getMessage() for record in caplog.records] == ["Internal Server Error: /fail/"]


@on_test_pages
def test_content_that_takes_too_long_is_a_message(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    @async_to_sync
    async def read() -> str:
        visit = Visit(reader, "/wait/")
        await visit.start()
        await visit.part()
        message = await visit.part()
        may_read.set()
        await visit.parts()
        return message

    may_read.clear()
    monkeypatch.setattr(settings, "REQUEST_TIMEOUT_S", 0.1)
    assert "This page took too long" in read()


@on_test_pages
@pytest.mark.parametrize("address", ["/fail/?as=404", "/fail/?as=403", "/change/"])
def test_a_view_must_decide_before_the_page_starts(reader: Client, address: str) -> None:
    with pytest.raises(DecidedTooLate):
        reader.get(address)


@on_test_pages
def test_a_page_with_a_message_is_sent_whole(reader: Client) -> None:
    """The message is on the page, and its cookie is not set, so it is not shown again."""
    start, (page,) = open_page(reader, "/message/")
    assert "Saved it." in page
    assert not any(b"Saved" in value for _, value in start["headers"])


PAGES = {
    name: route
    for name, route in ROUTES.items()
    if "GET" in route.methods
    and not name.startswith(("api-", "audit-", "ledger-"))
    and name not in {"login", "schema", "transcript-download"}
}


def test_a_page_in_parts_equals_the_whole_page(reader: Client) -> None:
    split = set()
    for name, route in PAGES.items():
        own = address_of(route, "ours")
        whole = reader.get(own)
        start, parts = open_page(reader, own)
        page = "".join(parts)
        assert start["status"] == whole.status_code, name
        assert THEIR_SECRET not in page, name
        assert normalize(page) == normalize(whole.content.decode()), name
        if len(parts) == 2:
            split.add(name)
    assert {"session-list", "session-detail", "compare", "tail", "transcript-list", "key-list"} <= split


def test_an_object_of_another_project_is_a_404_and_not_a_frame(reader: Client) -> None:
    for name, route in PAGES.items():
        if route.has_object:
            start, parts = open_page(reader, address_of(route, "theirs"))
            assert start["status"] == 404, name
            assert THEIR_SECRET not in "".join(parts), name


def address_of(route: Route, slug: str) -> str:
    session = f"{NAME}-{slug}"
    key = session_key(Project.objects.get(slug=slug).pk, session)
    return route.path.replace("/ours/", f"/{slug}/").format(session=session, span=f"t-{session}:a", key=key)


def normalize(html: str) -> str:
    """Remove what differs in every response."""
    return re.sub(r'(name="csrfmiddlewaretoken" value=)"[^"]*"', r"\1", html)
