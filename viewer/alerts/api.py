"""Alert rules and alerts over REST. Rules are changed on the page."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from viewer.accounts import access
from viewer.alerts.messages import describe_condition
from viewer.alerts.pages import PAGE_SIZE, visible_alerts
from viewer.models import Alert, AlertRule
from viewer.rest import ReadView, next_url, number_of, query_parameter

_MAX_PAGE = 200


class AlertList(ReadView):
    """Alerts of the reader's projects, newest first, with their deliveries."""

    @extend_schema(
        operation_id="alerts",
        parameters=[
            query_parameter("limit", f"Page size, at most {_MAX_PAGE}.", OpenApiTypes.INT),
            query_parameter("before", "Page cursor, taken from `next`.", OpenApiTypes.INT64),
        ],
        responses=inline_serializer(
            "AlertPage",
            {
                "results": inline_serializer(
                    "Alert",
                    {
                        "id": serializers.IntegerField(),
                        "rule": serializers.CharField(),
                        "kind": serializers.ChoiceField(AlertRule.Kind.choices),
                        "project": serializers.CharField(),
                        "title": serializers.CharField(),
                        "fired_at": serializers.DateTimeField(),
                        "is_test": serializers.BooleanField(),
                        "figures": serializers.DictField(child=serializers.IntegerField()),
                        "sessions": serializers.ListField(child=serializers.CharField()),
                        "deliveries": inline_serializer(
                            "AlertDelivery",
                            {
                                "channel": serializers.CharField(),
                                "recipient": serializers.CharField(),
                                "state": serializers.CharField(),
                                "attempts": serializers.IntegerField(),
                                "result": serializers.CharField(),
                            },
                            many=True,
                        ),
                    },
                    many=True,
                ),
                "next": serializers.URLField(allow_null=True),
            },
        ),
    )
    def get(self, request: Request) -> Response:
        limit = max(1, number_of(request, "limit", PAGE_SIZE, most=_MAX_PAGE))
        alerts = visible_alerts(access.request_grant(request).projects(self.right))
        if before := number_of(request, "before", 0):
            alerts = alerts.filter(pk__lt=before)
        page = list(alerts[: limit + 1])
        cursor = page[limit - 1].pk if len(page) > limit else None
        return Response({"results": list(map(_alert_json, page[:limit])), "next": next_url(request, "before", cursor)})


class AlertRuleList(ReadView):
    """Alert rules of the reader's projects. Webhook addresses and secrets are not included."""

    @extend_schema(
        operation_id="alert_rules",
        responses=inline_serializer(
            "AlertRules",
            {
                "results": inline_serializer(
                    "AlertRule",
                    {
                        "id": serializers.IntegerField(),
                        "name": serializers.CharField(),
                        "project": serializers.CharField(),
                        "kind": serializers.ChoiceField(AlertRule.Kind.choices),
                        "condition": serializers.CharField(),
                        "threshold": serializers.IntegerField(),
                        "window_minutes": serializers.IntegerField(),
                        "cooldown_minutes": serializers.IntegerField(),
                        "session_filter": serializers.CharField(),
                        "model_filter": serializers.CharField(),
                        "webhook_host": serializers.CharField(),
                        "emails": serializers.ListField(child=serializers.CharField()),
                        "is_enabled": serializers.BooleanField(),
                        "last_fired_at": serializers.DateTimeField(allow_null=True),
                        "problem": serializers.CharField(),
                    },
                    many=True,
                )
            },
        ),
    )
    def get(self, request: Request) -> Response:
        projects = access.request_grant(request).projects(self.right)
        rules = AlertRule.objects.filter(project_id__in=projects).select_related("project").order_by("project_id", "pk")
        return Response({"results": list(map(_rule_json, rules))})


def _alert_json(alert: Alert) -> dict[str, Any]:
    return {
        "id": alert.pk,
        "rule": alert.rule.name,
        "kind": alert.rule.kind,
        "project": alert.project.slug,
        "title": alert.title,
        "fired_at": alert.fired_at,
        "is_test": alert.is_test,
        "figures": alert.figures,
        "sessions": [entry["id"] for entry in alert.sessions],
        "deliveries": [
            {
                "channel": entry.channel,
                "recipient": entry.recipient,
                "state": entry.state,
                "attempts": entry.attempts,
                "result": entry.result,
            }
            for entry in alert.deliveries.all()
        ],
    }


def _rule_json(rule: AlertRule) -> dict[str, Any]:
    names = (
        *("name", "kind", "threshold", "window_minutes", "cooldown_minutes", "session_filter", "model_filter"),
        *("webhook_host", "emails", "is_enabled", "last_fired_at", "problem"),
    )
    values = {name: getattr(rule, name) for name in names}
    return {"id": rule.pk, "project": rule.project.slug, "condition": describe_condition(rule), **values}
