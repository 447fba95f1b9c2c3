"""Login sessions in the database, of which none lasts longer than `SESSION_COOKIE_AGE` from now.

Django stores the time at which a login ends. One that was made while the clock was ahead would last until that time.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.sessions.backends import db

from ingest.clock_tolerance import latest_time


class SessionStore(db.SessionStore):
    def _get_session_from_db(self) -> Any:
        return self._unless_too_long(super()._get_session_from_db())  # type: ignore[misc]

    async def _aget_session_from_db(self) -> Any:
        return self._unless_too_long(await super()._aget_session_from_db())  # type: ignore[misc]

    def _unless_too_long(self, session: Any) -> Any:
        """Return a session, or None for one that ends too late, as Django does for one that has ended."""
        lifetime = timedelta(seconds=self.get_session_cookie_age())
        if session is None or session.expire_date <= latest_time() + lifetime:
            return session
        self._session_key = None
        return None
