"""Every refusal of the write path, in one shape: a status, a code for programs and a sentence for people.

Refusal
├── Unauthorized      401  no key, or a wrong or revoked one
├── Malformed         400  not one event of the body can be stored
├── TooLarge          413  the body, or what it inflates to, is over the limit
├── WrongType         415  a media type or an encoding that is not spoken here
├── WrongMethod       405
├── TooSlow           408  the body trickles in
├── Conflict          409  a step of the archive is there with another text
├── TooMany           429  this key sends more than it may
└── Unavailable       503  the database is away, or the queue in front of it is full
"""

from __future__ import annotations

import traceback
from typing import Any


class Refusal(Exception):
    status = 400
    code = "refused"

    def __init__(self, message: str, *, retry_after_s: int | None = None, rejected: list[Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_s = retry_after_s
        self.rejected = rejected

    def body(self) -> dict[str, Any]:
        found: dict[str, Any] = {"success": False, "code": self.code, "error": self.message}
        if self.rejected is not None:
            found |= {"count": 0, "rejected": self.rejected}
        return found


class Unauthorized(Refusal):
    status, code = 401, "unauthorized"


class Malformed(Refusal):
    status, code = 400, "malformed"


class Conflict(Refusal):
    status, code = 409, "conflict"


class TooLarge(Refusal):
    status, code = 413, "too_large"


class WrongType(Refusal):
    status, code = 415, "unsupported_type"


class TooSlow(Refusal):
    status, code = 408, "too_slow"


class WrongMethod(Refusal):
    status, code = 405, "method_not_allowed"


class TooMany(Refusal):
    status, code = 429, "rate_limited"


class Unavailable(Refusal):
    status, code = 503, "unavailable"

    def __init__(self, message: str, *, retry_after_s: int = 1) -> None:
        super().__init__(message, retry_after_s=retry_after_s)


def describe(error: BaseException) -> str:
    """An unforeseen error for the log: what and where, never its message, which may quote what an agent said."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    where = " < ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in reversed(frames))
    sqlstate = getattr(error, "sqlstate", None)
    return f"error={type(error).__name__} sqlstate={sqlstate or '-'} at={where!r}"
