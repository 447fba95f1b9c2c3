"""Custom redaction rules of a project: patterns to hide, and exceptions to the built-in rules.

Rules apply to data that arrives after the change, and to transcripts that are shown or downloaded after it. Every
change is written to the audit log with its reason.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect

from ingest.decoding.door import project_rules
from ingest.decoding.door.project_rules import ProjectRules, redactor_for
from ingest.models import Project, RedactionRule
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.accounts.forms import current_user
from viewer.accounts.project_pages import get_project
from viewer.audit import log
from viewer.audit.log import Action
from viewer.page_response import send_page
from viewer.project_redactor import read_rules

_MAX_SAMPLE_CHARS = 20_000
_Kind = RedactionRule.Kind


@dataclass(frozen=True, slots=True)
class Trial:
    """A text as the server would store it. Nothing of it is kept."""

    sample: str
    result: str
    counts: Counter[str]
    name: str = ""
    pattern: str = ""


@access.requires(Right.MANAGE, "GET", "HEAD")
def rule_list(request: HttpRequest, slug: str) -> HttpResponseBase:
    return _render(request, get_project(request, slug))


@access.requires(Right.MANAGE, "POST")
def rule_add(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Add a pattern or an exception."""
    project = get_project(request, slug)
    rule = _posted_rule(request, project)
    reason = log.clean_input(request.POST.get("reason", ""))
    with transaction.atomic():
        # The lock makes the limit exact for two requests at once.
        Project.objects.select_for_update().get(pk=project.pk)
        problem = "Enter a reason. It is recorded in the audit log." if not reason else _find_problem(rule)
        if problem is None:
            rule.save()
            _record(request, rule, "added", reason)
    if problem is not None:
        messages.error(request, problem)
        return _render(request, project, draft=rule, status=400)
    messages.success(request, f"Added {rule}. New data is redacted with it within a few seconds.")
    return redirect("redaction-rules", slug)


@access.requires(Right.MANAGE, "POST")
def rule_remove(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    project = get_project(request, slug)
    rule = project.redaction_rules.filter(pk=pk).first()
    if rule is None:
        raise Http404
    reason = log.clean_input(request.POST.get("reason", ""))
    if not reason:
        messages.error(request, "Enter a reason. It is recorded in the audit log.")
        return redirect("redaction-rules", slug)
    with transaction.atomic():
        _record(request, rule, "removed", reason)
        rule.delete()
    messages.success(request, f"Removed {rule}.")
    return redirect("redaction-rules", slug)


@access.requires(Right.MANAGE, "POST")
def rule_try(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Show a text as the rules of the project leave it, with one more pattern if the form has one."""
    project = get_project(request, slug)
    sample = request.POST.get("sample", "")[:_MAX_SAMPLE_CHARS].replace("\r\n", "\n")
    pattern = request.POST.get("pattern", "").strip()
    rules = read_rules(project.pk)
    if pattern:
        problem = project_rules.find_pattern_problem("new_pattern", pattern)
        if problem is not None:
            messages.error(request, problem)
            return _render(request, project, trial=Trial(sample, "", Counter(), pattern=pattern), status=400)
        rules = ProjectRules(rules.id_key, (*rules.patterns, ("new_pattern", pattern)), rules.allow)
    result, counts = redactor_for.__wrapped__(rules).text(sample)
    return _render(request, project, trial=Trial(sample, result, counts, pattern=pattern))


def _posted_rule(request: HttpRequest, project: Project) -> RedactionRule:
    is_exception = request.POST.get("kind") == _Kind.ALLOW
    return RedactionRule(
        project=project,
        kind=_Kind.ALLOW if is_exception else _Kind.PATTERN,
        name="" if is_exception else request.POST.get("name", "").strip(),
        value=request.POST.get("value", "").strip().replace("\0", ""),
        created_by=current_user(request),
    )


def _find_problem(rule: RedactionRule) -> str | None:
    rules = RedactionRule.objects.filter(project=rule.project)
    if rules.count() >= project_rules.MAX_RULES:
        return f"A project has at most {project_rules.MAX_RULES} rules. Remove one first."
    if len(rule.value) > 500:
        return "Enter at most 500 characters."
    if rule.kind == _Kind.ALLOW:
        problem = project_rules.find_exception_problem(rule.value)
    else:
        problem = project_rules.find_pattern_problem(rule.name, rule.value)
        if problem is None and rules.filter(kind=rule.kind, name=rule.name).exists():
            problem = f"The project already has a pattern named {rule.name}."
    if problem is None and rules.filter(kind=rule.kind, value=rule.value).exists():
        problem = "The project already has this rule."
    return problem


def _record(request: HttpRequest, rule: RedactionRule, verb: str, reason: str) -> None:
    log.record(
        request,
        Action.REDACTION_CHANGE,
        project_id=rule.project_id,
        target=f"redaction of {rule.project.slug}",
        reason=reason,
        verb=verb,
        kind=str(rule.kind),
        name=rule.name,
        value=rule.value,
    )


def _render(
    request: HttpRequest,
    project: Project,
    *,
    draft: RedactionRule | None = None,
    trial: Trial | None = None,
    status: int = 200,
) -> HttpResponseBase:
    rules = list(project.redaction_rules.select_related("created_by").order_by("kind", "name", "value"))
    context: dict[str, Any] = {
        "project": project,
        "patterns": [rule for rule in rules if rule.kind == _Kind.PATTERN],
        "exceptions": [rule for rule in rules if rule.kind == _Kind.ALLOW],
        "rule_names": sorted(project_rules.RULE_NAMES),
        "draft_pattern": draft if draft is not None and draft.kind == _Kind.PATTERN else None,
        "draft_exception": draft if draft is not None and draft.kind == _Kind.ALLOW else None,
        "trial": trial,
        "trial_rules": sorted(trial.counts.items()) if trial else [],
    }
    return send_page(request, "accounts/redaction_rules.html", context, status=status)
