"""Transcripts and the audit log over REST."""

from __future__ import annotations

import uuid

from django.http import Http404, HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from ingest.models import Transcript
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.audit import downloads, queries
from viewer.audit.anchors.anchor_file import Anchor
from viewer.audit.log import Action
from viewer.audit.queries import AuditFilter, TranscriptFilter
from viewer.audit.verification import ArchiveReport, verify_archive
from viewer.models import AuditEntry
from viewer.rest import BadFilter, ReadView, is_number, next_url, query_parameter

_ID = OpenApiParameter(
    "name",
    OpenApiTypes.STR,
    OpenApiParameter.PATH,
    description="`{session key}.{step}`, the `id` in the list.",
)
_PERIOD = [
    query_parameter("since", "First day or time, such as 2026-01-31 or 2026-01-31T14:05Z."),
    query_parameter("until", "Last day or minute, included."),
]
_LIMIT = query_parameter("limit", f"Page size, at most {queries.MAX_PAGE}.", OpenApiTypes.INT)
_REASON = query_parameter("reason", "Reason of the download. It is recorded in the audit log.")

_MAX_STEP_DIGITS = 9


class TranscriptSerializer(serializers.ModelSerializer[Transcript]):
    """A transcript without its text."""

    id = serializers.SerializerMethodField()
    session = serializers.CharField(source="session_id", read_only=True)
    session_key = serializers.UUIDField(read_only=True)
    redactions = serializers.DictField(child=serializers.IntegerField(), read_only=True)
    download = serializers.SerializerMethodField()

    class Meta:
        model = Transcript
        fields = (
            *("id", "project_id", "session", "session_key", "step", "created_at", "received_at", "message_count"),
            *("size", "sha256", "sent_sha256", "redactions", "chain", "download"),
        )

    def get_id(self, transcript: Transcript) -> str:
        return transcript_id(transcript)

    def get_download(self, transcript: Transcript) -> str:
        return str(
            reverse("api-transcript-download", args=[transcript_id(transcript)], request=self.context.get("request"))
        )


class AnchorSerializer(serializers.Serializer[Anchor]):
    """The newest anchor: everything up to its time is proven."""

    number = serializers.IntegerField()
    time = serializers.DateTimeField(source="until")
    hash = serializers.CharField()


class VerificationSerializer(serializers.Serializer[ArchiveReport]):
    """The result of verifying one session's archive."""

    ok = serializers.SerializerMethodField()
    status = serializers.ChoiceField(["anchored", "not_anchored", "failed"])
    stored = serializers.IntegerField(source="session.stored")
    deleted = serializers.IntegerField(source="session.deleted")
    head = serializers.CharField(source="session.head")
    faults = serializers.ListField(child=serializers.CharField(), source="problems")
    anchor = AnchorSerializer(source="anchors.state.anchor", allow_null=True)
    message = serializers.CharField(source="sentence")

    def get_ok(self, result: ArchiveReport) -> bool:
        return not result.problems


class AuditSerializer(serializers.ModelSerializer[AuditEntry]):
    detail = serializers.DictField(read_only=True)

    class Meta:
        model = AuditEntry
        fields = (
            *("position", "at", "actor_id", "actor", "address", "agent", "action", "outcome", "project_id"),
            *("target", "reason", "detail", "previous", "hash"),
        )


def transcript_id(transcript: Transcript) -> str:
    return f"{transcript.session_key}.{transcript.step}"


class ArchiveView(ReadView):
    right = Right.TRANSCRIPTS

    def get_transcript(self, request: Request, name: str) -> Transcript:
        key, _, step = name.partition(".")
        if not is_number(step) or len(step) > _MAX_STEP_DIGITS:
            raise Http404
        try:
            return access.get_transcript(access.request_grant(request), uuid.UUID(key), int(step))
        except ValueError:
            raise Http404 from None

    def limit(self, request: Request) -> int:
        text = request.query_params.get("limit", "")
        if not text:
            return queries.PAGE_SIZE
        limit = int(text) if is_number(text) else 0
        if not 1 <= limit <= queries.MAX_PAGE:
            raise BadFilter("limit", f"Enter a number from 1 to {queries.MAX_PAGE}.")
        return limit


