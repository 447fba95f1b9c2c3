"""Every address of the server with the right it needs, for tests of access. A test fails if one is missing."""

from __future__ import annotations

from dataclasses import dataclass

from viewer.accounts.access import Right

SAFE = frozenset({"GET", "HEAD"})
OPEN, LOGIN, SUPERUSER = "open", "login", "superuser"


@dataclass(frozen=True)
class Route:
    """An address, the right it needs, and its methods. `has_object` is True if it names an object of a project."""

    path: str
    right: Right | str
    methods: frozenset[str] = SAFE
    has_object: bool = False


POST, BOTH = frozenset({"POST"}), SAFE | {"POST"}
ROUTES = {
    "session-list": Route("/", Right.SESSIONS),
    "session-detail": Route("/sessions/{session}/", Right.SESSIONS, has_object=True),
    "inspector": Route("/sessions/{session}/inspector/?span={span}", Right.SESSIONS, has_object=True),
    "lines": Route("/sessions/{session}/lines/?span={span}", Right.SESSIONS, has_object=True),
    "payload": Route("/sessions/{session}/payload/?span={span}", Right.PAYLOAD, has_object=True),
    "payload-access": Route("/sessions/{session}/payload/access/", Right.PAYLOAD, POST, has_object=True),
    "compaction-detail": Route("/sessions/{session}/compactions/1/", Right.SESSIONS, has_object=True),
    "compaction-of-span": Route("/sessions/{session}/compactions/of/{span}/", Right.SESSIONS, has_object=True),
    "what-if": Route("/sessions/{session}/compactions/1/what-if/", Right.SESSIONS, has_object=True),
    "ledger-previews": Route("/sessions/{session}/compactions/1/messages/", Right.PAYLOAD, has_object=True),
    "rework": Route("/sessions/{session}/compactions/1/regrets/", Right.SESSIONS, has_object=True),
    "ledger-file": Route("/sessions/{session}/compactions/1/ledger.csv", Right.SESSIONS, has_object=True),
    "message": Route("/sessions/{session}/messages/00/", Right.PAYLOAD, has_object=True),
    "tail": Route("/tail/", Right.TAIL),
    "compare": Route("/compare/", Right.SESSIONS),
    "transcript-list": Route("/transcripts/", Right.TRANSCRIPTS),
    "transcript-detail": Route("/transcripts/{key}/1/", Right.TRANSCRIPTS, has_object=True),
    "transcript-download": Route("/transcripts/{key}/1/download/", Right.TRANSCRIPTS, has_object=True),
    "transcript-verify": Route("/transcripts/{key}/1/verify/", Right.TRANSCRIPTS, POST, has_object=True),
    "transcript-delete": Route("/transcripts/{key}/1/delete/", Right.MANAGE, POST, has_object=True),
    "audit-log": Route("/audit/", Right.AUDIT),
    "audit-csv": Route("/audit/csv/", Right.AUDIT),
    "audit-json": Route("/audit/json/", Right.AUDIT),
    "audit-verify": Route("/audit/verify/", Right.AUDIT, POST),
    "key-list": Route("/keys/", Right.KEYS, BOTH),
    "project-list": Route("/projects/", Right.MANAGE),
    "project-detail": Route("/projects/ours/", Right.MANAGE, has_object=True),
    "project-keep": Route("/projects/ours/keep/", Right.MANAGE, POST, has_object=True),
    "redaction-rules": Route("/projects/ours/redaction/", Right.MANAGE, has_object=True),
    "redaction-add": Route("/projects/ours/redaction/add/", Right.MANAGE, POST, has_object=True),
    "redaction-try": Route("/projects/ours/redaction/try/", Right.MANAGE, POST, has_object=True),
    "member-add": Route("/projects/ours/members/", Right.MANAGE, POST, has_object=True),
    "alert-list": Route("/alerts/", Right.SESSIONS),
    "alert-new": Route("/alerts/new/", Right.KEYS, BOTH),
    "comments": Route("/sessions/{session}/comments/", Right.SESSIONS, BOTH, has_object=True),
    "bookmark": Route("/sessions/{session}/bookmark/", Right.SESSIONS, POST, has_object=True),
    "mention-list": Route("/mentions/", Right.SESSIONS),
    "mentions-read": Route("/mentions/read/", Right.SESSIONS, POST),
    "bookmark-list": Route("/bookmarks/", Right.SESSIONS),
    "session-cost": Route("/sessions/{session}/cost/", Right.SESSIONS, has_object=True),
    "project-prices": Route("/projects/ours/prices/", Right.SESSIONS, has_object=True),
    "price-save": Route("/projects/ours/prices/save/", Right.MANAGE, POST, has_object=True),
    "price-delete": Route("/projects/ours/prices/delete/", Right.MANAGE, POST, has_object=True),
    "server-status": Route("/status/", SUPERUSER),
    "token-list": Route("/tokens/", LOGIN, BOTH),
    "signing-key": Route("/.well-known/ariadne-signing-key", OPEN),
    "login": Route("/login/", OPEN, BOTH),
    "logout": Route("/logout/", OPEN, POST),
    "schema": Route("/api/schema/", OPEN),
    "api-sessions": Route("/api/sessions/", Right.SESSIONS),
    "api-session": Route("/api/sessions/{session}/", Right.SESSIONS, has_object=True),
    "api-spans": Route("/api/sessions/{session}/spans/", Right.SESSIONS, has_object=True),
    "api-tree": Route("/api/sessions/{session}/tree/", Right.SESSIONS, has_object=True),
    "api-tokens": Route("/api/sessions/{session}/tokens/", Right.SESSIONS, has_object=True),
    "api-compactions": Route("/api/sessions/{session}/compactions/", Right.SESSIONS, has_object=True),
    "api-session-cost": Route("/api/sessions/{session}/cost/", Right.SESSIONS, has_object=True),
    "api-alerts": Route("/api/alerts/", Right.SESSIONS),
    "api-people": Route("/api/sessions/{session}/people/", Right.SESSIONS, has_object=True),
    "api-mentions": Route("/api/mentions/", Right.SESSIONS),
    "api-bookmarks": Route("/api/bookmarks/", Right.SESSIONS),
    "api-prices": Route("/api/prices/", Right.SESSIONS),
    "api-span": Route("/api/spans/{span}/", Right.SESSIONS, has_object=True),
    "trends": Route("/trends/", Right.SESSIONS),
    "api-trends": Route("/api/trends/", Right.SESSIONS),
    "api-trend-sessions": Route("/api/trends/sessions/", Right.SESSIONS),
    "api-search": Route("/api/search/?q=guarded", Right.SESSIONS),
    "api-transcripts": Route("/api/transcripts/", Right.TRANSCRIPTS),
    "api-transcript": Route("/api/transcripts/{key}.1/", Right.TRANSCRIPTS, has_object=True),
    "api-transcript-download": Route("/api/transcripts/{key}.1/download/", Right.TRANSCRIPTS, has_object=True),
    "api-transcript-bundle": Route("/api/transcripts/{key}.1/bundle/", Right.TRANSCRIPTS, has_object=True),
    "api-transcript-verify": Route("/api/transcripts/{key}.1/verify/", Right.TRANSCRIPTS, POST, has_object=True),
    "api-audit": Route("/api/audit/", Right.AUDIT),
}
