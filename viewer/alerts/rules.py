"""Create, change, pause and delete alert rules, for the pages and the REST API. Every change is in the audit log."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.http import Http404, HttpRequest

from ingest.cells import cells_of
from ingest.models import Project
from viewer.accounts import access
from viewer.accounts.access import Grant, Right
from viewer.accounts.forms import current_user
from viewer.alerts import evaluation
from viewer.alerts.rule_form import MAX_RULES, RuleForm
from viewer.audit import log
from viewer.audit.log import Action
from viewer.models import Alert, AlertDelivery, AlertRule


def may_change(grant: Grant, rule: AlertRule) -> bool:
    """Return True for the owner of a rule, and for everyone who manages its project."""
    if grant.may(Right.MANAGE, rule.project_id):
        return True
    return grant.may(Right.KEYS, rule.project_id) and rule.created_by_id == grant.user_id


def get_rule(grant: Grant, pk: int) -> AlertRule:
    """Return a rule that the user may change, or raise Http404 or PermissionDenied."""
    rules = AlertRule.objects.select_related("project", "created_by")
    rule = rules.filter(pk=pk, project_id__in=list(grant.rights)).first()
    if rule is None:
        raise Http404
    grant.require(Right.KEYS, rule.project_id)
    if not may_change(grant, rule):
        raise access.permission_denied(Right.MANAGE)
    return rule


def new_form(values: Any, grant: Grant, project: Project) -> RuleForm:
    """Return the form of a new rule with the values that were sent."""
    form = RuleForm(values, may_payload=grant.may(Right.PAYLOAD, project.pk))
    if AlertRule.objects.filter(project=project).count() >= MAX_RULES:
        form.add_error(None, f"A project can have at most {MAX_RULES} alert rules.")
    return form


def change_form(values: Any, grant: Grant, rule: AlertRule) -> RuleForm:
    """Return the form of a stored rule with the values that were sent."""
    may_payload = grant.may(Right.PAYLOAD, rule.project_id)
    return RuleForm(values, may_payload=may_payload, has_webhook=bool(rule.webhook_url))


def save(request: HttpRequest, project: Project, rule: AlertRule, form: RuleForm) -> str:
    """Save a valid form. The user becomes the owner. Return the signing secret of a new webhook, shown once."""
    verb = "changed" if rule.pk else "created"
    with transaction.atomic():
        secret = form.save(rule, project, current_user(request))
        record(request, rule, verb)
    start(rule)
    return secret


def set_enabled(request: HttpRequest, rule: AlertRule, *, is_enabled: bool) -> None:
    """Pause a rule, or resume it from now on."""
    rule.is_enabled = is_enabled
    rule.matches, rule.suppressed_count, rule.problem = [], 0, ""
    rule.save(update_fields=["is_enabled", "matches", "suppressed_count", "problem"])
    if is_enabled:
        start(rule)
    record(request, rule, "resumed" if is_enabled else "paused")


def delete(request: HttpRequest, rule: AlertRule) -> None:
    """Delete a rule with its history."""
    cells = cells_of(rule.project_id)
    with transaction.atomic():
        record(request, rule, "deleted")
        AlertDelivery.objects.filter(cell__in=cells, alert__cell__in=cells, alert__rule=rule).delete()
        Alert.objects.filter(cell__in=cells, rule=rule).delete()
        rule.delete()


def start(rule: AlertRule) -> None:
    """Evaluate the project from now on. If no other rule was active, what happened in between does not count."""
    others = AlertRule.objects.filter(project_id=rule.project_id, is_enabled=True).exclude(pk=rule.pk)
    evaluation.start_project(rule.project_id, restart=not others.exists())


def record(request: HttpRequest, rule: AlertRule, verb: str) -> None:
    names = ("kind", "threshold", "window_minutes", "cooldown_minutes", "emails", "webhook_host", "includes_content")
    log.record(
        request,
        Action.ALERT_CHANGE,
        project_id=rule.project_id,
        target=f"alert rule {rule.name}",
        verb=verb,
        rule={name: getattr(rule, name) for name in names},
    )
