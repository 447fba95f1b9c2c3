"""The page of alerts: rules, their form, a test button, and the history with deliveries."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone

from ingest.cells import cells_of
from ingest.models import Project
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.accounts.forms import no_store
from viewer.alerts import delivery, evaluation, rules
from viewer.alerts.conditions import Decision
from viewer.alerts.messages import describe_condition
from viewer.alerts.rule_form import LIMITS, RuleForm, initial_values, new_secret
from viewer.models import Alert, AlertDelivery, AlertRule
from viewer.page_frame import current_project
from viewer.page_response import send_page

PAGE_SIZE = 50
_HOME_ALERTS = 3


@access.requires(Right.SESSIONS)
def alert_list(request: HttpRequest) -> HttpResponseBase:
    return _render_list(request)


@access.requires(Right.KEYS, "GET", "HEAD", "POST")
def rule_new(request: HttpRequest) -> HttpResponseBase:
    """The form of a new rule in the current project."""
    project = current_project(request, Right.KEYS)
    assert project is not None
    if request.method != "POST":
        return _render_form(request, project, RuleForm(), None)
    form = rules.new_form(request.POST, access.request_grant(request), project)
    if not form.is_valid():
        return _render_form(request, project, form, None)
    return _save(request, project, AlertRule(), form)


@access.requires(Right.KEYS, "GET", "HEAD", "POST")
def rule_edit(request: HttpRequest, pk: int) -> HttpResponseBase:
    """The form of a rule. The user who saves it becomes its owner."""
    rule = rules.get_rule(access.request_grant(request), pk)
    if request.method != "POST":
        return _render_form(
            request, rule.project, RuleForm(initial=initial_values(rule), has_webhook=bool(rule.webhook_url)), rule
        )
    form = rules.change_form(request.POST, access.request_grant(request), rule)
    if not form.is_valid():
        return _render_form(request, rule.project, form, rule)
    return _save(request, rule.project, rule, form)


@access.requires(Right.KEYS, "POST")
def rule_toggle(request: HttpRequest, pk: int) -> HttpResponse:
    """Pause a rule, or resume it from now on."""
    rule = rules.get_rule(access.request_grant(request), pk)
    rules.set_enabled(request, rule, is_enabled=not rule.is_enabled)
    messages.success(request, f"{'Resumed' if rule.is_enabled else 'Paused'} {rule.name}.")
    return redirect("alert-list")


@access.requires(Right.KEYS, "POST")
def rule_test(request: HttpRequest, pk: int) -> HttpResponse:
    """Send a test alert now, and show the result of each delivery."""
    rule = rules.get_rule(access.request_grant(request), pk)
    now = timezone.now()
    with transaction.atomic():
        decision = Decision([], fires=True, figures={"count": 0, "worst": 0})
        alert = evaluation.fire(rule, decision, now, is_test=True)
        # Claimed, so that no schedule sends them too.
        sent = AlertDelivery.objects.filter(cell=alert.cell, alert_id=alert.id)
        sent.update(attempts=1, next_attempt_at=now + timedelta(minutes=5))
    deliveries = list(delivery.with_alerts(sent, alert.cell))
    delivery.deliver_now(deliveries)
    for entry in deliveries:
        if entry.state == AlertDelivery.State.SENT:
            messages.success(request, f"Test sent to {entry.recipient}: {entry.result}.")
        else:
            messages.error(request, f"The test to {entry.recipient} failed. {entry.result}")
    return redirect("alert-list")


@access.requires(Right.KEYS, "POST")
def rule_secret(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Replace the signing secret of a webhook. The new one is shown once."""
    rule = rules.get_rule(access.request_grant(request), pk)
    if not rule.webhook_url:
        messages.error(request, "This rule has no webhook.")
        return redirect("alert-list")
    secret = new_secret(rule)
    rule.save(update_fields=["webhook_secret"])
    rules.record(request, rule, "secret replaced")
    return _render_list(request, {"text": secret, "label": f"Signing secret of {rule.name}"})


@access.requires(Right.KEYS, "POST")
def rule_delete(request: HttpRequest, pk: int) -> HttpResponse:
    """Delete a rule with its history."""
    rule = rules.get_rule(access.request_grant(request), pk)
    rules.delete(request, rule)
    messages.success(request, f"Deleted {rule.name}.")
    return redirect("alert-list")


def recent_alerts(project_id: int, since: datetime) -> list[Alert]:
    """Return the newest alerts of a project since a time, for the home page. Tests are left out."""
    alerts = Alert.objects.filter(cell__in=cells_of(project_id), fired_at__gte=since, is_test=False)
    return list(alerts.select_related("rule").order_by("-fired_at")[:_HOME_ALERTS])


def visible_alerts(project_ids: frozenset[int] | list[int]) -> QuerySet[Alert]:
    cells = cells_of(*project_ids)
    newest = Alert.objects.filter(cell__in=cells).order_by("-id").select_related("rule__project")
    return newest.prefetch_related(Prefetch("deliveries", AlertDelivery.objects.filter(cell__in=cells).order_by("id")))


def _render_list(request: HttpRequest, secret: dict[str, str] | None = None) -> HttpResponseBase:
    project = current_project(request)
    assert project is not None
    known = {"project": project, "is_evaluating": settings.ALERT_INTERVAL_S > 0, "new_secret": secret}
    return no_store(send_page(request, "alerts/alert_list.html", known, lambda: _list_context(request, project)))


def _list_context(request: HttpRequest, project: Project) -> dict[str, Any]:
    grant = access.request_grant(request)
    stored = AlertRule.objects.filter(project=project).select_related("created_by").order_by("name", "pk")
    before = request.GET.get("before", "")
    alerts = visible_alerts([project.pk])
    if before.isascii() and before.isdigit() and len(before) < 18:
        alerts = alerts.filter(id__lt=int(before))
    page = list(alerts[: PAGE_SIZE + 1])
    return {
        "rules": [(rule, describe_condition(rule), rules.may_change(grant, rule)) for rule in stored],
        "alerts": page[:PAGE_SIZE],
        "next": page[PAGE_SIZE - 1].id if len(page) > PAGE_SIZE else None,
        "may_create": grant.may(Right.KEYS, project.pk),
    }


def _render_form(request: HttpRequest, project: Project, form: RuleForm, rule: AlertRule | None) -> HttpResponseBase:
    context = {
        "project": project,
        "form": form,
        "rule": rule,
        "kinds": [(kind.value, kind.label, unit) for kind, (_, unit) in LIMITS.items()],
        "may_payload": access.request_grant(request).may(Right.PAYLOAD, project.pk),
        "has_email": bool(settings.EMAIL_HOST),
    }
    return send_page(request, "alerts/rule_form.html", context)


def _save(request: HttpRequest, project: Project, rule: AlertRule, form: RuleForm) -> HttpResponseBase:
    secret = rules.save(request, project, rule, form)
    if secret:
        return _render_list(request, {"text": secret, "label": f"Signing secret of {rule.name}"})
    messages.success(request, f"Saved {rule.name}.")
    return redirect("alert-list")
