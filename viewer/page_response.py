"""Send a page in two parts: its frame at once, and its content when the queries are done.

The frame is everything above the content: head, stylesheet, scripts and navigation. It needs only the login and what
the view has looked up, so the browser loads, lays out and paints it while the server reads the content. `base.html`
renders one part or the other, as the variable `part` says, and both without it.

The status, the headers and the cookies leave with the frame. A view therefore decides about 403 and 404, and changes
the login session, before it returns a page.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.messages import get_messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.template.loader import render_to_string

logger = logging.getLogger("django.request")

Context = Mapping[str, Any]


class DecidedTooLate(Exception):
    """The content of a page raised 403 or 404, or changed the login session. The view must do that itself."""


def send_page(
    request: HttpRequest, template: str, known: Context, load: Callable[[], Context] = dict, *, status: int = 200
) -> HttpResponseBase:
    """Return a page. `known` is the context of both parts, and `load` reads what only the content needs."""
    frame = render_to_string(template, {**known, "part": "frame"}, request)

    def render_content() -> str:
        return render_to_string(template, {**known, **_load(request, load), "part": "content"}, request)

    if _accepts_parts(request):
        return StreamingHttpResponse(_parts(request, frame, render_content), status=status)
    return HttpResponse(frame + render_content(), status=status)


def _load(request: HttpRequest, load: Callable[[], Context]) -> Context:
    was_modified = request.session.modified
    try:
        context = load()
    except (Http404, PermissionDenied) as error:
        raise DecidedTooLate(f"{request.path} raised {error!r} after its status was sent") from error
    if request.session.modified and not was_modified:
        raise DecidedTooLate(f"{request.path} changed the login session after its cookie was sent")
    return context


def _accepts_parts(request: HttpRequest) -> bool:
    # Messages are shown by the content and removed from their cookie by the headers. Their pages are sent whole.
    return getattr(request, "accepts_parts", False) and request.method == "GET" and not len(get_messages(request))


async def _parts(request: HttpRequest, frame: str, render_content: Callable[[], str]) -> AsyncIterator[str]:
    yield frame
    # Write the frame to the socket before a thread starts that needs the interpreter.
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(settings.REQUEST_TIMEOUT_S):
            content = await sync_to_async(render_content)()
    except Exception as error:
        logger.exception("Internal Server Error: %s", request.path, extra={"status_code": 500, "request": request})
        content = render_to_string("page_failed.html", {"part": "content", "is_late": isinstance(error, TimeoutError)})
    yield content
