"""Transcripts and the audit log over REST. Each view asks `access`, then `archive_queries`, then answers."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import Http404, HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse
from rest_framework.views import APIView

from ingest.archive import verification
from ingest.models import Transcript
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.audit import downloads, log, queries
from viewer.audit.log import Action
from viewer.audit.queries import AuditFilter, BadFilter, TranscriptFilter
from viewer.models import AuditEntry
from viewer.sessions.api import next_address


def _query(name: str, description: str, kind: Any = OpenApiTypes.STR) -> OpenApiParameter:
    return OpenApiParameter(name, kind, OpenApiParameter.QUERY, description=description)


_ID = OpenApiParameter(
    "name",
    OpenApiTypes.STR,
    OpenApiParameter.PATH,
    description="`{session key}.{step}`, the `id` of the list",
)
_PERIOD = [_query("since", "first day", OpenApiTypes.DATE), _query("until", "last day", OpenApiTypes.DATE)]
_LIMIT = _query("limit", f"at most {queries.MAX_PAGE}", OpenApiTypes.INT)
_REASON = _query("reason", "why; kept in the audit log")


class TranscriptSerializer(serializers.ModelSerializer[Transcript]):
    """What is known of a transcript, without its text."""

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
        return name_of(transcript)

    def get_download(self, transcript: Transcript) -> str:
        return str(reverse("api-transcript-download", args=[name_of(transcript)], request=self.context.get("request")))


class FindingSerializer(serializers.Serializer[verification.Verification]):
    """What a check of one session's archive found."""

    ok = serializers.SerializerMethodField()
    stored = serializers.IntegerField()
    deleted = serializers.IntegerField()
    head = serializers.CharField()
    faults = serializers.ListField(child=serializers.CharField())

    def get_ok(self, finding: verification.Verification) -> bool:
        return not finding.faults


class AuditSerializer(serializers.ModelSerializer[AuditEntry]):
    detail = serializers.DictField(read_only=True)

    class Meta:
        model = AuditEntry
        fields = (
            *("position", "at", "actor_id", "actor", "address", "agent", "action", "outcome", "project_id"),
            *("target", "reason", "detail", "previous", "hash"),
        )


def name_of(transcript: Transcript) -> str:
    return f"{transcript.session_key}.{transcript.step}"


class ArchiveView(APIView):
    permission_classes = (access.Needs,)
    right = Right.TRANSCRIPTS

    def handle_exception(self, exc: Exception) -> Response:
        if isinstance(exc, BadFilter):
            exc = ValidationError({exc.name: exc.message})
        return super().handle_exception(exc)

    def transcript(self, request: Request, name: str) -> Transcript:
        key, _, step = name.partition(".")
        if not step.isascii() or not step.isdigit() or len(step) > 9:
            raise Http404
        try:
            return access.transcript(access.grant(request), uuid.UUID(key), int(step))
        except ValueError:
            raise Http404 from None

    def limit(self, request: Request) -> int:
        text = request.query_params.get("limit", "")
        if not text:
            return queries.PAGE
        limit = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
        if not 1 <= limit <= queries.MAX_PAGE:
            raise BadFilter("limit", f"is 1 to {queries.MAX_PAGE}")
        return limit


class TranscriptList(ArchiveView):
    """Archived transcripts, newest first."""

    @extend_schema(
        operation_id="transcripts",
        parameters=[
            _query("q", "text in the session id"),
            *_PERIOD,
            _LIMIT,
            _query("before", "where the page begins; `next` has it"),
        ],
        responses=inline_serializer(
            "TranscriptPage",
            {"results": TranscriptSerializer(many=True), "next": serializers.URLField(allow_null=True)},
        ),
    )
    def get(self, request: Request) -> Response:
        wanted = TranscriptFilter.from_query(request.query_params)
        projects = access.grant(request).projects(self.right)
        page, more = queries.transcripts_page(projects, wanted, limit=self.limit(request))
        results = TranscriptSerializer(page, many=True, context={"request": request}).data
        return Response({"results": results, "next": next_address(request, "before", more)})


class TranscriptDetail(ArchiveView):
    """One archived transcript, without its text."""

    @extend_schema(operation_id="transcript", parameters=[_ID], responses=TranscriptSerializer)
    def get(self, request: Request, name: str) -> Response:
        return Response(TranscriptSerializer(self.transcript(request, name), context={"request": request}).data)


class TranscriptDownload(ArchiveView):
    """The transcript as JSONL, redacted again with today's rules. `Range` is honoured; the download is logged."""

    @extend_schema(
        operation_id="transcript_download",
        parameters=[_ID, _REASON],
        responses={
            (200, "application/x-ndjson"): OpenApiTypes.BINARY,
            (206, "application/x-ndjson"): OpenApiTypes.BINARY,
        },
    )
    def get(self, request: Request, name: str) -> HttpResponseBase:
        return downloads.send_transcript(request, self.transcript(request, name))


class TranscriptBundle(ArchiveView):
    """A signed bundle: transcript, summary, plan, ledger, chain, manifest, signature. The download is logged."""

    @extend_schema(
        operation_id="transcript_bundle",
        parameters=[_ID, _REASON],
        responses={(200, "application/zip"): OpenApiTypes.BINARY, (206, "application/zip"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, name: str) -> HttpResponseBase:
        return downloads.send_bundle(request, self.transcript(request, name))


class TranscriptVerify(ArchiveView):
    """Recompute the whole archive of the transcript's session and say what does not fit."""

    @extend_schema(operation_id="transcript_verify", parameters=[_ID], request=None, responses=FindingSerializer)
    def post(self, request: Request, name: str) -> Response:
        transcript = self.transcript(request, name)
        finding = verification.verify_session(transcript.session_key)
        log.record(
            request,
            Action.ARCHIVE_VERIFY,
            project_id=transcript.project_id,
            target=transcript.session_id,
            faults=len(finding.faults),
        )
        return Response(FindingSerializer(finding).data)


class AuditList(ArchiveView):
    """The audit log of the projects one audits, newest first."""

    right = Right.AUDIT

    @extend_schema(
        operation_id="audit",
        parameters=[
            _query("q", "text in target, reason, address or actor"),
            _query("actor", "beginning of the actor's name"),
            OpenApiParameter("action", OpenApiTypes.STR, OpenApiParameter.QUERY, enum=[*Action]),
            OpenApiParameter("outcome", OpenApiTypes.STR, OpenApiParameter.QUERY, enum=AuditEntry.Outcome.values),
            *_PERIOD,
            _LIMIT,
            _query("before", "where the page begins; `next` has it", OpenApiTypes.INT64),
        ],
        responses=inline_serializer(
            "AuditPage", {"results": AuditSerializer(many=True), "next": serializers.URLField(allow_null=True)}
        ),
    )
    def get(self, request: Request) -> Response:
        wanted = AuditFilter.from_query(request.query_params)
        page, more = queries.audit_page(access.grant(request), wanted, limit=self.limit(request))
        results = AuditSerializer(page, many=True).data
        return Response({"results": results, "next": next_address(request, "before", more)})
