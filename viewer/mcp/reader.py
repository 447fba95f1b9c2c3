"""The holder of an API token who calls a tool: their rights, and what they see of a session."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404

from ingest import credentials
from ingest.models import Session
from viewer.accounts import access, api_tokens
from viewer.accounts.access import Grant, Right
from viewer.audit import payload_views
from viewer.audit.log import Origin, client_address
from viewer.sessions.session_list import SessionFilter, sessions_page

HIDDEN = "You don't have permission to view payloads, so the text of this session is hidden."
NEEDS_REASON = "This project requires a reason to view payloads. Open the session in the browser and enter one first."


class ToolError(Exception):
    """A problem that the caller of a tool can correct. Its text is the answer."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A token's rights, by project, and its entry in the audit log."""

    grant: Grant
    origin: Origin

    def session(self, name: str) -> Session:
        """Return a session by its id, or the one that changed last if the name is empty."""
        if not name:
            sessions, _ = sessions_page(self.grant.projects(Right.SESSIONS), SessionFilter(), limit=1)
            if not sessions:
                raise ToolError("There are no sessions in your projects.")
            return sessions[0]
        try:
            return access.get_session(self.grant, name)
        except (Http404, PermissionDenied):
            raise ToolError(f"There is no session {name!r} in your projects. Call list_sessions.") from None

    def open_content(self, session: Session, part: str) -> None:
        """Record a view of a session's content, or raise ToolError without the right to it."""
        sight = payload_views.sight_of(self.grant, session)
        if not sight.has_content:
            raise ToolError(NEEDS_REASON if sight.needs_reason else HIDDEN)
        payload_views.record_view_by(self.origin, session, part=part)

    def may_see_content(self, session: Session) -> bool:
        """True if the reader sees the content of a session now."""
        return payload_views.sight_of(self.grant, session).has_content


current_reader: ContextVar[Reader] = ContextVar("mcp_reader")


def authenticate(headers: Mapping[str, str], meta: Mapping[str, Any]) -> Reader | None:
    """Return the reader of a request with `Authorization: Bearer arip_…`, or None if the token is not valid."""
    secret = credentials.bearer_secret(headers.get("authorization", ""))
    token = api_tokens.check(secret) if secret is not None else None
    if token is None:
        return None
    grant = access.grant_of(token.user, token)
    name = token.user.get_username()
    origin = Origin(
        actor_id=token.user.pk,
        actor=f"{name} (token {token.hint}…)",
        address=client_address(meta),
        agent=headers.get("user-agent", ""),
    )
    return Reader(grant, origin)
