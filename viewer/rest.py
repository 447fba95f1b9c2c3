"""Base view and helpers of the REST API."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from ingest.models import Session
from viewer.accounts import access
from viewer.accounts.access import Right

_MAX_DIGITS = 18


class BadFilter(ValueError):
    """An invalid query parameter. `name` is the parameter, the message is shown to the user."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name
        self.message = message


class ReadView(APIView):
    """A view that needs `right` in at least one project."""

    permission_classes = (access.HasRight,)
    right = Right.SESSIONS

    def handle_exception(self, exc: Exception) -> Response:
        if isinstance(exc, BadFilter):
            exc = ValidationError({exc.name: exc.message})
        return super().handle_exception(exc)

    def get_session(self, request: Request, name: str) -> Session:
        return access.get_session(access.request_grant(request), name, self.right)


def query_parameter(name: str, description: str, kind: Any = OpenApiTypes.STR) -> OpenApiParameter:
    return OpenApiParameter(name, kind, OpenApiParameter.QUERY, description=description)


def is_number(text: str) -> bool:
    """Return True for a non-negative integer that fits a Postgres bigint."""
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS


def number_of(request: Request, name: str, default: int, *, most: int | None = None) -> int:
    """Return an integer query parameter, or raise ValidationError."""
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not is_number(text):
        raise ValidationError({name: "Enter a non-negative integer."})
    return min(int(text), most) if most else int(text)


def next_url(request: Request, name: str, cursor: object) -> str | None:
    """Return the URL of the next page, or None on the last page."""
    if cursor is None:
        return None
    query = request.query_params.copy()
    query[name] = str(cursor)
    return request.build_absolute_uri(f"{request.path}?{query.urlencode()}")
