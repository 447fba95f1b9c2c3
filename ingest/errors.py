"""Errors of the write path, each with an HTTP status, a code for programs and a message for people.

RequestError
├── Unauthorized      401  the key is missing, wrong or revoked
├── Malformed         400  no event of the body can be stored
├── TooLarge          413  the body, compressed or decompressed, is over the limit
├── UnsupportedType   415  unknown media type or content encoding
├── MethodNotAllowed  405
├── TooSlow           408  the body did not arrive in time
├── Conflict          409  the archive has different content for this step
├── RateLimited       429  the key is over its rate
└── Unavailable       503  the database is unavailable, or the queue in front of it is full
"""

from __future__ import annotations

import traceback
from typing import Any


class RequestError(Exception):
    """A request that is rejected, with everything its response needs."""

    status = 400
    code = "rejected"

    def __init__(self, message: str, *, retry_after_s: int | None = None, rejected: list[Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_s = retry_after_s
        self.rejected = rejected

    def body(self) -> dict[str, Any]:
        """Return the JSON body of the response."""
        body: dict[str, Any] = {"success": False, "code": self.code, "error": self.message}
        if self.rejected is not None:
            body |= {"count": 0, "rejected": self.rejected}
        return body


class Unauthorized(RequestError):
    status, code = 401, "unauthorized"


class Malformed(RequestError):
    status, code = 400, "malformed"


class Conflict(RequestError):
    status, code = 409, "conflict"

    def __init__(self, message: str, *, next_step: int) -> None:
        super().__init__(message)
        self.next_step = next_step

    def body(self) -> dict[str, Any]:
        """Return the JSON body of the response, with the next free step."""
        return {**super().body(), "next_step": self.next_step}


class TooLarge(RequestError):
    status, code = 413, "too_large"


class UnsupportedType(RequestError):
    status, code = 415, "unsupported_type"


class TooSlow(RequestError):
    status, code = 408, "too_slow"


class MethodNotAllowed(RequestError):
    status, code = 405, "method_not_allowed"


class RateLimited(RequestError):
    status, code = 429, "rate_limited"


class Unavailable(RequestError):
    status, code = 503, "unavailable"

    def __init__(self, message: str, *, retry_after_s: int = 1) -> None:
        super().__init__(message, retry_after_s=retry_after_s)


def describe(error: BaseException) -> str:
    """Describe an unexpected error for the log.

    The error's message is left out because it may quote conversation text. The reason of the operating system does not.
    """
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    location = " < ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in reversed(frames))
    sqlstate = getattr(error, "sqlstate", None)
    reason = f" reason={error.strerror!r}" if isinstance(error, OSError) and error.strerror else ""
    return f"error={type(error).__name__}{reason} sqlstate={sqlstate or '-'} at={location!r}"
