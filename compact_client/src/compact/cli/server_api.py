"""Read from an Ariadne server over REST, with an API token."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import quote

import httpx

from compact.cli import exit_codes
from compact.delivery.endpoint import LOCAL_URL
from compact.importers.uncompaction import LostItem, items_from_facts, rank_items

_TIMEOUT_S = 15.0
_MAX_SESSIONS = 50


class ServerApi:
    """Reads sessions, compactions and search results of the projects that the token can see."""

    def __init__(self, url: str | None, token: str | None) -> None:
        secret = token or os.environ.get("ARIADNE_API_TOKEN")
        if not secret:
            message = "An API token is missing. Pass --token or set ARIADNE_API_TOKEN. Create one under /tokens/."
            raise exit_codes.Stop(exit_codes.USAGE, message)
        base = (url or LOCAL_URL).rstrip("/").removesuffix("/ingest")
        self._client = httpx.Client(
            base_url=f"{base}/api/", headers={"Authorization": f"Bearer {secret}"}, timeout=_TIMEOUT_S
        )

    def newest_compacted_session(self) -> str:
        """Return the session that changed last among those with a compaction."""
        sessions = self._get("sessions/", limit=_MAX_SESSIONS)["results"]
        for session in sessions:
            if session.get("compaction_count"):
                return str(session["id"])
        raise exit_codes.Stop(exit_codes.UNREADABLE, "None of the newest sessions has a compaction. Name a session.")

    def lost_items(self, session: str, *, last: int) -> tuple[list[LostItem], list[str]]:
        """Return what the last compactions of a session dropped, and notes for the reader."""
        rows = self._get(f"sessions/{quote(session, safe='')}/compactions/")["results"]
        if not rows:
            return [], ["The session has no compaction, so nothing was dropped."]
        items: list[LostItem] = []
        for row in rows[-last:] if last else rows:
            if "facts_lost" in row:
                items += items_from_facts(row["facts_lost"], row["n"], row.get("started_at"))
        has_hidden_facts = not any("facts_lost" in row for row in rows) and any(_lost_count(row) for row in rows)
        notes = (
            ["You don't have permission to view payloads, so the lost facts are hidden."] if has_hidden_facts else []
        )
        return rank_items(items), notes

    def search(self, query: str, *, session: str, limit: int) -> list[dict[str, Any]]:
        """Return the parts of a session that match a query."""
        results: list[dict[str, Any]] = self._get("search/", q=query, session=session, limit=limit)["results"]
        return results

    def _get(self, path: str, **query: Any) -> dict[str, Any]:
        try:
            answer = self._client.get(path, params=query)
            answer.raise_for_status()
            document: dict[str, Any] = answer.json()
        except httpx.HTTPStatusError as error:
            raise exit_codes.Stop(exit_codes.UNREACHABLE, _explain(error.response)) from None
        except (httpx.HTTPError, ValueError) as error:
            message = f"Can't reach {self._client.base_url}: {error}"
            raise exit_codes.Stop(exit_codes.UNREACHABLE, message) from None
        return document


def _lost_count(row: dict[str, Any]) -> int:
    return int(row.get("facts_total") or 0) - int(row.get("facts_kept") or 0)


def _explain(response: httpx.Response) -> str:
    if response.status_code in (401, 403):
        return f"The server rejected the token (HTTP {response.status_code})."
    if response.status_code == 404:
        return "The server has no such session in your projects."
    return f"The server answered with HTTP {response.status_code}."
