"""Alert rules and alerts over REST. API tokens can only read."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS
from django.http import Http404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from ingest.models import Project
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.alerts import rules
from viewer.alerts.messages import describe_condition
from viewer.alerts.pages import PAGE_SIZE, visible_alerts
from viewer.alerts.rule_form import RuleForm, initial_values
from viewer.models import Alert, AlertRule
from viewer.rest import ReadView, next_url, number_of, query_parameter

_MAX_PAGE = 200
_RULE_FIELDS: dict[str, serializers.Field[Any, Any, Any, Any]] = {
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
}
_RULE = inline_serializer("AlertRule", _RULE_FIELDS)
_SAVED = inline_serializer(
    "SavedAlertRule",
    {
        **_RULE_FIELDS,
        "webhook_secret": serializers.CharField(
            allow_null=True, required=False, help_text="The signing secret of a new webhook address, shown once."
        ),
    },
)


def _writable(*, is_new: bool) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
    """Return the fields that a request may contain. An empty webhook address keeps the stored one."""
    return {
        "name": serializers.CharField(required=is_new),
        "kind": serializers.ChoiceField(AlertRule.Kind.choices, required=is_new),
        "threshold": serializers.IntegerField(required=is_new),
        "window_minutes": serializers.IntegerField(required=False),
        "cooldown_minutes": serializers.IntegerField(required=False),
        "session_filter": serializers.CharField(required=False),
        "model_filter": serializers.CharField(required=False),
        "webhook_url": serializers.CharField(required=False, write_only=True),
        "removes_webhook": serializers.BooleanField(required=False, write_only=True),
        "emails": serializers.ListField(child=serializers.CharField(), required=False),
        "includes_content": serializers.BooleanField(required=False),
    }


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
            alerts = alerts.filter(id__lt=before)
        page = list(alerts[: limit + 1])
        cursor = page[limit - 1].id if len(page) > limit else None
        return Response({"results": list(map(_alert_json, page[:limit])), "next": next_url(request, "before", cursor)})


class AlertRuleList(ReadView):
    """Alert rules of the reader's projects. Webhook addresses and secrets are not included."""

    @extend_schema(
        operation_id="alert_rules",
        responses=inline_serializer("AlertRules", {"results": serializers.ListField(child=_RULE)}),
    )
    def get(self, request: Request) -> Response:
        projects = access.request_grant(request).projects(self.right)
        stored = AlertRule.objects.filter(project_id__in=projects).select_related("project")
        return Response({"results": list(map(_rule_json, stored.order_by("project_id", "pk")))})

    @extend_schema(
        operation_id="alert_rule_create",
        request=inline_serializer("NewAlertRule", {"project": serializers.CharField(), **_writable(is_new=True)}),
        responses={201: _SAVED},
    )
    def post(self, request: Request) -> Response:
        grant = access.request_grant(request)
        values = _values(request)
        project = Project.objects.filter(slug=str(values.get("project", "")), pk__in=list(grant.rights)).first()
        if project is None:
            raise ValidationError({"project": "There is no such project."})
        grant.require(Right.KEYS, project.pk)
        defaults = {name: field.initial for name, field in RuleForm.base_fields.items() if field.initial is not None}
        form = rules.new_form(_form_values(defaults | values), grant, project)
        return _save(request, project, AlertRule(), form, status.HTTP_201_CREATED)


class AlertRuleDetail(ReadView):
    """One alert rule. Its owner and admins change it."""

    @extend_schema(operation_id="alert_rule", responses=_RULE)
    def get(self, request: Request, pk: int) -> Response:
        projects = access.request_grant(request).projects(self.right)
        rule = AlertRule.objects.filter(project_id__in=projects, pk=pk).select_related("project").first()
        if rule is None:
            raise Http404
        return Response(_rule_json(rule))

    @extend_schema(
        operation_id="alert_rule_update",
        request=inline_serializer(
            "AlertRuleChange", {**_writable(is_new=False), "is_enabled": serializers.BooleanField(required=False)}
        ),
        responses=_SAVED,
    )
    def patch(self, request: Request, pk: int) -> Response:
        rule = rules.get_rule(access.request_grant(request), pk)
        values = _values(request)
        is_enabled = values.pop("is_enabled", rule.is_enabled)
        if not isinstance(is_enabled, bool):
            raise ValidationError({"is_enabled": "Enter true or false."})
        answer = Response(_rule_json(rule))
        if values:
            form = rules.change_form(_form_values(initial_values(rule) | values), access.request_grant(request), rule)
            answer = _save(request, rule.project, rule, form, status.HTTP_200_OK)
        if is_enabled != rule.is_enabled:
            rules.set_enabled(request._request, rule, is_enabled=is_enabled)
            answer.data["is_enabled"] = is_enabled
        return answer

    @extend_schema(operation_id="alert_rule_delete", responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        rules.delete(request._request, rules.get_rule(access.request_grant(request), pk))
        return Response(status=status.HTTP_204_NO_CONTENT)


def _save(request: Request, project: Project, rule: AlertRule, form: RuleForm, code: int) -> Response:
    """Save the form and return the rule, with the signing secret of a new webhook, or raise ValidationError."""
    if not form.is_valid():
        errors = form.errors.get_json_data()
        raise ValidationError(
            {
                "detail" if name == NON_FIELD_ERRORS else name: [entry["message"] for entry in entries]
                for name, entries in errors.items()
            }
        )
    secret = rules.save(request._request, project, rule, form)
    return Response({**_rule_json(rule), "webhook_secret": secret or None}, status=code)


def _values(request: Request) -> dict[str, Any]:
    values = dict(request.data) if isinstance(request.data, dict) else {}
    known = {*RuleForm.base_fields, "project", "is_enabled"}
    if unknown := sorted(values.keys() - known):
        raise ValidationError(dict.fromkeys(unknown, "Unknown field."))
    return values


def _form_values(values: dict[str, Any]) -> dict[str, Any]:
    """Return JSON values as a form has them: a list of e-mail addresses is one text."""
    emails = values.get("emails", "")
    return {**values, "emails": ",".join(map(str, emails)) if isinstance(emails, list) else emails}


def _alert_json(alert: Alert) -> dict[str, Any]:
    return {
        "id": alert.id,
        "rule": alert.rule.name,
        "kind": alert.rule.kind,
        "project": alert.rule.project.slug,
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