class TranscriptList(ArchiveView):
    """Archived transcripts, newest first."""

    @extend_schema(
        operation_id="transcripts",
        parameters=[
            query_parameter("q", "Text in the session id."),
            *_PERIOD,
            _LIMIT,
            query_parameter("before", "Page cursor, taken from `next`."),
        ],
        responses=inline_serializer(
            "TranscriptPage",
            {"results": TranscriptSerializer(many=True), "next": serializers.URLField(allow_null=True)},
        ),
    )
    def get(self, request: Request) -> Response:
        filters = TranscriptFilter.from_query(request.query_params)
        projects = access.request_grant(request).projects(self.right)
        page, cursor = queries.transcripts_page(projects, filters, limit=self.limit(request))
        results = TranscriptSerializer(page, many=True, context={"request": request}).data
        return Response({"results": results, "next": next_url(request, "before", cursor)})


class TranscriptDetail(ArchiveView):
    """One archived transcript, without its text."""

    @extend_schema(operation_id="transcript", parameters=[_ID], responses=TranscriptSerializer)
    def get(self, request: Request, name: str) -> Response:
        return Response(TranscriptSerializer(self.get_transcript(request, name), context={"request": request}).data)


class TranscriptDownload(ArchiveView):
    """The transcript as JSONL, redacted with the current rules. Supports `Range`. Downloads are logged."""

    @extend_schema(
        operation_id="transcript_download",
        parameters=[_ID, _REASON],
        responses={
            (200, "application/x-ndjson"): OpenApiTypes.BINARY,
            (206, "application/x-ndjson"): OpenApiTypes.BINARY,
        },
    )
    def get(self, request: Request, name: str) -> HttpResponseBase:
        return downloads.send_transcript(request, self.get_transcript(request, name))


class TranscriptBundle(ArchiveView):
    """A signed bundle of transcript, summary, plan, ledger and hash chain. Downloads are logged."""

    @extend_schema(
        operation_id="transcript_bundle",
        parameters=[_ID, _REASON],
        responses={(200, "application/zip"): OpenApiTypes.BINARY, (206, "application/zip"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, name: str) -> HttpResponseBase:
        return downloads.send_bundle(request, self.get_transcript(request, name))


class TranscriptVerify(ArchiveView):
    """Recompute the archive of the transcript's session and list all problems."""

    @extend_schema(operation_id="transcript_verify", parameters=[_ID], request=None, responses=VerificationSerializer)
    def post(self, request: Request, name: str) -> Response:
        result = verify_archive(request, self.get_transcript(request, name))
        return Response(VerificationSerializer(result).data)


class AuditList(ArchiveView):
    """Audit entries of the projects that you may audit, newest first."""

    right = Right.AUDIT

    @extend_schema(
        operation_id="audit",
        parameters=[
            query_parameter("q", "Text in target, reason, address or actor."),
            query_parameter("actor", "Start of the actor's name."),
            query_parameter("session", "Session id or key."),
            OpenApiParameter("action", OpenApiTypes.STR, OpenApiParameter.QUERY, enum=[*Action]),
            OpenApiParameter("outcome", OpenApiTypes.STR, OpenApiParameter.QUERY, enum=AuditEntry.Outcome.values),
            *_PERIOD,
            _LIMIT,
            query_parameter("before", "Page cursor, taken from `next`.", OpenApiTypes.INT64),
        ],
        responses=inline_serializer(
            "AuditPage", {"results": AuditSerializer(many=True), "next": serializers.URLField(allow_null=True)}
        ),
    )
    def get(self, request: Request) -> Response:
        filters = AuditFilter.from_query(request.query_params)
        page, cursor = queries.audit_page(access.request_grant(request), filters, limit=self.limit(request))
        results = AuditSerializer(page, many=True).data
        return Response({"results": results, "next": next_url(request, "before", cursor)})
