"""Run Django in one thread per request.

Django's own ASGI handler runs each middleware on the event loop and changes to a thread for its database work. A page
changed threads seventeen times that way, and waited for a busy event loop each time. Here a page waits once.
"""

from __future__ import annotations

import django
from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.http import HttpRequest, HttpResponseBase


class PageRequest(ASGIRequest):
    """A request whose response may be sent in two parts, see `viewer.page_response`."""

    accepts_parts = True


class PageHandler(ASGIHandler):
    """An ASGI application whose middleware and views are synchronous."""

    request_class = PageRequest

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        return await sync_to_async(self.get_response)(request)


def create_application() -> PageHandler:
    """Set up Django and return its ASGI application, like `django.core.asgi.get_asgi_application`."""
    django.setup(set_prefix=False)
    return PageHandler()
