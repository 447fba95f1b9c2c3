"""Hide secrets again on arrival, whatever the client did: the same patterns, applied to everything that is stored.

Until `compact.redaction` is there, nothing is hidden.
"""

from __future__ import annotations

from ingest.events import Span, Trace


def redact(records: list[Span | Trace]) -> int:
    """Hide secrets in `records`, in place; how many held one."""
    return 0
