"""Tell a request for an object of another project from a mistyped address. Both get a 404."""

from __future__ import annotations

from django.http import HttpRequest

from ingest.cells import cells_of
from ingest.models import Project, Session, Trace, Transcript, session_key, trace_key
from viewer.accounts import access

# A span is addressed as `trace:span`, and both ids may contain colons. Each possible trace id is looked up.
_MAX_SPLITS = 8


def is_named_in(request: HttpRequest) -> bool:
    """Return True if the address names an object that exists in a project to which the user has no access."""
    match = request.resolver_match
    if match is None:
        return False
    projects = list(
        Project.objects.exclude(pk__in=list(access.request_grant(request).rights)).values_list("pk", "slug")
    )
    names = {key: str(value) for key, value in match.kwargs.items()}
    if names.get("slug") in {slug for _, slug in projects}:
        return True
    owners = [pk for pk, _ in projects]
    texts = [names[key] for key in ("name", "session", "key", "span") if key in names]
    return any(_has_session(owners, text) or _has_trace(owners, text) for text in texts)


def _has_session(projects: list[int], text: str) -> bool:
    keys = {session_key(project, text) for project in projects}
    # The API names a transcript by the key of its session and its step.
    if (key := access.parse_uuid(text.partition(".")[0])) is not None:
        keys.add(key)
    stored = {"cell__in": cells_of(*projects), "session_key__in": keys}
    return Session.objects.filter(**stored).exists() or Transcript.objects.filter(**stored).exists()


def _has_trace(projects: list[int], span: str) -> bool:
    parts = span.split(":")[:_MAX_SPLITS]
    traces = [":".join(parts[:end]) for end in range(1, len(parts))]
    keys = {trace_key(project, trace) for project in projects for trace in traces}
    return bool(keys) and Trace.objects.filter(cell__in=cells_of(*projects), trace_key__in=keys).exists()
