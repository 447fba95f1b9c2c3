"""JSON of sessions, spans and checks. None of it contains payloads. Spans are as their reader sees them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, get_args

from compact.events.reading import Outcome
from drf_spectacular.utils import inline_serializer
from rest_framework import serializers

from ingest.decoding.facts import FactCount
from ingest.decoding.labels import LABEL_KEYS
from ingest.models import Session
from ingest.storage.figures.table import STORED
from viewer.numbers import to_milliseconds
from viewer.sessions.checks import Check
from viewer.sessions.descriptions import describe_check, describe_span
from viewer.sessions.spans import SpanRow
from viewer.visibility.public_parts import hidden_fields

_FIGURES = {figure.column: figure.definition for figure in STORED if figure.label}
"""The columns of figures that pages show, with their definitions."""


class SessionSerializer(serializers.ModelSerializer[Session]):
    """A row of the session list."""

    id = serializers.CharField(source="session_id", read_only=True)
    key = serializers.UUIDField(source="session_key", read_only=True)
    seq = serializers.IntegerField(source="last_seq", read_only=True)
    is_running = serializers.SerializerMethodField()

    class Meta:
        model = Session
        fields = [
            "id",
            "key",
            "project_id",
            "seq",
            "created_at",
            "is_running",
            *_FIGURES,
        ]
        extra_kwargs = {column: {"help_text": definition} for column, definition in _FIGURES.items()}

    def get_is_running(self, session: Session) -> bool:
        return session.running_count > 0


class LabeledSession(SessionSerializer):
    """A session with its environments, users, tags and services, as far as the reader sees them."""

    labels = inline_serializer(
        "SessionLabels", {kind: serializers.ListField(child=serializers.CharField()) for kind in LABEL_KEYS}
    )

    class Meta(SessionSerializer.Meta):
        fields = [*SessionSerializer.Meta.fields, "labels"]


# An inline serializer, because a field called `data` in a class would shadow the serializer's own attribute.
SpanSchema = inline_serializer(
    "Span",
    {
        "id": serializers.CharField(help_text="trace_id:span_id"),
        "trace_id": serializers.CharField(),
        "span_id": serializers.CharField(),
        "parent_id": serializers.CharField(allow_null=True),
        "kind": serializers.CharField(),
        "name": serializers.CharField(),
        "status": serializers.CharField(),
        "started_at": serializers.DateTimeField(allow_null=True),
        "ended_at": serializers.DateTimeField(allow_null=True),
        "tokens": serializers.IntegerField(allow_null=True),
        "seq": serializers.IntegerField(),
        "data": serializers.DictField(),
        "hidden": serializers.ListField(
            child=serializers.CharField(),
            help_text="Fields that contain `[hidden]`, because you may not view payloads.",
        ),
    },
)


TreeSchema = inline_serializer(
    "Tree",
    {
        "seq": serializers.IntegerField(),
        "traces": serializers.ListField(child=serializers.DictField()),
        "spans": inline_serializer(
            "TreeColumns",
            {
                "trace": serializers.ListField(child=serializers.CharField(), allow_null=True),
                "id": serializers.ListField(child=serializers.CharField()),
                "parent": serializers.ListField(child=serializers.CharField(allow_null=True)),
                "kind": serializers.ListField(child=serializers.CharField()),
                "name": serializers.ListField(child=serializers.CharField()),
                "status": serializers.ListField(child=serializers.CharField()),
                "start": serializers.ListField(child=serializers.IntegerField(allow_null=True)),
                "end": serializers.ListField(child=serializers.IntegerField(allow_null=True)),
                "tokens": serializers.ListField(child=serializers.IntegerField(allow_null=True)),
            },
        ),
    },
)


class FactCountSerializer(serializers.Serializer[FactCount]):
    """Facts of one kind."""

    total = serializers.IntegerField()
    kept = serializers.IntegerField()


class CheckSerializer(serializers.Serializer[Check]):
    """One check: the parts of the prompt, its limits, and the result."""

    id = serializers.CharField(source="key")
    span = serializers.CharField(source="lead.key")
    turn = serializers.IntegerField(allow_null=True)
    step = serializers.IntegerField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    trigger = serializers.CharField()
    outcome = serializers.ChoiceField(
        choices=get_args(Outcome),
        help_text="`futile`: the trigger was reached, but there was nothing to gain. `running`: it started, and no "
        "event has reported its result.",
    )
    is_compaction = serializers.BooleanField(help_text="Counts as a compaction: messages left the prompt.")
    is_recovery = serializers.BooleanField()
    is_call = serializers.BooleanField()
    is_running = serializers.BooleanField()
    has_failed = serializers.BooleanField()
    before = serializers.IntegerField()
    after = serializers.IntegerField(allow_null=True)
    window = serializers.IntegerField()
    trigger_tokens = serializers.IntegerField()
    cap_tokens = serializers.IntegerField()
    margin = serializers.IntegerField(allow_null=True)
    parts = serializers.ListField(child=serializers.IntegerField())
    after_parts = serializers.ListField(child=serializers.IntegerField(), allow_null=True)
    after_is_derived = serializers.BooleanField()
    fates = serializers.DictField(child=serializers.IntegerField())
    pruned_count = serializers.IntegerField()
    facts_total = serializers.IntegerField(allow_null=True)
    facts_kept = serializers.IntegerField(allow_null=True)
    facts_by_kind = serializers.DictField(
        child=FactCountSerializer(),
        help_text="The same counts for goals, constraints, decisions, open items, files, ids, numbers and paths.",
    )
    weighted_retention = serializers.FloatField(
        allow_null=True, help_text="The client's own share. Facts that only a tool showed weigh less."
    )
    is_lossy = serializers.BooleanField(help_text="Less than 90% of the facts were kept.")
    fallback = serializers.CharField()
    recovered_errors = serializers.ListField(
        child=serializers.CharField(),
        help_text="Error spans after which a fallback was used. The error count of the session leaves them out.",
    )
    sentence = serializers.SerializerMethodField()

    def get_sentence(self, check: Check) -> str:
        return describe_check(check)


def check_json(check: Check) -> dict[str, Any]:
    """Return the fields of `CheckSerializer`. A session may have thousands of checks, and DRF takes 0.2 ms for each."""
    return {
        "id": check.key,
        "span": check.lead.key,
        "turn": check.turn,
        "step": check.step,
        "started_at": _iso(check.started_at),
        "ended_at": _iso(check.ended_at),
        "trigger": check.trigger,
        "outcome": check.outcome,
        "is_compaction": check.is_compaction,
        "is_recovery": check.is_recovery,
        "is_call": check.is_call,
        "is_running": check.is_running,
        "has_failed": check.has_failed,
        "before": check.before,
        "after": check.after,
        "window": check.window,
        "trigger_tokens": check.trigger_tokens,
        "cap_tokens": check.cap_tokens,
        "margin": check.margin,
        "parts": check.parts,
        "after_parts": check.after_parts,
        "after_is_derived": check.after_is_derived,
        "fates": check.fates,
        "pruned_count": check.pruned_count,
        "facts_total": check.facts_total,
        "facts_kept": check.facts_kept,
        "facts_by_kind": {kind: facts._asdict() for kind, facts in check.facts_by_kind.items()},
        "weighted_retention": check.weighted_retention,
        "is_lossy": check.is_lossy,
        "fallback": check.fallback,
        "recovered_errors": check.recovered_errors,
        "sentence": describe_check(check),
    }


def span_json(span: SpanRow) -> dict[str, Any]:
    """A span without its payload."""
    return {
        "id": span.key,
        "trace_id": span.trace_id,
        "span_id": span.span_id,
        "parent_id": span.parent_id,
        "kind": span.kind,
        "name": span.name,
        "status": span.status,
        "started_at": _iso(span.started_at),
        "ended_at": _iso(span.ended_at),
        "tokens": span.tokens,
        "seq": span.seq,
        "data": span.data,
        "hidden": hidden_fields({"name": span.name, "kind": span.kind, "data": span.data}),
    }


def session_json(session: Session) -> dict[str, Any]:
    """Return the fields of `SessionSerializer` for websocket frames."""
    return dict(SessionSerializer(session).data)


def columns(spans: Iterable[SpanRow]) -> dict[str, list[Any]]:
    """Return spans without data as columns, which is how the browser stores them."""
    result: dict[str, list[Any]] = {
        name: [] for name in ("trace", "id", "parent", "kind", "name", "status", "start", "end", "tokens")
    }
    for span in spans:
        result["trace"].append(span.trace_id)
        result["id"].append(span.span_id)
        result["parent"].append(span.parent_id)
        result["kind"].append(span.kind)
        result["name"].append(span.name[:200])
        result["status"].append(span.status)
        result["start"].append(to_milliseconds(span.started_at))
        result["end"].append(to_milliseconds(span.ended_at))
        result["tokens"].append(span.tokens)
    return result


def event_json(session: Session, span: SpanRow) -> dict[str, Any]:
    """Return an event of the tail."""
    return {
        "seq": span.seq,
        "session": session.session_id,
        "session_key": str(session.session_key),
        "trace": span.trace_id,
        "id": span.span_id,
        "parent": span.parent_id,
        "kind": span.kind,
        "name": span.name[:200],
        "status": span.status,
        "at": to_milliseconds(span.ended_at or span.started_at),
        "start": to_milliseconds(span.started_at),
        "end": to_milliseconds(span.ended_at),
        "tokens": span.tokens,
        "text": describe_span(span)[:500],
    }


def _iso(time: datetime | None) -> str | None:
    return time.isoformat().replace("+00:00", "Z") if time else None
